import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Cluster } from "../cluster/cluster.ts";
import { setIpv6 } from "../cluster/node/network.ts";
import { withCluster } from "../cluster/whole.ts";
import { getMapped, optIn } from "./opted-in.ts";
import { NAME } from "./shop.ts";
import { frontAddresses, leaderStatus, publishedMap } from "./switchback.ts";

// A node of a dual-stack cluster loses IPv6. Its IPv6 packets vanish, without any error. Names have an address of each
// family.

export const needs = ["node", "dual-stack"];

const URL_OF_NAME = `http://${NAME}/`;
const REQUESTS = 20;

let cluster: Cluster;
let isLost = false;

before(async () => {
  cluster = await withCluster();
  await optIn(cluster);
});
after(async () => {
  if (isLost) await setIpv6("up");
});

test("requests over each family are answered", async () => {
  for (const family of [4, 6]) assert.equal((await getMapped(cluster, URL_OF_NAME, family)).status, 200);
});

test("without IPv6, every request that may choose its family is answered", async (t) => {
  await setIpv6("down");
  isLost = true;
  assert.notEqual((await getMapped(cluster, URL_OF_NAME, 6)).error ?? "", "", "IPv6 is lost");
  let slowest = 0;
  for (let request = 0; request < REQUESTS; request++) {
    const sent = performance.now();
    assert.equal((await getMapped(cluster, URL_OF_NAME)).status, 200);
    slowest = Math.max(slowest, performance.now() - sent);
  }
  t.diagnostic(`the slowest of ${REQUESTS} requests took ${Math.round(slowest)} ms, with the start of its process`);
});

test("without IPv6, the map keeps both addresses, and a controller leads", async () => {
  assert.equal((await leaderStatus(cluster)).leader, true);
  const map = await publishedMap(cluster);
  for (const front of await frontAddresses(cluster, "ingress-nginx"))
    assert.match(map, new RegExp(`^${front}\\s.*\\b${NAME}\\b`, "m"));
});

test("when IPv6 is back, requests over it are answered again", async () => {
  await setIpv6("up");
  isLost = false;
  await cluster.until("an answer by IPv6", 60, async () => {
    return (await getMapped(cluster, URL_OF_NAME, 6)).status === 200 || undefined;
  });
});
