import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { clusterDomainFrom } from "#controller/targets/cluster-domain.ts";
import { loadConfig } from "#lib/config/load.ts";
import type { Config } from "#lib/config/schema.ts";
import { connect, connectOptionsFrom, isInPod } from "#lib/kube/connect.ts";
import { createLogger, type Logger } from "#lib/telemetry/log.ts";
import type { Component, ProcessContext, Running, ServeFlags } from "./component.ts";
import type { CliContext } from "./context.ts";

/**
 * Starts a component and stops it on SIGTERM or SIGINT; a second signal ends the process at once. After an unrecoverable failure,
 * stops the component and throws the failure.
 */
export async function serve(component: Component, flags: ServeFlags, { env }: CliContext): Promise<void> {
  const { config, warnings } = await loadConfig({ file: flags.config, env, set: flags.set, unknown: "warn" });
  const resolvConf = readIfPresent("/etc/resolv.conf");
  const clusterDomain = config.clusterDomain ?? clusterDomainFrom(resolvConf);
  const contextOf = (part: Component): ProcessContext => ({
    env,
    identity: env.POD_NAME ?? hostname(),
    clusterDomain,
    resolvConf,
    log: createLogger({ ...config.log, format: flags.logFormat ?? config.log.format }, part),
    hasCluster: Boolean(env.KUBECONFIG) || isInPod(env),
    connect: () => connect({ ...connectOptionsFrom(env), userAgent: `switchback-${part}` }),
    as: contextOf,
  });
  const context = contextOf(component);
  const { log } = context;
  for (const warning of warnings) log.warn({ code: "config-ignored" }, warning);
  const start = await LOADERS[component](flags);
  const running = await start(config, context);
  const failure = await Promise.race([untilSignal(log), running.broken ?? new Promise<never>(() => {})]);
  await running.stop();
  log.info({}, "stopped");
  if (failure !== undefined) throw failure;
}

type Starter = (config: Config, context: ProcessContext) => Promise<Running>;

/** Each loads only what it needs: express stays out of the proxy, node-forge out of the webhook. */
const LOADERS: Readonly<Record<Component, (flags: ServeFlags) => Promise<Starter>>> = {
  all: async () => (await import("./all.ts")).startAll,
  controller: async () => (await import("./controller.ts")).startController,
  webhook: async () => (await import("./webhook.ts")).startWebhook,
  agent: async () => (await import("./agent.ts")).startAgent,
  proxy: async () => (await import("./proxy.ts")).startProxy,
  dns: async () => (await import("./dns.ts")).startDns,
  publisher: async ({ publisher = "" }) => (await import("./publish.ts")).publisherStarter(publisher),
};

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
