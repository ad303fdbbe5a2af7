import assert from "node:assert/strict";
import { isIP } from "node:net";
import { after, before, test } from "node:test";
import { type LoadBalancer, NGINX, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { found } from "./gateways.ts";
import { clientAddresses, getMapped, optIn } from "./opted-in.ts";
import { CERTIFICATE, gatewayAndRoute, NAME, setIngressAddress } from "./shop.ts";
import { frontAddress, installSwitchback, leaderStatus, publishedMap } from "./switchback.ts";

// Two ingress controllers with different PROXY versions at the same time. No target is configured; they are found by
// their load balancers' addresses.

export const needs: string[] = [];

const BY_ROUTE = "gateway.example.com";
const PROTOCOL = "switchback.dev/proxy-protocol";
const BALANCERS = [NGINX, TRAEFIK];
const ROUTE = gatewayAndRoute("found", BY_ROUTE, CERTIFICATE);

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  for (const balancer of BALANCERS) await annotate(balancer, `${PROTOCOL}=${balancer.protocol}`);
  await cluster.apply(...ROUTE);
  await setIngressAddress(cluster, "app", NGINX.address);
  await installSwitchback(cluster, { config: { targets: [] } });
  await cluster.until("the names to lead to both targets", 60, async () => {
    const lines = (await publishedMap(cluster)).split("\n");
    const fronts = {
      [NAME]: await frontAddress(cluster, found(NGINX)),
      [BY_ROUTE]: await frontAddress(cluster, found(TRAEFIK)),
    };
    return Object.entries(fronts).every(([name, ip]) => lines.includes(`${ip} ${name}`)) || undefined;
  });
  await optIn(cluster);
});

after(async () => {
  await cluster.delete(...ROUTE);
  for (const balancer of BALANCERS) await annotate(balancer, `${PROTOCOL}-`);
  await setIngressAddress(cluster, "app", undefined);
  await installSwitchback(cluster);
});

async function annotate({ namespace, service }: LoadBalancer, annotation: string): Promise<void> {
  await cluster.kubectl("-n", namespace, "annotate", "service", service, "--overwrite", annotation);
}

const CASES = [
  {
    what: "by Ingress, PROXY v1",
    url: `http://${NAME}/`,
    balancer: NGINX,
    line: (ip: string) => `client=${ip} host=${NAME}`,
  },
  {
    what: "by Ingress, PROXY v1",
    url: `https://${NAME}/`,
    balancer: NGINX,
    line: (ip: string) => `client=${ip} tls 200`,
  },
  { what: "by HTTPRoute, PROXY v2", url: `http://${BY_ROUTE}/`, balancer: TRAEFIK, line: (ip: string) => `${ip} - - ` },
  {
    what: "by HTTPRoute, PROXY v2",
    url: `https://${BY_ROUTE}/`,
    balancer: TRAEFIK,
    line: (ip: string) => `${ip} - - `,
  },
];
for (const each of CASES) {
  test(`a target found ${each.what}: ${each.url} is answered, and the log has the pod's address`, () => arrives(each));
}

/**
 * Sends a request to a public name. It must be answered, and the ingress controller must see the pod's address, which
 * comes from the header.
 */
async function arrives({ url, balancer, line }: (typeof CASES)[number]): Promise<void> {
  const since = new Date();
  for (const address of await clientAddresses(cluster)) {
    const answer = await getMapped(cluster, url, isIP(address));
    assert.equal(answer.status, 200, JSON.stringify(answer));
    assert.match(answer.body ?? "", /^the shop /);
    await cluster.until(`a log line with ${address}`, 15, async () => {
      const log = await cluster.logs(balancer.namespace, `app=${balancer.service}`, since);
      return log.includes(line(address)) || undefined;
    });
  }
}

test("the status shows both targets with their versions, and says that DNS resolves the names to them", async () => {
  await cluster.until(
    "the names to be verified",
    60,
    async () => (await leaderStatus(cluster)).names.filter(({ resolved }) => resolved?.length).length >= 2 || undefined,
  );
  const { targets, warnings } = await leaderStatus(cluster);
  const versions = targets.map(({ name, upstream, ports }) => [
    name,
    upstream,
    ports.map(({ protocol }) => protocol).join(),
  ]);
  assert.deepEqual(versions.sort(), [
    [found(NGINX), `${NGINX.namespace}/${NGINX.service}`, "v1,v1"],
    [found(TRAEFIK), `${TRAEFIK.namespace}/${TRAEFIK.service}`, "v2,v2"],
  ]);
  assert.deepEqual(
    warnings.filter(({ code }) => code.startsWith("dns-")),
    [],
  );
});

test("after the Gateway's target changes its version, both of its names still arrive, by PROXY v1", async () => {
  await annotate(TRAEFIK, `${PROTOCOL}=v1`);
  await cluster.until("the target has v1", 30, async () => {
    const { targets } = await leaderStatus(cluster);
    const ports = targets.find(({ name }) => name === found(TRAEFIK))?.ports ?? [];
    return (ports.length === 2 && ports.every(({ protocol }) => protocol === "v1")) || undefined;
  });
  for (const each of CASES) if (each.balancer === TRAEFIK) await arrives(each);
});
