import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { admissionCounts, clientRevision } from "./concurrent-pods.ts";
import { inClient, OPTED_IN, optIn } from "./opted-in.ts";
import { RESOLVE } from "./programs/run.ts";
import { NAME, resolvedPlainly } from "./shop.ts";
import { leaderStatus, SYSTEM, webhookAnswers } from "./switchback.ts";

// Switchback must never block a pod. Without the webhook, pods are created as if Switchback had never been there.

export const needs: string[] = [];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
});

after(async () => {
  await scale(2);
});

async function scale(replicas: number): Promise<void> {
  await cluster.kubectl("-n", SYSTEM, "scale", "deployment/switchback-webhook", `--replicas=${replicas}`);
  await cluster.rolledOut(SYSTEM, "deployment/switchback-webhook");
  await cluster.until(`${replicas} webhook pods`, 60, async () => {
    const pods = await cluster.get<{ items: unknown[] }>(
      ...["-n", SYSTEM, "pods", "-l", "app.kubernetes.io/component=webhook"],
    );
    return pods.items.length === replicas || undefined;
  });
}

test("without the webhook's pods, a pod is created and runs without names, and the API server counts it", async () => {
  const countsBefore = await admissionCounts(cluster);
  await scale(0);
  await optIn(cluster);
  await assert.rejects(clientRevision(cluster), /carries no revision/);
  assert.equal(await inClient(cluster, RESOLVE, NAME), await resolvedPlainly(cluster));
  assert.notDeepEqual(await admissionCounts(cluster), countsBefore, "the fail-open count rises");
});

test("the status of its namespace reports the pod as not injected", async () => {
  const client = await cluster.until("the pod is reported", 30, async () => {
    const { running } = await leaderStatus(cluster, "-n", OPTED_IN);
    return running?.workloads.find(({ namespace, notInjected }) => namespace === OPTED_IN && notInjected > 0);
  });
  assert.deepEqual([client.kind, client.name, client.notInjected, client.stale], ["Deployment", "client", 1, 1]);
  assert.equal(client.code, "restart-not-permitted");
});

test("when the webhook is back, new pods are injected again", async () => {
  await scale(2);
  await webhookAnswers(cluster);
  await optIn(cluster);
  assert.match(await clientRevision(cluster), /^[0-9a-f]+$/);
});
