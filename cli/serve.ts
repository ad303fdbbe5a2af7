import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { loadConfig } from "#lib/config/load.ts";
import { type ConnectFlags, connect, connectOptionsFrom, isInPod } from "#lib/kube/connect.ts";
import type { CliContext, ConfigFlags } from "#lib/process/context.ts";
import { clusterDomainFrom } from "#lib/process/resolv-conf.ts";
import type { ProcessContext, Starter } from "#lib/process/running.ts";
import { createLogger, type Logger } from "#lib/telemetry/log.ts";
import { configSections } from "./extras.ts";

/**
 * Loads and starts a component, and stops it on SIGTERM or SIGINT; a second signal ends the process at once. After an
 * unrecoverable failure, stops the component and throws that failure.
 */
export async function serve(
  component: string,
  load: () => Promise<Starter>,
  flags: ConfigFlags & ConnectFlags,
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
    connect: () => connect({ ...connectOptionsFrom(env, flags), userAgent: `switchback-${part}` }),
    // The command that started this process, with Node's flags.
    command: () => [process.execPath, ...process.execArgv, ...process.argv.slice(1)],
    as: contextOf,
  });
  const context = contextOf(component);
  const { log } = context;
  for (const warning of warnings) log.warn({ code: "config-ignored" }, warning);
  const start = await load();
  // The relay may have connections before the other parts have started.
  const stopping = untilSignal(log);
  const running = await start(config, context);
  const failure = await Promise.race([stopping, running.broken ?? new Promise<never>(() => {})]);
  await running.stop();
  log.info({}, "stopped");
  if (failure !== undefined) throw failure;
}

/** Reads the configuration of a component, with the sections of the extras. Throws `config-invalid`. */
export async function readConfig({ config: file, set }: ConfigFlags, unknown: "warn" | "refuse" = "warn") {
  return await loadConfig({ file, set, unknown, sections: await configSections() });
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
