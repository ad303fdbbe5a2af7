import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setAlias, setText } from "../cluster/addons/internet.ts";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { COREFILE } from "../cluster/node/coredns.ts";
import { FAMILIES } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { inClient, optIn } from "./opted-in.ts";
import { RESOLVE } from "./programs/run.ts";
import { NAME, resolvedPlainly, SHOP, TARGET } from "./shop.ts";
import { frontAddresses, resolvedLine } from "./switchback.ts";

// Pods and settings that did not opt in are unchanged.

export const needs: string[] = [];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await optIn(cluster);
});

test("a pod that opted in resolves the name to the front Service", async () => {
  const fronts = await frontAddresses(cluster, TARGET);
  assert.equal(fronts.length, FAMILIES.length);
  assert.equal(await inClient(cluster, RESOLVE, NAME), resolvedLine(NAME, fronts));
});

test("a pod that did not opt in resolves the name as before, to the load balancer", async () => {
  await cluster.kubectl("-n", SHOP, "rollout", "restart", "deployment/client");
  await cluster.rolledOut(SHOP, "deployment/client");
  assert.equal(await resolvedPlainly(cluster), resolvedLine(NAME, NGINX.addresses));
  const pods = await cluster.kubectl("-n", SHOP, "get", "pods", "-o", "yaml");
  assert.doesNotMatch(pods, /switchback\.dev|hostAliases/);
});

test("the configuration of the cluster's DNS is unchanged, byte for byte", async () => {
  const { data } = await cluster.get<{ data: unknown }>("-n", "kube-system", "configmap", "coredns");
  assert.deepEqual(data, { Corefile: COREFILE });
});

test("TXT and CNAME of a mapped name come from the public DNS, as DNS-01 needs them", async () => {
  const challenge = `_acme-challenge.${NAME}`;
  await setText(cluster, challenge, "token-of-dns-01");
  assert.deepEqual(JSON.parse(await inClient(cluster, "records", "TXT", challenge)), { TXT: [["token-of-dns-01"]] });
  await setAlias(cluster, `www.${NAME}`, "elsewhere.example.net");
  const alias = await inClient(cluster, "records", "CNAME", `www.${NAME}`);
  assert.deepEqual(JSON.parse(alias), { CNAME: ["elsewhere.example.net"] });
});
