import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { Cluster } from "../cluster/cluster.ts";
import { admissionCounts, createPods, type MadePod } from "./concurrent-pods.ts";
import { inClient, OPTED_IN } from "./opted-in.ts";
import { NAME } from "./shop.ts";
import { frontAddress, SYSTEM } from "./switchback.ts";

/** The output of the client's `load` (programs/client.ts). */
export interface Load {
  readonly answered: number;
  readonly reused: number;
  readonly errors: readonly string[];
  readonly stopped: boolean;
}

/** Much longer than a change of the release takes. `stop` ends the load. */
const LOAD_SECONDS = 300;
/**
 * The streams take 20 s, which is less than a stopping proxy gives its connections. There are several, so that each
 * proxy has some.
 */
const URLS = [`http://${NAME}/`, `https://${NAME}/`, `http://${NAME}/slow`, ...Array(4).fill(`http://${NAME}/stream`)];

/** The names that the webhook gave to a pod. */
function hostnames({ spec }: MadePod): string[] {
  return (spec.hostAliases ?? []).flatMap((alias) => alias.hostnames);
}

/**
 * Checks that users notice nothing of a change of the release, while pods are created and connections are open. The
 * cluster must have the shop and the pod of `optIn`.
 */
export async function unnoticed(cluster: Cluster, t: TestContext, exchange: () => Promise<void>): Promise<void> {
  const before = await noticeable(cluster);
  const load = inClient(cluster, "load", String(LOAD_SECONDS), ...URLS);
  const exchanged = { done: false };
  const pods = createPods(cluster, exchanged, (pod) => hostnames(pod).join(" "));
  const started = performance.now();
  try {
    await exchange();
  } finally {
    exchanged.done = true;
    await inClient(cluster, "stop");
  }
  const made = await pods;
  const { answered, reused, errors, stopped } = JSON.parse(await load) as Load;
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  t.diagnostic(
    `${seconds} s: ${made.length} pods were made, ${answered} requests answered, ${reused} on kept connections`,
  );
  assert.ok(made.length > 10 && made.every((names) => names.split(" ").includes(NAME)), "every pod has the name");
  const times = ["--field-selector=reason=Killing", "-o=custom-columns=:.lastTimestamp,:.involvedObject.name"];
  if (errors.length > 0) t.diagnostic(await cluster.kubectl("-n", SYSTEM, "get", "events", ...times));
  assert.deepEqual(errors, []);
  assert.ok(stopped, "requests were in flight until the end");
  assert.ok(answered > 300 && reused > 100, `only ${answered} requests, ${reused} on kept connections`);
  assert.deepEqual(await noticeable(cluster), before);
}

/**
 * What must be the same after the change: the counts of failed webhook calls, the restarts of pods, and the address
 * of the name.
 */
async function noticeable(cluster: Cluster) {
  const admission = await admissionCounts(cluster);
  return { admission, running: await running(cluster), address: await frontAddress(cluster, "ingress-nginx") };
}

/** Users' pods with their number of restarts. */
async function running(cluster: Cluster): Promise<string[]> {
  const jsonpath = "{range .items[*]}{.metadata.uid} {.status.containerStatuses[0].restartCount}{'\\n'}{end}";
  const text = await cluster.kubectl("-n", OPTED_IN, "get", "pods", "-l", "app", "-o", `jsonpath=${jsonpath}`);
  return text.trim().split("\n").sort();
}
