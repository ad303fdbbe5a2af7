import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { NGINX, publishAddress } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { STACK, withPort } from "../cluster/node/layout.ts";
import { setIpv6 } from "../cluster/node/network.ts";
import { withCluster } from "../cluster/whole.ts";
import { getMapped, optIn } from "./opted-in.ts";
import { getInside, NAME, TARGET } from "./shop.ts";
import { frontAddresses, leaderStatus, publishedMap } from "./switchback.ts";

// Which addresses kube-proxy short-circuits: the README's "When not to use it" (with `ipMode: Proxy` there is nothing
// to cure), and the rule about families that `controller/targets/service-view.ts` copies. Then a node of a dual-stack
// cluster loses IPv6: its IPv6 packets vanish without any error, and names have an address of each family.

export const needs: string[] = [];

const URL_OF_NAME = `http://${NAME}/`;
const REQUESTS = 20;

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
});

after(async () => {
  await publishAddress(cluster, NGINX);
});

test("with ipMode VIP, a pod that did not opt in gets no answer; with ipMode Proxy it is answered", async () => {
  for (const address of NGINX.addresses) await shortCircuited(address);
  await publishAddress(cluster, NGINX, "Proxy");
  for (const address of NGINX.addresses) await leftAlone(address);
});

/** Waits until kube-proxy leads an address to nginx itself, which ends connections without a header. */
async function shortCircuited(address: string): Promise<void> {
  await cluster.until(`no answer at ${address}`, 30, async () => {
    return /EOF/.test((await getInside(cluster, URL_OF_NAME, address)).error ?? "") || undefined;
  });
}

/** Waits until the load balancer answers at an address. */
async function leftAlone(address: string): Promise<void> {
  await cluster.until(`an answer at ${address}`, 30, async () => {
    const { status, remote } = await getInside(cluster, URL_OF_NAME, address);
    return (status === 200 && remote === withPort(address, 80)) || undefined;
  });
}

if (STACK === "dual-stack") {
  const [four = "", six = ""] = NGINX.addresses;

  test("if a Service has only IPv4, kube-proxy leaves the IPv6 address of its load balancer alone", async () => {
    await publishAddress(cluster, NGINX);
    for (const address of NGINX.addresses) await shortCircuited(address);
    await setFamilies({ ipFamilyPolicy: "SingleStack" });
    await leftAlone(six);
    await shortCircuited(four);
    await setFamilies({ ipFamilyPolicy: "PreferDualStack", ipFamilies: ["IPv4", "IPv6"] });
    await shortCircuited(six);
  });

  test("while a node drops IPv6 packets, every request that may choose its family is answered", async (t) => {
    await optIn(cluster);
    for (const family of [4, 6]) assert.equal((await getMapped(cluster, URL_OF_NAME, family)).status, 200);
    await setIpv6("down");
    try {
      assert.notEqual((await getMapped(cluster, URL_OF_NAME, 6)).error ?? "", "", "IPv6 is lost");
      let slowest = 0;
      for (let request = 0; request < REQUESTS; request++) {
        const sent = performance.now();
        assert.equal((await getMapped(cluster, URL_OF_NAME)).status, 200);
        slowest = Math.max(slowest, performance.now() - sent);
      }
      t.diagnostic(`the slowest of ${REQUESTS} requests took ${Math.round(slowest)} ms, with the start of its process`);
      assert.equal((await leaderStatus(cluster)).leader, true);
      const map = await publishedMap(cluster);
      for (const front of await frontAddresses(cluster, TARGET))
        assert.match(map, new RegExp(`^${front}\\s.*\\b${NAME}\\b`, "m"));
    } finally {
      await setIpv6("up");
    }
    await cluster.until("an answer by IPv6", 60, async () => {
      return (await getMapped(cluster, URL_OF_NAME, 6)).status === 200 || undefined;
    });
  });
}

async function setFamilies(spec: object): Promise<void> {
  const { namespace, service } = NGINX;
  const patch = ["--type=merge", "-p", JSON.stringify({ spec })];
  await cluster.kubectl("-n", namespace, "patch", "service", service, ...patch);
}
