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

// An upgrade changes a setting and replaces every process. Users who create pods or call public names must not notice
// it.

export const needs: string[] = [];

const COMPONENTS = ["controller", "webhook", "proxy"];
/** Much longer than the upgrade takes. */
const LOAD_SECONDS = 200;
const SETTLE_MS = 5_000;

/**
 * Answers that take 20 s, which is less than the time that a stopping proxy gives its connections. There are several,
 * so that each proxy has some at any time.
 */
const STREAMS = Array.from({ length: 4 }, () => `http://${NAME}/stream`);
// The client also requests the first URL on kept connections. A stand-in has no certificate, so it has no HTTPS URL.
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
 * Upgrades with a setting that shows in the webhook's log. An annotation that changes at each run replaces all pods.
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

test("helm upgrade does not disturb the creation of pods, requests, kept connections and long answers", async (t) => {
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

test("the setting is in force: the webhook logs every pod", async () => {
  await optIn(cluster);
  await cluster.until("the new pod in the webhook's log", 30, async () => {
    const log = await cluster.logs(SYSTEM, "app.kubernetes.io/component=webhook");
    return log.includes("pod answered") || undefined;
  });
});
