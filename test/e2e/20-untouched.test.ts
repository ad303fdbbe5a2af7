import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setAlias, setText } from "../cluster/addons/internet.ts";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { COREFILE } from "../cluster/node/coredns.ts";
import { withCluster } from "../cluster/whole.ts";
import { inClient, optIn } from "./opted-in.ts";
import { NAME, SHOP } from "./shop.ts";
import { frontAddress } from "./switchback.ts";

// What did not opt in is as it was before.

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await optIn(cluster);
});

test("a pod that opted in resolves the name to the front Service", async () => {
  const front = await frontAddress(cluster, "ingress-nginx");
  assert.equal(await inClient(cluster, "resolve", NAME), `${NAME} ${front}`);
});

test("a pod that did not opt in resolves it to the load balancer, as before", async () => {
  await cluster.kubectl("-n", SHOP, "rollout", "restart", "deployment/client");
  await cluster.rolledOut(SHOP, "deployment/client");
  const { stdout } = await cluster.exec(`${SHOP}/deployment/client`, "/client", "resolve", NAME);
  assert.equal(stdout.trim(), `${NAME} ${NGINX.address}`);
  const pods = await cluster.kubectl("-n", SHOP, "get", "pods", "-o", "yaml");
  assert.doesNotMatch(pods, /switchback\.dev|hostAliases/);
});

test("the configuration of the cluster's DNS is byte for byte what it was", async () => {
  const { data } = await cluster.get<{ data: unknown }>("-n", "kube-system", "configmap", "coredns");
  assert.deepEqual(data, { Corefile: COREFILE });
});

test("TXT and CNAME of a mapped name come from the public DNS, as DNS-01 needs them", async () => {
  const challenge = `_acme-challenge.${NAME}`;
  await setText(cluster, challenge, "token-of-dns-01");
  assert.equal(await inClient(cluster, "txt", challenge), "token-of-dns-01");
  await setAlias(cluster, `www.${NAME}`, "elsewhere.example.net");
  assert.equal(await inClient(cluster, "cname", `www.${NAME}`), "elsewhere.example.net.");
});
