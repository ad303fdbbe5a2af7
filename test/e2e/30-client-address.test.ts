import assert from "node:assert/strict";
import { isIP } from "node:net";
import { after, before, describe, test } from "node:test";
import type { FullStatus } from "#controller/status.ts";
import { type LoadBalancer, NGINX, PLAIN, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { FAMILIES, withPort } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { found } from "./gateways.ts";
import { clientAddresses, getMapped, inClient, optIn } from "./opted-in.ts";
import { RESOLVE } from "./programs/run.ts";
import { CERTIFICATE, gatewayAndRoute, getInside, getOutside, ingress, NAME, setIngressAddress } from "./shop.ts";
import { clusterIPs, frontAddress, installSwitchback, leaderStatus, publishedMap, resolvedLine } from "./switchback.ts";

// The ingress controllers see the address of the calling pod, not that of the relay. Two of them have different PROXY
// versions at the same time; their targets are configured, and then found by their load balancers' addresses.

export const needs: string[] = [];

const AT_TRAEFIK = "traefik.example.com";
const AT_PLAIN = "plain.example.com";
const BY_ROUTE = "route.example.com";
const OBJECTS = [
  ingress("at-traefik", AT_TRAEFIK, "traefik"),
  ingress("at-plain", AT_PLAIN, "plain"),
  ...gatewayAndRoute("by-route", BY_ROUTE, CERTIFICATE),
];
const ANNOTATION = "switchback.dev/proxy-protocol";
const BALANCERS = [NGINX, TRAEFIK];

/** A name, and the load balancer of the ingress controller that serves it. */
interface Served {
  readonly name: string;
  readonly balancer: LoadBalancer;
}

const BY_INGRESS: Served = { name: NAME, balancer: NGINX };
const BY_GATEWAY: Served = { name: BY_ROUTE, balancer: TRAEFIK };

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await cluster.apply(...OBJECTS);
  await cluster.until("the names are published", 30, async () => {
    const map = await publishedMap(cluster);
    return [AT_TRAEFIK, AT_PLAIN, BY_ROUTE].every((name) => map.includes(name)) || undefined;
  });
  await optIn(cluster);
});

after(async () => {
  await cluster.delete(...OBJECTS);
  for (const balancer of BALANCERS) await annotate(balancer, `${ANNOTATION}-`);
  await setIngressAddress(cluster, "app", undefined);
  await installSwitchback(cluster);
});

async function annotate({ namespace, service }: LoadBalancer, annotation: string): Promise<void> {
  await cluster.kubectl("-n", namespace, "annotate", "service", service, "--overwrite", annotation);
}

/** The line in an access log about a request of a pod. */
function lineOf({ name, balancer }: Served, scheme: string, ip: string): string {
  if (balancer === TRAEFIK) return `${ip} - - `;
  return scheme === "https" ? `client=${ip} tls 200` : `client=${ip} host=${name}`;
}

/**
 * Sends requests to a public name over each family. They must be answered, and the ingress controller must see the
 * pod's address, which comes from the header.
 */
async function arrives(served: Served): Promise<void> {
  const { namespace, service } = served.balancer;
  const addresses = await clientAddresses(cluster);
  assert.equal(addresses.length, FAMILIES.length);
  for (const scheme of ["http", "https"]) {
    for (const address of addresses) {
      const since = new Date();
      const answer = await getMapped(cluster, `${scheme}://${served.name}/`, isIP(address));
      assert.equal(answer.status, 200, JSON.stringify(answer));
      assert.match(answer.body ?? "", /^the shop /);
      const line = lineOf(served, scheme, address);
      await cluster.until(`the log line ${line}`, 15, async () => {
        return (await cluster.logs(namespace, `app=${service}`, since)).includes(line) || undefined;
      });
    }
  }
}

describe("with configured targets", () => {
  test("nginx with PROXY v1 logs the pod's address", () => arrives(BY_INGRESS));
  test("Traefik with PROXY v2 logs the pod's address", () => arrives({ name: AT_TRAEFIK, balancer: TRAEFIK }));
  test("Traefik with PROXY v2 logs the pod's address for an HTTPRoute", () => arrives(BY_GATEWAY));

  test("without a header, a name that times out in other pods leads to its own Service", async (t) => {
    t.after(() => cluster.delete(ingress("at-plain", AT_PLAIN, "plain")));
    const url = `http://${AT_PLAIN}/`;
    await cluster.until("it works from outside", 30, async () => {
      return (await getOutside(cluster, url, withPort(PLAIN.address, 80))).status === 200 || undefined;
    });
    assert.match((await getInside(cluster, url)).error ?? "", /timeout|deadline/i);
    const addresses = await clusterIPs(cluster, PLAIN.namespace, PLAIN.service);
    assert.equal(await inClient(cluster, RESOLVE, AT_PLAIN), resolvedLine(AT_PLAIN, addresses));
    for (const scheme of ["http", "https"])
      assert.equal((await getMapped(cluster, `${scheme}://${AT_PLAIN}/`)).status, 200);
  });
});

describe("with targets that are found", () => {
  before(async () => {
    for (const balancer of BALANCERS) await annotate(balancer, `${ANNOTATION}=${balancer.protocol}`);
    await setIngressAddress(cluster, "app", NGINX.address);
    await installSwitchback(cluster, { config: { targets: [] } });
    for (const { name, balancer } of [BY_INGRESS, BY_GATEWAY]) {
      await cluster.until(`${name} leads to its target`, 60, async () => {
        const line = `${await frontAddress(cluster, found(balancer))} ${name}`;
        return (await publishedMap(cluster)).split("\n").includes(line) || undefined;
      });
    }
    await optIn(cluster);
  });

  test("nginx by Ingress logs the pod's address", () => arrives(BY_INGRESS));
  test("Traefik by HTTPRoute logs the pod's address", () => arrives(BY_GATEWAY));

  const versionsOf = ({ targets }: FullStatus, balancer: LoadBalancer) =>
    targets.find(({ name }) => name === found(balancer))?.ports.map(({ protocol }) => protocol);

  test("the status shows their versions, and that the cluster's DNS resolves the names to them", async () => {
    const status = await cluster.until("the names to be verified", 60, async () => {
      const now = await leaderStatus(cluster);
      return now.names.filter(({ resolved }) => resolved?.length).length >= 2 ? now : undefined;
    });
    assert.deepEqual(versionsOf(status, NGINX), ["v1", "v1"]);
    assert.deepEqual(versionsOf(status, TRAEFIK), ["v2", "v2"]);
    assert.deepEqual(
      status.warnings.filter(({ code }) => code.startsWith("dns-")),
      [],
    );
  });

  test("after Traefik's target changes its version, requests still arrive, by PROXY v1", async () => {
    await annotate(TRAEFIK, `${ANNOTATION}=v1`);
    await cluster.until("the target has v1", 30, async () => {
      return versionsOf(await leaderStatus(cluster), TRAEFIK)?.join() === "v1,v1" || undefined;
    });
    await arrives(BY_GATEWAY);
  });
});
