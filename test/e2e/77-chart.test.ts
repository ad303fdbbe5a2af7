import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { admissionCounts, clientRevision } from "./concurrent-pods.ts";
import { optIn } from "./opted-in.ts";
import { openShop } from "./shop.ts";
import { installSwitchback, SYSTEM } from "./switchback.ts";

// What only a real node can test of the chart: the check after an install, and a webhook in its node's network.

export const needs = ["ipv4"];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  // A node has the webhook's port only once.
  await installSwitchback(cluster, {
    installCheck: { enabled: true },
    webhook: { hostNetwork: true, replicas: 1 },
  });
});
after(() => installSwitchback(cluster));

test("a webhook in the node's network has the node's address, and new pods are injected", async () => {
  const pods = await cluster.get<{
    items: { metadata: { deletionTimestamp?: string }; status: { podIP: string; hostIP: string } }[];
  }>("-n", SYSTEM, "pods", "-l", "app.kubernetes.io/component=webhook");
  // Pods of the earlier rollout drain for a while.
  const items = pods.items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const addresses = items.map(({ status }) => status.podIP);
  assert.ok(addresses.length > 0);
  assert.deepEqual(
    addresses,
    items.map(({ status }) => status.hostIP),
  );
  const countsBefore = await admissionCounts(cluster);
  await optIn(cluster);
  assert.notEqual(await clientRevision(cluster), "");
  assert.deepEqual(await admissionCounts(cluster), countsBefore, "no webhook call failed open or was rejected");
});
