import assert from "node:assert/strict";
import type { WorkloadStatus } from "../../running/report.ts";
import type { RunningPod } from "./kubelet.ts";
import { ingress } from "./objects.ts";
import { type System, until } from "./system.ts";

/** Workloads of one namespace, and how they follow the map. */
export class Following {
  readonly #system: System;
  readonly namespace: string;

  constructor(system: System, namespace: string) {
    this.#system = system;
    this.namespace = namespace;
  }

  async pods(name: string): Promise<RunningPod[]> {
    const args = ["-n", this.namespace, "get", "pods", "-l", `app=${name}`];
    const { items } = await this.#system.json<{ items: RunningPod[] }>(...args);
    return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  }

  async rolledOut(kind: string, name: string): Promise<void> {
    const what = `${kind.toLowerCase()}/${name}`;
    await this.#system.kubectl("-n", this.namespace, "rollout", "status", what, "--timeout=60s");
  }

  async statusOf(name: string): Promise<WorkloadStatus | undefined> {
    const { running } = await (await this.#system.leader()).status();
    return running?.workloads.find((each) => each.name === name && each.namespace === this.namespace);
  }

  /** Waits until the leader says so. */
  async codeIs(name: string, code: string): Promise<void> {
    let last: unknown;
    const told = async () => {
      const status = await this.statusOf(name);
      last = status;
      return status?.code === code;
    };
    await until(`${name} to be ${code}`, told).catch((error) => assert.fail(`${error}: ${JSON.stringify(last)}`));
  }

  /** How often a workload's spec was changed after it was made. */
  async changes(name: string, kind = "Deployment"): Promise<number> {
    const args = ["-n", this.namespace, "get", kind, name];
    const { metadata } = await this.#system.json<{ metadata: { generation: number } }>(...args);
    return metadata.generation - 1;
  }

  /** The same for a Deployment whose annotations change, told from the ReplicaSets it has made. */
  async restarts(name: string): Promise<number> {
    const args = ["-n", this.namespace, "get", "replicasets", "-l", `app=${name}`, "-o", "name"];
    return (await this.#system.kubectl(...args)).trim().split("\n").length - 1;
  }

  async addName(name: string): Promise<void> {
    await this.#system.apply(ingress(name.replaceAll(".", "-"), [name]));
    await this.#system.ready([name]);
  }
}
