import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "../cluster/addons/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { IMAGES } from "../cluster/images.ts";
import { withCluster } from "../cluster/whole.ts";
import { inClient, OPTED_IN, optIn } from "./opted-in.ts";
import { NAME } from "./shop.ts";
import { installSwitchback } from "./switchback.ts";

// An upgrade that replaces every process: nobody who makes pods or calls public names may see it.

const LOAD_SECONDS = 75;
const REVISION = "switchback.dev/revision";

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await optIn(cluster);
});

test("helm upgrade with pods being created and requests in flight", async (t) => {
  const countsBefore = await admissionCounts();
  const load = inClient(
    cluster,
    "load",
    String(LOAD_SECONDS),
    `http://${NAME}/`,
    `https://${NAME}/`,
    `http://${NAME}/slow`,
  );
  const upgraded = { done: false };
  const pods = createPods(upgraded);
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
  const current = (await getRevisions("client"))[0];
  assert.ok(current, "the client carries a revision");
  assert.deepEqual(new Set(revisions), new Set([current]), "every pod carries the current revision");
  const { answered, errors } = JSON.parse(await load) as { answered: number; errors: string[] };
  t.diagnostic(`${answered} requests were answered meanwhile`);
  assert.deepEqual(errors, []);
  assert.ok(answered > 500, `only ${answered} requests`);
  assert.deepEqual(await admissionCounts(), countsBefore, "no webhook call failed open or was rejected");
});

/** One pod after the other until told to stop; the revision of each, "" where one has none. */
async function createPods(upgraded: { done: boolean }): Promise<string[]> {
  await cluster.kubectl("-n", OPTED_IN, "delete", "pods", "-l", "made=meanwhile", "--now", "--ignore-not-found");
  const container = { name: "main", image: IMAGES.goClient, imagePullPolicy: "Never", args: ["resolve", "localhost"] };
  for (let n = 0; !upgraded.done && n < 1000; n++) {
    await cluster.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace: OPTED_IN, name: `meanwhile-${n}`, labels: { made: "meanwhile" } },
      spec: {
        restartPolicy: "Never",
        securityContext: RESTRICTED_POD,
        // Bound to no node: it is about what the API server admits.
        nodeSelector: { "example.com/none": "true" },
        containers: [{ ...container, securityContext: RESTRICTED_CONTAINER }],
      },
    });
  }
  const revisions = await getRevisions("", "made=meanwhile");
  await cluster.kubectl("-n", OPTED_IN, "delete", "pods", "-l", "made=meanwhile", "--now");
  return revisions;
}

async function getRevisions(app: string, selector = `app=${app}`): Promise<string[]> {
  const { items } = await cluster.get<{ items: { metadata: { annotations?: Record<string, string> } }[] }>(
    ...["-n", OPTED_IN, "pods", "-l", selector],
  );
  return items.map(({ metadata }) => metadata.annotations?.[REVISION] ?? "");
}

/** What the API server has counted of our webhooks' failures. */
async function admissionCounts(): Promise<string[]> {
  const metrics = await cluster.kubectl("get", "--raw", "/metrics");
  return metrics
    .split("\n")
    .filter((line) => /^apiserver_admission_webhook_(fail_open_count|rejection_count)\{/.test(line))
    .filter((line) => line.includes("switchback"))
    .sort();
}
