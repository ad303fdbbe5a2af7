import { setTimeout as delay } from "node:timers/promises";
import type { ControlPlane } from "#test/cluster/controlplane.ts";
import { NAMESPACE } from "./controller/process.ts";

const POLL_MS = 250;
const LONGEST_WAIT_MS = 120_000;
/** Hosts of the benchmark's Ingresses, both seeded and changed. */
const HOST = /\b(?:app|change)-\d+\.team-\w+\.example\.com\b/g;

/** Waits until this many of the benchmark's names are published, whatever document format the checkout uses. */
export async function untilPublished(cluster: ControlPlane, names: number): Promise<void> {
  const deadline = performance.now() + LONGEST_WAIT_MS;
  for (;;) {
    const { status, body } = await cluster.call({ path: `/api/v1/namespaces/${NAMESPACE}/configmaps` });
    if (status !== 200) throw new Error(`the ConfigMaps: ${status}`);
    const data = (body as { items: { data?: object }[] }).items.map((each) => each.data);
    const published = new Set(JSON.stringify(data).match(HOST)).size;
    if (published >= names) return;
    if (performance.now() > deadline) throw new Error(`${published} of ${names} names are published`);
    await delay(POLL_MS);
  }
}
