import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Config } from "../config/schema.ts";
import { clusterDomainFrom } from "../controller/targets/cluster-domain.ts";
import type { KubeClient } from "../kube/client.ts";
import { connect, connectOptionsFrom, isInPod } from "../kube/connect.ts";
import type { Logger } from "../telemetry/log.ts";
import type { CliContext } from "./context.ts";

type Component = "controller" | "webhook" | "proxy" | "agent";

export interface ServeFlags {
  readonly config?: string;
  readonly set?: readonly string[];
}

/** A component that runs until `stop` is called. */
export interface Running {
  /** Drains; resolves when everything has finished. */
  stop(): Promise<void>;
  /** Resolves on an unrecoverable failure: the component is then stopped, and the process exits with an error. */
  readonly broken?: Promise<Error>;
}

/** What a component knows of its process: identity, addresses, log and the connection to the API server. */
export interface ProcessContext {
  readonly identity: string;
  readonly clusterDomain: string | undefined;
  readonly log: Logger;
  /** Whether it runs in a pod with a token, or KUBECONFIG is set. A user's default kubeconfig is not used. */
  readonly hasCluster: boolean;
  readonly connect: () => Promise<KubeClient>;
}

/**
 * Starts a component and stops it on SIGTERM or SIGINT; a second signal ends the process at once. After an unrecoverable failure,
 * stops the component and throws the failure.
 */
export async function serve(component: Component, flags: ServeFlags, { env }: CliContext): Promise<void> {
  const { config, warnings } = await readConfig(component, flags, env);
  const log = await createLog(config.log.level, component);
  for (const warning of warnings) log.warn({ code: "config-ignored" }, warning);
  const context: ProcessContext = {
    identity: env.POD_NAME ?? hostname(),
    clusterDomain: config.clusterDomain ?? clusterDomainFrom(readIfPresent("/etc/resolv.conf")),
    log,
    hasCluster: Boolean(env.KUBECONFIG) || isInPod(env),
    connect: () => connect({ ...connectOptionsFrom(env), userAgent: `switchback-${component}` }),
  };
  const running = await STARTERS[component](config, context);
  const failure = await Promise.race([untilSignal(log), running.broken ?? new Promise<never>(() => {})]);
  await running.stop();
  log.info({}, "stopped");
  if (failure !== undefined) throw failure;
}

async function createLog(level: string, component: Component): Promise<Logger> {
  if (component === "agent") return (await import("../telemetry/plain-log.ts")).createPlainLogger(level, component);
  return (await import("../telemetry/log.ts")).createLogger(level, component);
}

async function readConfig(component: Component, flags: ServeFlags, env: CliContext["env"]) {
  if (component === "agent") return (await import("./read-config.ts")).readConfigInChild(flags, env);
  const { loadConfig } = await import("../config/load.ts");
  return loadConfig({ file: flags.config, env, set: flags.set ?? [] });
}

type Starter = (config: Config, context: ProcessContext) => Promise<Running>;

/** Each starter loads only what it needs: express stays out of the proxy, node-forge out of the webhook. */
const STARTERS: Readonly<Record<Component, Starter>> = {
  controller: async (config, { connect: connectNow, ...rest }) => {
    const { runController } = await import("../controller/run.ts");
    return runController(config, { ...rest, client: await connectNow(), now: Date.now });
  },
  webhook: async (config, context) => (await import("./webhook.ts")).startWebhook(config, context),
  agent: async (config, context) => (await import("./agent.ts")).startAgent(config, context),
  proxy: async (config, context) => (await import("./proxy.ts")).startProxy(config, context),
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
