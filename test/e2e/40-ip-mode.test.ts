import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { NGINX, publishAddress } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { getInside, NAME } from "./shop.ts";

// The README's "When not to use it": with `ipMode: Proxy` nothing is short-circuited, and there is nothing to cure.

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
});

after(async () => {
  await publishAddress(cluster, NGINX);
});

test("with ipMode VIP a pod that did not opt in gets no answer", async () => {
  assert.match((await getInside(cluster, `http://${NAME}/`)).error ?? "", /EOF/);
});

test("with ipMode Proxy the same pod reaches the load balancer, and is answered", async () => {
  await publishAddress(cluster, NGINX, "Proxy");
  const answer = await cluster.until("kube-proxy leaves the address alone", 30, async () => {
    const got = await getInside(cluster, `http://${NAME}/`);
    return got.status === 200 ? got : undefined;
  });
  assert.equal(answer.remote, `${NGINX.address}:80`);
});
