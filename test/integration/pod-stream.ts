import { setTimeout as delay } from "node:timers/promises";
import { type Pod, podObject } from "./objects.ts";
import type { System } from "./system.ts";

/** A request for a pod, and its answer. */
export interface Created {
  readonly name: string;
  /** HTTP status: 201, or that of the failure. */
  readonly status: number;
  readonly pod: Pod;
  /** `performance.now()` before the request and after the answer. */
  readonly sentAt: number;
  readonly answeredAt: number;
}

export interface StreamOptions {
  readonly namespace: string;
  /** Number of concurrent requests, over connections that are kept. Default 2. */
  readonly concurrency?: number;
  /** Pause of each concurrent worker between two pods, in milliseconds. Default 20. */
  readonly pauseMs?: number;
  /** Whether pods are really created, not only as a dry run. */
  readonly real?: boolean;
}

/** Creates pods until `stop` is called. `stop` returns all of them in the order of their answers. */
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
    /** The pods so far. */
    created: created as readonly Created[],
    async stop(): Promise<readonly Created[]> {
      stopped = true;
      await Promise.all(workers);
      return created;
    },
  };
}

/** The pods that were not created, with their answers. */
export function refused(created: readonly Created[]): string[] {
  return created
    .filter(({ status }) => status !== 201)
    .map(({ name, status, pod }) => `${name}: ${status} ${JSON.stringify(pod)}`);
}
