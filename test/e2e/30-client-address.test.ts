import assert from "node:assert/strict";
import { isIP } from "node:net";
import { before, test } from "node:test";
import { type LoadBalancer, NGINX, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { FAMILIES } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { clientAddresses, getMapped, optIn } from "./opted-in.ts";
import { CERTIFICATE, gatewayAndRoute, ingress, NAME } from "./shop.ts";
import { publishedMap } from "./switchback.ts";

// The ingress controllers see the address of the calling pod, not that of the relay.

export const needs = ["node"];

const AT_TRAEFIK = "traefik.example.com";
const BY_ROUTE = "route.example.com";

let cluster: Cluster;
let addresses: string[];

before(async () => {
  cluster = await withCluster();
  await cluster.apply(
    ingress("at-traefik", AT_TRAEFIK, "traefik"),
    ...gatewayAndRoute("by-route", BY_ROUTE, CERTIFICATE),
  );
  await cluster.until("the names are published", 30, async () => {
    const map = await publishedMap(cluster);
    return [AT_TRAEFIK, BY_ROUTE].every((name) => map.includes(name)) || undefined;
  });
  await optIn(cluster);
  addresses = await clientAddresses(cluster);
  assert.equal(addresses.length, FAMILIES.length);
});

/** The line in each access log about a request by the pod. */
const CASES = [
  {
    what: "nginx, PROXY v1",
    url: `http://${NAME}/`,
    balancer: NGINX,
    line: (ip: string) => `client=${ip} host=${NAME}`,
  },
  { what: "nginx, PROXY v1", url: `https://${NAME}/`, balancer: NGINX, line: (ip: string) => `client=${ip} tls 200` },
  { what: "Traefik, PROXY v2", url: `http://${AT_TRAEFIK}/`, balancer: TRAEFIK, line: (ip: string) => `${ip} - - ` },
  { what: "Traefik, PROXY v2", url: `https://${AT_TRAEFIK}/`, balancer: TRAEFIK, line: (ip: string) => `${ip} - - ` },
  {
    what: "Traefik by HTTPRoute, v2",
    url: `http://${BY_ROUTE}/`,
    balancer: TRAEFIK,
    line: (ip: string) => `${ip} - - `,
  },
  {
    what: "Traefik by HTTPRoute, v2",
    url: `https://${BY_ROUTE}/`,
    balancer: TRAEFIK,
    line: (ip: string) => `${ip} - - `,
  },
];

for (const { what, url, balancer, line } of CASES) {
  test(`${what}: ${url} is answered, and the log has the pod's address`, async () => {
    const since = new Date();
    for (const address of addresses) {
      const answer = await getMapped(cluster, url, isIP(address));
      assert.equal(answer.status, 200, JSON.stringify(answer));
      assert.match(answer.body ?? "", /^the shop /);
      await cluster.until(
        `a log line with ${address}`,
        15,
        async () => (await accessLog(balancer, since)).includes(line(address)) || undefined,
      );
    }
  });
}

async function accessLog({ namespace, service }: LoadBalancer, since: Date): Promise<string> {
  return await cluster.logs(namespace, `app=${service}`, since);
}
