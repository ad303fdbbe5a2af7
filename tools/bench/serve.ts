import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parse } from "yaml";
import type { ControlPlane } from "#test/cluster/controlplane.ts";
import { freePorts } from "#test/cluster/ports.ts";
import type { Component, Processes } from "#test/cluster/processes.ts";

/** This checkout. */
export const ROOT = join(import.meta.dirname, "..", "..");
/** The components' namespace: the default of their configuration. */
export const NAMESPACE = "switchback-system";
/** Set by the chart's _helpers.tpl for every component. */
export const MALLOC_ENV = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "524288" };

const READY_MS = 120_000;
/** Short, because it limits the precision of measured times to readiness. */
const POLL_MS = 5;

/** A process of the chart; `all` is the process of `profile: small`. */
export type ComponentName = "controller" | "webhook" | "proxy" | "all";

/** The Node flags that the chart gives a component. */
export function chartFlags(component: ComponentName): string[] {
  return parse(readFileSync(join(ROOT, "manifests", "chart", "values.yaml"), "utf8"))[component].nodeFlags;
}

type Settings = Readonly<Record<string, unknown>>;

export interface ServeOptions {
  /** The configuration, by section. Ports and addresses are added to it. */
  readonly config: Settings;
  /** Number of the replica from 0: each has its own name, and its own loopback address where it listens. */
  readonly replica?: number;
  /** Node flags in addition to those of the chart. */
  readonly nodeFlags?: readonly string[];
  /** A file for the longest slice of the event loop (mount.ts). */
  readonly slicesFile?: string;
}

/** A component as a separate process with the Node flags of the chart. */
export class Served {
  /** `performance.now()` at its start. */
  readonly startedAt = performance.now();
  readonly process: Component;
  readonly #health: string;

  constructor(process: Component, health: string) {
    this.process = process;
    this.#health = health;
  }

  get pid(): number {
    return this.process.pid;
  }

  /** Resolves to the time from the start until `/readyz` is OK, in milliseconds. */
  async ready(): Promise<number> {
    while (performance.now() - this.startedAt < READY_MS) {
      const response = await fetch(`${this.#health}/readyz`).catch(() => undefined);
      await response?.text();
      if (response?.status === 200) return performance.now() - this.startedAt;
      await this.rest(POLL_MS);
    }
    throw new Error(`${this.process.name} is not ready:\n${await this.process.logTail()}`);
  }

  /** Waits. Throws if the process has ended by then. */
  async rest(ms: number): Promise<void> {
    await delay(ms);
    const { name, exited } = this.process;
    if (exited !== undefined) throw new Error(`${name} ended (${exited}):\n${await this.process.logTail()}`);
  }

  async stop(): Promise<void> {
    await this.process.stop();
  }
}

/** Where components run. `folder` has their files, and the program as the image has it (manifests/bundle.ts). */
export interface Place {
  readonly cluster: ControlPlane;
  readonly folder: string;
  readonly processes: Processes;
}

/** Starts `switchback <component>` against the control plane. */
export async function serve(place: Place, component: ComponentName, options: ServeOptions): Promise<Served> {
  const { replica = 0, nodeFlags = [], slicesFile = "" } = options;
  const { cluster, folder, processes } = place;
  const address = `127.0.0.${replica + 1}`;
  const [port = 0] = await freePorts(1);
  const { hostname, port: apiPort } = new URL(cluster.url);
  const name = `${component}-${port}`;
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify(configOf(component, options.config, { address, port })));
  const mount = join(folder, "mount.mjs");
  // As JavaScript: to load TypeScript, a process needs memory that no pod uses.
  writeFileSync(mount, stripTypeScriptTypes(readFileSync(join(import.meta.dirname, "mount.ts"), "utf8")));
  const flags = [...chartFlags(component), ...nodeFlags, "--import", mount];
  const running = processes.start(
    name,
    process.execPath,
    [...flags, join(folder, "cli", "main.js"), component, "--config", file],
    {
      POD_NAME: `${component}-${replica}`,
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: apiPort,
      BENCH_SERVICE_ACCOUNT: serviceAccount(place),
      BENCH_SLICES: slicesFile,
      ...MALLOC_ENV,
    },
  );
  return new Served(running, `http://${component === "controller" ? "127.0.0.1" : address}:${port}`);
}

/** The configuration, with a free port for health and this replica's address. The controller has only a port. */
function configOf(component: ComponentName, config: Settings, at: { address: string; port: number }): Settings {
  const sections: Readonly<Record<ComponentName, Settings>> = {
    controller: { controller: { port: at.port } },
    webhook: { address: at.address, webhook: { healthPort: at.port, port: 0 } },
    proxy: { proxy: { address: at.address, healthPort: at.port } },
    all: {
      controller: { port: at.port },
      address: at.address,
      webhook: { port: 0, healthPort: 0 },
      proxy: { address: at.address, healthPort: 0 },
    },
  };
  return { ...config, ...sections[component] };
}

/** The directory that the kubelet would mount into a pod. */
function serviceAccount({ cluster, folder }: Place): string {
  const mounted = join(folder, "service-account");
  mkdirSync(mounted, { recursive: true });
  const files = { token: cluster.adminToken, "ca.crt": cluster.ca.cert, namespace: NAMESPACE };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(mounted, name), text, { mode: 0o600 });
  return mounted;
}
