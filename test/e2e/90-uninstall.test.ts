import assert from "node:assert/strict";
import { before, test } from "node:test";
import { CERT_MANAGER } from "../cluster/addons/cert-manager.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { inClient, OPTED_IN } from "./opted-in.ts";
import { NAME } from "./shop.ts";
import { restartAllOfCertManager, SYSTEM } from "./switchback.ts";

// Leaving, in the order that the README gives.

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
});

test("the webhook goes first, then the pods that hold addresses of ours are made anew", async () => {
  await cluster.kubectl("delete", "mutatingwebhookconfiguration", "switchback-webhook");
  await restartAllOfCertManager(cluster);
  await cluster.kubectl("-n", OPTED_IN, "rollout", "restart", "deployment/client");
  await cluster.rolledOut(OPTED_IN, "deployment/client");
  await cluster.until("the old pods are gone", 60, async () => {
    const pods = await cluster.kubectl("get", "pods", "-A", "-o", "yaml");
    return !/switchback\.dev\/(owned|injected)/.test(pods) || undefined;
  });
});

test("then Switchback itself, and nothing of it is left", async () => {
  await cluster.helm("uninstall", "switchback", "--namespace", SYSTEM, "--wait");
  await cluster.kubectl("-n", SYSTEM, "delete", "services", "-l", "switchback.dev/target");
  await cluster.kubectl("delete", "namespace", SYSTEM, "--timeout=120s");
  const kinds = (await cluster.kubectl("api-resources", "--verbs=list", "-o", "name")).trim().split("\n");
  const listed = kinds.filter((kind) => !/^events|metrics\.k8s\.io$/.test(kind)).join(",");
  const left = (await cluster.kubectl("get", listed, "-A", "-o", "name")).split("\n");
  assert.deepEqual(
    left.filter((name) => name.includes("switchback")),
    [],
  );
});

test("a pod that had opted in reaches what it reached without us", async () => {
  assert.match(await inClient(cluster, "resolve", NAME), /192\.0\.2\.80$/);
  assert.match(await inClient(cluster, "get", `http://${NAME}/`), /EOF/);
  await cluster.kubectl("label", "namespace", CERT_MANAGER, "switchback.dev/inject-");
});
