import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { NGINX, publishAddress } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { STACK, withPort } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { getInside, NAME } from "./shop.ts";

// The README's "When not to use it": with `ipMode: Proxy`, kube-proxy short-circuits nothing, so there is nothing to
// cure.

export const needs = ["node"];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
});

after(async () => {
  await publishAddress(cluster, NGINX);
});

test("with ipMode VIP a pod that did not opt in gets no answer", async () => {
  for (const address of NGINX.addresses)
    assert.match((await getInside(cluster, `http://${NAME}/`, address)).error ?? "", /EOF/);
});

test("with ipMode Proxy the same pod reaches the load balancer and is answered", async () => {
  await publishAddress(cluster, NGINX, "Proxy");
  for (const address of NGINX.addresses) {
    const answer = await cluster.until("kube-proxy leaves the address alone", 30, async () => {
      const got = await getInside(cluster, `http://${NAME}/`, address);
      return got.status === 200 ? got : undefined;
    });
    assert.equal(answer.remote, withPort(address, 80));
  }
});

/** Tests kube-proxy's rule that `controller/targets/service-view.ts` copies. */
if (STACK === "dual-stack") {
  test("if a Service has only IPv4, kube-proxy leaves the IPv6 address of its load balancer alone", async () => {
    await publishAddress(cluster, NGINX);
    await setFamilies({ ipFamilyPolicy: "SingleStack" });
    const [four = "", six = ""] = NGINX.addresses;
    await cluster.until("the IPv6 address leads to the load balancer", 30, async () => {
      return (await getInside(cluster, `http://${NAME}/`, six)).status === 200 || undefined;
    });
    assert.match((await getInside(cluster, `http://${NAME}/`, four)).error ?? "", /EOF/);
    await setFamilies({ ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv4", "IPv6"] });
    await cluster.until("the IPv6 address is short-circuited again", 30, async () => {
      return /EOF/.test((await getInside(cluster, `http://${NAME}/`, six)).error ?? "") || undefined;
    });
  });
}

async function setFamilies(spec: object): Promise<void> {
  const { namespace, service } = NGINX;
  const patch = ["--type=merge", "-p", JSON.stringify({ spec })];
  await cluster.kubectl("-n", namespace, "patch", "service", service, ...patch);
}
