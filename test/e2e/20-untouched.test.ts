import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setAlias, setText } from "../cluster/addons/internet.ts";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { COREFILE } from "../cluster/node/coredns.ts";
import { FAMILIES } from "../cluster/node/layout.ts";
import { clusterTarget } from "./cluster-target.ts";
import { inClient, optIn } from "./opted-in.ts";
import { RESOLVE } from "./programs/run.ts";
import { NAME, SHOP } from "./shop.ts";
import { openStandIn, prepared, resolvedPlainly } from "./stand-in.ts";
import { frontAddresses, resolvedLine } from "./switchback.ts";

// Pods and settings that did not opt in are unchanged.

export const needs: string[] = [];

const { other, target } = clusterTarget();

let cluster: Cluster;
/** How the name resolves without Switchback. */
let resolved = resolvedLine(NAME, NGINX.addresses);
let dns: unknown = { Corefile: COREFILE };

before(async () => {
  if (other !== undefined) {
    await openStandIn(other);
    dns = await dnsConfiguration(other);
    resolved = await resolvedPlainly(other);
  }
  cluster = await prepared();
  await optIn(cluster);
});

async function dnsConfiguration(of: Cluster): Promise<unknown> {
  const text = await of.kubectl("-n", "kube-system", "get", "configmap", "coredns", "--ignore-not-found", "-o", "json");
  return text === "" ? undefined : (JSON.parse(text) as { data: unknown }).data;
}

test("a pod that opted in resolves the name to the front Service", async () => {
  const fronts = await frontAddresses(cluster, target);
  assert.equal(fronts.length, FAMILIES.length);
  assert.equal(await inClient(cluster, RESOLVE, NAME), resolvedLine(NAME, fronts));
});

test("a pod that did not opt in resolves the name as before: to the load balancer, if there is one", async () => {
  await cluster.kubectl("-n", SHOP, "rollout", "restart", "deployment/client");
  await cluster.rolledOut(SHOP, "deployment/client");
  assert.equal(await resolvedPlainly(cluster), resolved);
  const pods = await cluster.kubectl("-n", SHOP, "get", "pods", "-o", "yaml");
  assert.doesNotMatch(pods, /switchback\.dev|hostAliases/);
});

test("the configuration of the cluster's DNS is unchanged, byte for byte", async (t) => {
  if (dns === undefined) return t.skip("this cluster has no ConfigMap kube-system/coredns");
  assert.deepEqual(await dnsConfiguration(cluster), dns);
});

const noDns = other !== undefined && "it takes a public DNS that a test may write to";
test("TXT and CNAME of a mapped name come from the public DNS, as DNS-01 needs them", { skip: noDns }, async () => {
  const challenge = `_acme-challenge.${NAME}`;
  await setText(cluster, challenge, "token-of-dns-01");
  assert.equal(await inClient(cluster, "txt", challenge), "token-of-dns-01");
  await setAlias(cluster, `www.${NAME}`, "elsewhere.example.net");
  assert.equal(await inClient(cluster, "cname", `www.${NAME}`), "elsewhere.example.net");
});
