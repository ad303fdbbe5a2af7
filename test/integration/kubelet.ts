import { setTimeout as delay } from "node:timers/promises";
import { aliasesText, type KubeletFiles } from "../fakes/kubelet-files.ts";
import type { Pod } from "./objects.ts";
import type { System } from "./system.ts";

export interface RunningPod extends Pod {
  metadata: Pod["metadata"] & { uid: string; deletionTimestamp?: string };
  status: { phase?: string };
}

/** Does the kubelet's work for the pods of some namespaces: new pods run after a while, deleted pods are removed. */
export class Kubelet {
  /** How long a container takes to start, milliseconds. */
  startMs = 0;
  /** Pods whose name matches never become ready. */
  broken: RegExp | undefined;
  /** Pods whose name matches lose our annotations before they run, as if somebody had removed them. */
  stripped: RegExp | undefined;
  /** Where the hosts files of pods are written when they start, or undefined for nowhere. */
  files: KubeletFiles | undefined;
  readonly #system: System;
  readonly #namespaces: readonly string[];
  readonly #stop = new AbortController();
  readonly #seen = new Map<string, number>();
  readonly #running: Promise<void>;
  #address = 0;

  constructor(system: System, ...namespaces: readonly string[]) {
    this.#system = system;
    this.#namespaces = namespaces;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      // If the API server is down, the next round asks again.
      for (const namespace of this.#namespaces) await this.#round(namespace).catch(() => {});
      await delay(100, undefined, { signal: this.#stop.signal }).catch(() => {});
    }
  }

  async #round(namespace: string): Promise<void> {
    const { body } = await this.#system.cluster.call({ path: `/api/v1/namespaces/${namespace}/pods` });
    const { items = [] } = body as { items?: RunningPod[] };
    for (const pod of items) await this.#look(namespace, pod);
  }

  async #look(namespace: string, { metadata, spec, status }: RunningPod): Promise<void> {
    const { name, uid, deletionTimestamp } = metadata;
    if (deletionTimestamp !== undefined) {
      const path = `/api/v1/namespaces/${namespace}/pods/${name}?gracePeriodSeconds=0`;
      await this.#system.cluster.call({ method: "DELETE", path });
      return;
    }
    if (status.phase === "Running" || this.broken?.test(name)) return;
    const since = this.#seen.get(uid) ?? performance.now();
    this.#seen.set(uid, since);
    if (performance.now() - since < this.startMs) return;
    if (this.stripped?.test(name)) await this.#strip(namespace, name);
    this.files?.write(uid, aliasesText(spec.hostAliases));
    this.#address = (this.#address % 200) + 1;
    await this.#system.cluster.runPod(`${namespace}/${name}`, `203.0.113.${this.#address}`);
  }

  async #strip(namespace: string, name: string): Promise<void> {
    const keys = ["injected", "revision", "owned"].map((key) => [`switchback.dev/${key}`, null]);
    const body = { metadata: { annotations: Object.fromEntries(keys) } };
    const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
    await this.#system.cluster.call({ method: "PATCH", path, contentType: "application/merge-patch+json", body });
  }
}
