import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterTarget } from "./cluster-target.ts";
import { admissionCounts, clientRevision, createPods } from "./concurrent-pods.ts";
import { inClient, optIn } from "./opted-in.ts";
import { NAME } from "./shop.ts";
import { prepared } from "./stand-in.ts";
import { installSwitchback, SYSTEM } from "./switchback.ts";
import type { Load } from "./unnoticed.ts";

// An upgrade changes a setting and replaces every process. Users that create pods or call public names must not notice.

const COMPONENTS = ["controller", "webhook", "proxy"];
/** Far more than the upgrade takes. */
const LOAD_SECONDS = 200;
const SETTLE_MS = 5_000;

/**
 * Answers of 20 s: less than the time that a stopping proxy gives its connections. There are several, so that each
 * proxy has some at any time.
 */
const STREAMS = Array.from({ length: 4 }, () => `http://${NAME}/stream`);
// The first is asked on kept connections too. A stand-in has no certificate.
const URLS = [
  `http://${NAME}/`,
  ...(clusterTarget().other === undefined ? [`https://${NAME}/`] : []),
  `http://${NAME}/slow`,
  ...STREAMS,
];

let cluster: Cluster;

before(async () => {
  cluster = await prepared();
  await optIn(cluster);
});

async function podsOfOurs(): Promise<string[]> {
  const names = await cluster.kubectl("-n", SYSTEM, "get", "pods", "-o", "name");
  return names.split("\n").filter((name) => COMPONENTS.some((component) => name.includes(`switchback-${component}-`)));
}

/**
 * With a setting that shows in what the webhook logs. The pods have to be new ones: an annotation of theirs changes
 * at each run.
 */
async function upgrade(): Promise<void> {
  const old = await podsOfOurs();
  const annotations = { "example.com/upgraded": new Date().toISOString() };
  await installSwitchback(cluster, { config: { log: { level: "debug" } }, pods: { annotations } });
  await cluster.rolledOut(SYSTEM, ...COMPONENTS.map((component) => `deployment/switchback-${component}`));
  await cluster.until("the old pods have drained and are gone", 120, async () => {
    const now = await podsOfOurs();
    return old.every((name) => !now.includes(name)) || undefined;
  });
  await delay(SETTLE_MS);
}

test("helm upgrade with pods being created, and requests, kept connections and long answers in flight", async (t) => {
  const countsBefore = await admissionCounts(cluster);
  const load = inClient(cluster, "load", String(LOAD_SECONDS), ...URLS);
  const upgraded = { done: false };
  const pods = createPods(cluster, upgraded);
  try {
    await upgrade();
  } finally {
    upgraded.done = true;
    await inClient(cluster, "stop");
  }
  const revisions = await pods;
  t.diagnostic(`${revisions.length} pods were made meanwhile`);
  assert.ok(revisions.length > 10);
  const expected = new Set([await clientRevision(cluster)]);
  assert.deepEqual(new Set(revisions), expected, "every pod carries the current revision");
  const { answered, reused, errors, stopped } = JSON.parse(await load) as Load;
  t.diagnostic(`${answered} requests were answered meanwhile, ${reused} of them on connections that were there`);
  assert.deepEqual(errors, []);
  assert.ok(stopped, "requests were in flight until the end of the upgrade");
  assert.ok(answered > 500 && reused > 100, `only ${answered} requests, ${reused} on kept connections`);
  assert.deepEqual(await admissionCounts(cluster), countsBefore, "no webhook call failed open or was rejected");
});

test("the setting is in force: the webhook tells of every pod", async () => {
  await optIn(cluster);
  await cluster.until("the new pod in the webhook's log", 30, async () => {
    const log = await cluster.logs(SYSTEM, "app.kubernetes.io/component=webhook");
    return log.includes("pod answered") || undefined;
  });
});
