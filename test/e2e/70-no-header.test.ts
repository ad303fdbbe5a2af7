import assert from "node:assert/strict";
import { before, test } from "node:test";
import { PLAIN } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withPort } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { getMapped, inClient, optIn } from "./opted-in.ts";
import { RESOLVE } from "./programs/run.ts";
import { getInside, getOutside, ingress } from "./shop.ts";
import { clusterIPs, publishedMap, resolvedLine } from "./switchback.ts";

// A load balancer without PROXY protocol, whose address does not answer to pods. Names lead to the ingress controller's
// own Service.

export const needs = ["node"];

const AT_PLAIN = "plain.example.com";

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await cluster.apply(ingress("at-plain", AT_PLAIN, "plain"));
  await cluster.until(
    "the name is published",
    30,
    async () => (await publishedMap(cluster)).includes(AT_PLAIN) || undefined,
  );
  await optIn(cluster);
});

test("the name works from outside", async () => {
  const answer = await cluster.until("it is routed", 30, async () => {
    const got = await getOutside(cluster, `http://${AT_PLAIN}/`, withPort(PLAIN.address, 80));
    return got.status === 200 ? got : undefined;
  });
  assert.match(answer.body ?? "", /^the shop /);
});

test("a pod that did not opt in gets a timeout", async () => {
  assert.match((await getInside(cluster, `http://${AT_PLAIN}/`)).error ?? "", /timeout|deadline/i);
});

test("a pod that opted in resolves the name to the Service's own ClusterIP, and is answered", async () => {
  const { namespace, service } = PLAIN;
  const addresses = await clusterIPs(cluster, namespace, service);
  assert.equal(await inClient(cluster, RESOLVE, AT_PLAIN), resolvedLine(AT_PLAIN, addresses));
  for (const scheme of ["http", "https"]) {
    const answer = await getMapped(cluster, `${scheme}://${AT_PLAIN}/`);
    assert.equal(answer.status, 200, JSON.stringify(answer));
  }
});
