import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parse } from "yaml";
import type { ControlPlane } from "../test/cluster/controlplane.ts";
import { freePorts } from "../test/cluster/ports.ts";

const ROOT = join(import.meta.dirname, "..");
/** The components' namespace: the default of their config. */
export const NAMESPACE = "switchback-system";
const READY_MS = 60_000;
const POLL_MS = 25;

type Component = "controller" | "webhook" | "proxy";

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
};

/** Starts `switchback <component>` against the control plane. */
export async function serve(
  cluster: ControlPlane,
  component: Component,
  settings: readonly string[] = [],
  nodeFlags: readonly string[] = [],
): Promise<ServedProcess> {
  const [healthPort = 0] = await freePorts(1);
  const address = component === "controller" ? [] : [`${component}.address=127.0.0.1`];
  const set = [`${HEALTH_PORT[component]}=${healthPort}`, ...address, ...settings];
  const { hostname, port } = new URL(cluster.url);
  const log = join(cluster.folder, "logs", `${component}-${healthPort}.log`);
  const flags = [...chartFlags(component), ...nodeFlags, "--import", join(import.meta.dirname, "mount.ts")];
  const output = openSync(log, "w");
  const startedAt = performance.now();
  const child = spawn(process.execPath, [...flags, join(ROOT, "cli", "main.ts"), component, "--set", ...set], {
    env: {
      PATH: process.env.PATH,
      POD_NAME: `${component}-0`,
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
      BENCH_SERVICE_ACCOUNT: serviceAccount(cluster),
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
  const ready = () => Promise.race([untilReady(child, healthPort), ended]);
  return { pid, startedAt, healthPort, ended, ready, stop: () => end(child) };
}

/** The directory that the kubelet would mount. */
function serviceAccount(cluster: ControlPlane): string {
  const folder = join(cluster.folder, "service-account");
  mkdirSync(folder, { recursive: true });
  const files = { token: cluster.adminToken, "ca.crt": cluster.ca.cert, namespace: NAMESPACE };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 });
  return folder;
}

function chartFlags(component: Component): string[] {
  const values = parse(readFileSync(join(ROOT, "manifests", "chart", "values.yaml"), "utf8"));
  return values[component].nodeFlags;
}

async function untilReady(child: ChildProcess, port: number): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline && child.exitCode === null && child.signalCode === null) {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
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
