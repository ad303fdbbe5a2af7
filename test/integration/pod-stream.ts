import { setTimeout as delay } from "node:timers/promises";
import { type Pod, podObject } from "./objects.ts";
import type { System } from "./system.ts";

/** A pod that was asked for, and what came back. */
export interface Created {
  readonly name: string;
  /** HTTP status: 201, or why not. */
  readonly status: number;
  readonly pod: Pod;
  /** `performance.now()` before it was sent and after it was answered. */
  readonly sentAt: number;
  readonly answeredAt: number;
}

export interface StreamOptions {
  readonly namespace: string;
  /** Requests under way at a time, over connections that are kept. Default 2. */
  readonly concurrency?: number;
  /** Pause of each of them between two pods, milliseconds. Default 20. */
  readonly pauseMs?: number;
  /** Pods that are really made, not only as a dry run. */
  readonly real?: boolean;
}

/** Creates pods, one after the other, until `stop`, which gives all of them in the order of their answers. */
export function streamPods(system: System, options: StreamOptions) {
  const { namespace, concurrency = 2, pauseMs = 20, real = false } = options;
  const created: Created[] = [];
  let stopped = false;
  let count = 0;
  const path = `/api/v1/namespaces/${namespace}/pods${real ? "" : "?dryRun=All"}`;
  const workers = Array.from({ length: concurrency }, async () => {
    while (!stopped) {
      count += 1;
      const name = `p-${count}`;
      const sentAt = performance.now();
      const { status, body } = await system.cluster.call({ method: "POST", path, body: podObject(namespace, name) });
      created.push({ name, status, pod: body as Pod, sentAt, answeredAt: performance.now() });
      await delay(pauseMs);
    }
  });
  return {
    /** Those so far. */
    created: created as readonly Created[],
    async stop(): Promise<readonly Created[]> {
      stopped = true;
      await Promise.all(workers);
      return created;
    },
  };
}

/** Those that were not created. */
export function refused(created: readonly Created[]): string[] {
  return created
    .filter(({ status }) => status !== 201)
    .map(({ name, status, pod }) => `${name}: ${status} ${JSON.stringify(pod)}`);
}
