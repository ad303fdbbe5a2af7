import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { admissionCounts, clientRevision, createPods } from "./meanwhile.ts";
import { inClient, optIn } from "./opted-in.ts";
import { NAME } from "./shop.ts";
import { installSwitchback } from "./switchback.ts";

// An upgrade that replaces every process: nobody who makes pods or calls public names may see it.

const LOAD_SECONDS = 75;

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await optIn(cluster);
});

test("helm upgrade with pods being created and requests in flight", async (t) => {
  const countsBefore = await admissionCounts(cluster);
  const load = inClient(
    cluster,
    "load",
    String(LOAD_SECONDS),
    `http://${NAME}/`,
    `https://${NAME}/`,
    `http://${NAME}/slow`,
  );
  const upgraded = { done: false };
  const pods = createPods(cluster, upgraded);
  // The pods have to be new ones: an annotation of theirs changes at each run.
  const annotations = { "example.com/upgraded": new Date().toISOString() };
  await installSwitchback(cluster, { pods: { annotations } });
  for (const component of ["controller", "webhook", "proxy"]) {
    await cluster.rolledOut("switchback-system", `deployment/switchback-${component}`);
  }
  await delay(5_000);
  upgraded.done = true;
  const revisions = await pods;
  t.diagnostic(`${revisions.length} pods were made meanwhile`);
  assert.ok(revisions.length > 10);
  assert.deepEqual(
    new Set(revisions),
    new Set([await clientRevision(cluster)]),
    "every pod carries the current revision",
  );
  const { answered, errors } = JSON.parse(await load) as { answered: number; errors: string[] };
  t.diagnostic(`${answered} requests were answered meanwhile`);
  assert.deepEqual(errors, []);
  assert.ok(answered > 500, `only ${answered} requests`);
  assert.deepEqual(await admissionCounts(cluster), countsBefore, "no webhook call failed open or was rejected");
});
