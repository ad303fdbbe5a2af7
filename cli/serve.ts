import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { clusterDomainFrom } from "#controller/targets/cluster-domain.ts";
import { loadConfig } from "#lib/config/load.ts";

import { connect, connectOptionsFrom, isInPod } from "#lib/kube/connect.ts";
import type { CliContext, ConfigFlags } from "#lib/process/context.ts";
import type { ProcessContext, Starter } from "#lib/process/running.ts";
import { createLogger, type Logger } from "#lib/telemetry/log.ts";
import { configSections } from "./extras.ts";

/** A component that runs as a process. `all` is controller, webhook and proxy in one. */
type Component = "controller" | "webhook" | "proxy" | "all";

/** Runs one of Switchback's own components. */
export async function serve(component: Component, flags: ConfigFlags, context: CliContext): Promise<void> {
  await serveStarter(component, LOADERS[component], flags, context);
}

/**
 * Starts a component and stops it on SIGTERM or SIGINT; a second signal ends the process at once. After an
 * unrecoverable failure, stops the component and throws that failure.
 */
export async function serveStarter(
  component: string,
  load: () => Promise<Starter>,
  flags: ConfigFlags,
  { env }: CliContext,
): Promise<void> {
  const { config, warnings } = await readConfig(flags);
  const resolvConf = readIfPresent("/etc/resolv.conf");
  const clusterDomain = config.clusterDomain ?? clusterDomainFrom(resolvConf);
  const contextOf = (part: string): ProcessContext => ({
    env,
    identity: env.POD_NAME ?? hostname(),
    clusterDomain,
    resolvConf,
    log: createLogger(config.log, part),
    hasCluster: Boolean(env.KUBECONFIG) || isInPod(env),
    connect: () => connect({ ...connectOptionsFrom(env), userAgent: `switchback-${part}` }),
    command: sameCommand,
    as: contextOf,
  });
  const context = contextOf(component);
  const { log } = context;
  for (const warning of warnings) log.warn({ code: "config-ignored" }, warning);
  const start = await load();
  const running = await start(config, context);
  const failure = await Promise.race([untilSignal(log), running.broken ?? new Promise<never>(() => {})]);
  await running.stop();
  log.info({}, "stopped");
  if (failure !== undefined) throw failure;
}

/** Reads the configuration of a component, with the sections of the extras. Throws `config-invalid`. */
export async function readConfig({ config: file, set }: ConfigFlags) {
  return await loadConfig({ file, set, unknown: "warn", sections: await configSections() });
}

/** Each component loads only what it needs: the proxy does not load express, the webhook does not load node-forge. */
const LOADERS: Readonly<Record<Component, () => Promise<Starter>>> = {
  all: async () => (await import("./components/all.ts")).startAll,
  controller: async () => (await import("./components/controller.ts")).startController,
  webhook: async () => (await import("./components/webhook.ts")).startWebhook,
  proxy: async () => (await import("./components/proxy.ts")).startProxy,
};

/** The command that started this process, with Node's flags. */
function sameCommand(): readonly [string, ...string[]] {
  return [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
}

function untilSignal(log: Logger): Promise<undefined> {
  return new Promise((resolve) => {
    const onSignal = (signal: NodeJS.Signals) => {
      log.info({ signal }, "stopping");
      for (const name of ["SIGTERM", "SIGINT"] as const) {
        process.off(name, onSignal);
        process.once(name, () => process.exit(1));
      }
      resolve(undefined);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}

function readIfPresent(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
