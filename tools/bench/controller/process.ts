import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ControlPlane } from "#test/cluster/controlplane.ts";
import { freePorts } from "#test/cluster/ports.ts";
import { type Component, chartEnv, chartFlags, ROOT } from "../chart.ts";

const PROGRAM = join(ROOT, "cli", "main.ts");
/** The components' namespace: the default of their configuration. */
export const NAMESPACE = "switchback-system";
const LOCAL = "127.0.0.1";
const READY_MS = 180_000;
/** Short, because it limits the precision of measured times to readiness. */
const POLL_MS = 5;

interface ServeOptions {
  /** More Node flags, in addition to the chart's. */
  readonly nodeFlags?: readonly string[];
  /** The program and the tree of its chart. Default: this tree's TypeScript program. */
  readonly program?: { readonly path: string; readonly tree: string };
  /** Address on which the process listens; the controller ignores it. Default: 127.0.0.1. */
  readonly address?: string;
  /** Its POD_NAME: two controllers with the same name would share one Lease. */
  readonly podName?: string;
  /** URL of the API server if it is not the control plane's own, with the token to use there. */
  readonly through?: { readonly url: string; readonly token: string };
}

/** A component as a separate process, with the Node flags of the chart. */
export interface ServedProcess {
  readonly pid: number;
  /** `performance.now()` at its start. */
  readonly startedAt: number;
  readonly healthPort: number;
  /** Rejects with the end of the log when the process ends; never resolves. */
  readonly ended: Promise<never>;
  /** Resolves when `/readyz` is OK. */
  ready(): Promise<void>;
  stop(): Promise<void>;
}

/** The config key of each component's health port. */
const HEALTH_PORT: Readonly<Record<Component, string>> = {
  controller: "controller.port",
  webhook: "webhook.healthPort",
  proxy: "proxy.healthPort",
  agent: "agent.healthPort",
  dns: "podDns.healthPort",
  all: "controller.port",
};

/** Starts `switchback <component>` against the control plane. */
export async function serve(
  cluster: ControlPlane,
  component: Component,
  settings: readonly string[] = [],
  options: ServeOptions = {},
): Promise<ServedProcess> {
  const { nodeFlags = [], program = { path: PROGRAM, tree: ROOT }, podName = `${component}-0`, through } = options;
  // Only sections of the configuration have addresses, and the controller's has none.
  const hasAddress = component !== "controller" && component !== "all";
  const address = hasAddress ? (options.address ?? LOCAL) : LOCAL;
  const [healthPort = 0] = await freePorts(1);
  const listen = hasAddress ? [`${component === "dns" ? "podDns" : component}.address=${address}`] : [];
  const set = [`${HEALTH_PORT[component]}=${healthPort}`, ...listen, ...settings];
  const { hostname, port } = new URL(through?.url ?? cluster.url);
  const token = through?.token ?? cluster.adminToken;
  const log = join(cluster.folder, "logs", `${component}-${healthPort}.log`);
  const flags = [...chartFlags(component, program.tree), ...nodeFlags, "--import", mountModule(cluster)];
  const output = openSync(log, "w");
  const startedAt = performance.now();
  const child = spawn(process.execPath, [...flags, program.path, component, "--set", ...set], {
    env: {
      PATH: process.env.PATH,
      POD_NAME: through?.token ?? podName,
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
      BENCH_SERVICE_ACCOUNT: serviceAccount(cluster, token),
      ...chartEnv(component, program.tree),
    },
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  const { pid } = child;
  if (pid === undefined) throw new Error(`${component} did not start`);
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`${component} ended (${code}):\n${readFileSync(log, "utf8").slice(-2_000)}`);
  });
  ended.catch(() => {});
  const ready = () => Promise.race([untilReady(child, `${address}:${healthPort}`), ended]);
  return { pid, startedAt, healthPort, ended, ready, stop: () => end(child) };
}

/** The module as JavaScript: to load TypeScript, a process needs memory that no pod uses. */
function mountModule(cluster: ControlPlane): string {
  const path = join(cluster.folder, "mount.mjs");
  writeFileSync(path, stripTypeScriptTypes(readFileSync(join(import.meta.dirname, "..", "mount.ts"), "utf8")));
  return path;
}

/** The directory that the kubelet would mount into a pod. */
function serviceAccount(cluster: ControlPlane, token: string): string {
  const folder = join(cluster.folder, `service-account-${token}`);
  mkdirSync(folder, { recursive: true });
  const files = { token, "ca.crt": cluster.ca.cert, namespace: NAMESPACE };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 });
  return folder;
}

async function untilReady(child: ChildProcess, address: string): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline && child.exitCode === null && child.signalCode === null) {
    const response = await fetch(`http://${address}/readyz`).catch(() => undefined);
    await response?.text();
    if (response?.status === 200) return;
    await delay(POLL_MS);
  }
  throw new Error(`not ready after ${READY_MS / 1_000} s`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}
