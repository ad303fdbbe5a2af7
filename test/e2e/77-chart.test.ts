import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { admissionCounts, clientRevision } from "./concurrent-pods.ts";
import { optIn } from "./opted-in.ts";
import { openShop } from "./shop.ts";
import { installSwitchback, restartAllOfCertManager, SYSTEM } from "./switchback.ts";

// Settings of the chart that only a real node can test: the check after an install, `helm test` (its pod runs the
// doctor), and a webhook in its node's network.

export const needs = ["node", "ipv4"];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  // A node has the webhook's port only once.
  await installSwitchback(cluster, {
    installCheck: { enabled: true },
    webhook: { hostNetwork: true, replicas: 1 },
    test: { probeNamespace: "default" },
  });
  // Otherwise, the doctor would report pods that opted in and have no names.
  await restartAllOfCertManager(cluster);
});
after(async () => {
  // A failed test leaves its pod.
  await cluster.kubectl("-n", SYSTEM, "delete", "pod", "switchback-test", "--ignore-not-found");
  await installSwitchback(cluster);
});

async function helmTest(): Promise<{ code: number; output: string }> {
  const { code, stdout, stderr } = await cluster.tool("helm", ["test", "switchback", "--namespace", SYSTEM]);
  return { code, output: stdout + stderr };
}

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

test("helm test passes, and leaves no account and no permissions", async () => {
  const { code, output } = await helmTest();
  assert.equal(code, 0, output);
  const kinds = "pods,serviceaccounts,rolebindings,clusterrolebindings";
  const left = await cluster.kubectl("get", kinds, "-A", "-o", "name");
  assert.doesNotMatch(left, /switchback-test/);
});

test("helm test fails if the doctor finds a fault", async () => {
  await cluster.kubectl("-n", SYSTEM, "scale", "deployment/switchback-webhook", "--replicas=0");
  await cluster.until("no webhook is left", 60, async () => {
    const pods = ["get", "pods", "-l", "app.kubernetes.io/component=webhook", "-o", "name"];
    return (await cluster.kubectl("-n", SYSTEM, ...pods)) === "" || undefined;
  });
  const { code, output } = await helmTest();
  assert.notEqual(code, 0, output);
  const report = await cluster.kubectl("-n", SYSTEM, "logs", "pod/switchback-test");
  assert.match(report, /webhook/);
});
