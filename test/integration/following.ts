import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { Kubelet, type RunningPod } from "./kubelet.ts";
import { ingress, mapped, namespaceYaml } from "./objects.ts";
import { type System, startSystem, until } from "./system.ts";
import type { SystemOptions } from "./system-options.ts";

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

  /** Whether all pods of a workload were created with the name. */
  async haveName(name: string, hostname: string): Promise<boolean> {
    const pods = await this.pods(name);
    return pods.length > 0 && pods.every((pod) => mapped(pod).includes(hostname));
  }

  async rolledOut(kind: string, name: string): Promise<void> {
    const what = `${kind.toLowerCase()}/${name}`;
    await this.#system.kubectl("-n", this.namespace, "rollout", "status", what, "--timeout=60s");
  }

  async statusOf(name: string): Promise<WorkloadStatus | undefined> {
    const { running } = await (await this.#system.leader()).status();
    return running?.workloads.find((each) => each.name === name && each.namespace === this.namespace);
  }

  /** Waits until the leader reports this code for the workload. */
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

  /** Counts the restarts of a Deployment whose annotations change, by the ReplicaSets that it has created. */
  async restarts(name: string): Promise<number> {
    const args = ["-n", this.namespace, "get", "replicasets", "-l", `app=${name}`, "-o", "name"];
    return (await this.#system.kubectl(...args)).trim().split("\n").length - 1;
  }

  async addName(name: string): Promise<void> {
    await this.#system.apply(ingress(name.replaceAll(".", "-"), [name]));
    await this.#system.ready([name]);
  }
}

/** With a debounce of a second, every restart that is due happens well within this time. */
export const enoughToRestart = () => delay(4_000);

export interface FollowingSystem {
  readonly system: System;
  readonly kubelet: Kubelet;
  readonly follow: Following;
}

/**
 * Starts a system with a published name, webhooks that the controller sees, and an opted-in namespace whose pods run.
 */
export async function startFollowing(namespace: string, options: SystemOptions): Promise<FollowingSystem> {
  const system = await startSystem({ ...options, before: namespaceYaml(namespace, "enabled") });
  const kubelet = new Kubelet(system, namespace);
  try {
    const follow = new Following(system, namespace);
    await system.showWebhooks();
    await follow.addName("first.example.com");
    return { system, kubelet, follow };
  } catch (error) {
    await kubelet.stop();
    await system.stop();
    throw error;
  }
}
