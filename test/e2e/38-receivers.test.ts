import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as contour from "../cluster/addons/contour.ts";
import { setAddress } from "../cluster/addons/internet.ts";
import {
  addressesOf,
  CONTOUR,
  NGINX,
  type PublishedService,
  publishAddress,
  TRAEFIK,
} from "../cluster/addons/load-balancers.ts";
import * as receivers from "../cluster/addons/receivers.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import {
  addressArrives,
  answered,
  certificate,
  FOLLOWED_S,
  failsInside,
  foundWithoutUs,
  mapped,
  trustIsSeen,
  trustSetting,
  worksOutside,
} from "./gateways.ts";
import { getMapped, optIn } from "./opted-in.ts";
import { gatewayAndRoute, getInside, ingress, NAME, openShop, SHOP, setIngressAddress } from "./shop.ts";
import { installSwitchback, leaderStatus, publishedMap, SYSTEM } from "./switchback.ts";

// ingress-nginx, Traefik, Contour with its Envoy; nginx, HAProxy and Caddy with and without lists of trusted addresses.
// No target is configured, and no annotation and no setting says what they expect: the proxies ask.

export const needs = ["ipv4", "long", "contour", "caddy"];

/** The answer that the proxies find, and whose address arrives with Switchback. */
interface Expected {
  readonly answer: "demands-either" | "optional" | "refuses-header";
  readonly seen: "client" | "proxy" | undefined;
}

const DEMANDS = { answer: "demands-either", seen: "client" } as const;
const OPTIONAL = { answer: "optional", seen: "client" } as const;
/** For the proxies, this looks as if PROXY protocol were off. */
const OFF = { answer: "refuses-header", seen: undefined } as const;
const EXPECTED: Readonly<Record<string, Expected>> = {
  // It passes TLS on to Traefik without the client's address. Its own log has it (30-client-address.test.ts).
  "ingress-nginx, use-proxy-protocol": { ...DEMANDS, seen: undefined },
  "traefik, trustedIPs": OPTIONAL,
  "contour, --use-proxy-protocol": DEMANDS,
  "nginx, list with the proxies": DEMANDS,
  "nginx, list without the proxies": { ...DEMANDS, seen: "proxy" },
  "haproxy, accept-proxy": DEMANDS,
  "haproxy, expect-proxy, list with the proxies": DEMANDS,
  "haproxy, expect-proxy, list without the proxies": OFF,
  "caddy, fallback_policy require": DEMANDS,
  "caddy, list with the proxies": OPTIONAL,
  "caddy, list without the proxies, fallback_policy skip": OFF,
};

/** Software in one of its modes, and its names. */
interface Receiver {
  readonly title: string;
  readonly balancer: PublishedService;
  readonly hosts: readonly string[];
}

const [BY_INGRESS, BY_PROXY] = ["contour.example.com", "httpproxy.example.com"] as const;
const BY_ROUTE = "gateway.example.com";
const OTHERS = receivers.RECEIVERS.map((balancer) => ({
  title: `${balancer.software}, ${balancer.mode}`,
  balancer,
  hosts: [`${balancer.service}.example.com`] as const,
}));
/** Those that this file installs. */
const INSTALLED = [
  { title: "contour, --use-proxy-protocol", balancer: CONTOUR, hosts: [BY_INGRESS, BY_PROXY] },
  ...OTHERS,
];
const ALL: readonly (Receiver & Expected)[] = [
  { title: "ingress-nginx, use-proxy-protocol", balancer: NGINX, hosts: [NAME] },
  { title: "traefik, trustedIPs", balancer: TRAEFIK, hosts: [BY_ROUTE] },
  ...INSTALLED,
].map((receiver) => ({ ...receiver, ...(EXPECTED[receiver.title] ?? assert.fail(receiver.title)) }));

const urlsOf = (hosts: readonly string[]) => hosts.flatMap((host) => [`http://${host}/`, `https://${host}/`]);

const HTTP_PROXY: KubeObject = {
  apiVersion: "projectcontour.io/v1",
  kind: "HTTPProxy",
  metadata: { namespace: SHOP, name: "contour" },
  spec: {
    virtualhost: { fqdn: BY_PROXY, tls: { secretName: "contour-tls" } },
    routes: [{ permitInsecure: true, services: [{ name: "app", port: 80 }] }],
  },
};
const OF_CONTOUR = [
  certificate("contour-tls", [BY_INGRESS, BY_PROXY]),
  ingress("contour", BY_INGRESS, contour.CLASS, "contour-tls"),
  HTTP_PROXY,
];
const OF_TRAEFIK = [certificate("asked-tls", [BY_ROUTE]), ...gatewayAndRoute("asked", BY_ROUTE, "asked-tls")];
const OF_OTHERS = OTHERS.map(({ balancer, hosts: [host] }) => ingress(balancer.service, host, "receivers"));

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  const flags = trustSetting("contour").split(" ").slice(2);
  assert.deepEqual(flags, ["--use-proxy-protocol"]);
  await contour.install(cluster, flags);
  await receivers.install(cluster);
  for (const { balancer, hosts } of INSTALLED)
    for (const host of hosts) await setAddress(cluster, host, balancer.address);
  await cluster.apply(...OF_TRAEFIK, ...OF_OTHERS);
  await setIngressAddress(cluster, "app", NGINX.address);
  for (const { balancer } of OTHERS) await setIngressAddress(cluster, balancer.service, balancer.address);
  const sources = { presets: ["contour-httpproxy"] };
  await installSwitchback(cluster, { config: { targets: [], sources, map: { vanishSeconds: 1 } } });
});

after(async () => {
  await cluster.delete(...OF_TRAEFIK, ...OF_CONTOUR, ...OF_OTHERS);
  await setIngressAddress(cluster, "app", undefined);
  await contour.uninstall(cluster);
  await receivers.uninstall(cluster);
  await installSwitchback(cluster);
});

/** The proxies' addresses, from the command in docs/trust/README.md. */
async function proxyAddresses(): Promise<string[]> {
  const pods = ["-n", SYSTEM, "get", "pods", "-l", "app.kubernetes.io/component=proxy"];
  return (await cluster.kubectl(...pods, "-o", "jsonpath={.items[*].status.podIP}")).split(" ");
}

/** Waits until the name is not mapped, with this reason. */
async function isNotExpected(host: string): Promise<void> {
  await cluster.until("header-not-expected", FOLLOWED_S, async () => {
    const { names } = await leaderStatus(cluster);
    const reason = names.find(({ name }) => name === host)?.reason;
    if (reason?.code !== "header-not-expected") throw new Error(JSON.stringify(reason));
    return true;
  });
}

test("a doctor without an installation finds Contour even before Contour's first Ingress", async () => {
  assert.equal((await foundWithoutUs(cluster, undefined, CONTOUR)).check, "reach");
  await cluster.apply(...OF_CONTOUR);
  for (const url of urlsOf([BY_INGRESS, BY_PROXY])) await worksOutside(cluster, url, CONTOUR);
});

describe("the proxies ask", () => {
  for (const { title, balancer, hosts, answer } of ALL) {
    const isDemanded = answer === "demands-either";
    test(`${title}: ${answer}; a pod that did not opt in gets ${isDemanded ? "no" : "an"} answer`, async () => {
      for (const url of urlsOf(hosts)) {
        if (isDemanded) await failsInside(cluster, url, balancer);
        else assert.equal((await getInside(cluster, url)).status, 200);
      }
      if (answer !== "refuses-header") await answered(cluster, balancer, answer);
      for (const host of hosts) {
        if (answer === "refuses-header") await isNotExpected(host);
        else await mapped(cluster, host, balancer);
      }
    });
  }
});

describe("a pod that opted in is answered", () => {
  before(() => optIn(cluster));

  for (const { title, hosts, seen } of ALL) {
    test(`${title}${seen === undefined ? "" : `: it sees the ${seen}`}`, async () => {
      for (const url of urlsOf(hosts)) {
        if (seen === "client") await addressArrives(cluster, url);
        const { status, body = "" } = await getMapped(cluster, url);
        assert.equal(status, 200, body);
        const address = / for=(\S+)\n/.exec(body)?.[1] ?? "";
        if (seen === "proxy") assert.ok((await proxyAddresses()).includes(address), body);
      }
    });
  }

  test("the doctor sees that Contour's setting works, as the page of docs/trust says", async () => {
    await trustIsSeen(cluster, CONTOUR);
  });
});

const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`;

test("an ingress controller gets a new Service, and its names are mapped soon", async (t) => {
  const { namespace, service: app } = NGINX;
  const balancer = { namespace, service: "fresh", ...addressesOf(({ freshLoadBalancer }) => freshLoadBalancer) };
  const ports = ["http", "https"].map((name) => ({ name, port: name === "http" ? 80 : 443, targetPort: name }));
  const metadata = { namespace, name: balancer.service };
  const spec = { type: "LoadBalancer", selector: { app }, ports };
  const objects = [
    ingress("fresh", "fresh.example.com", "nginx"),
    { apiVersion: "v1", kind: "Service", metadata, spec },
  ];
  await cluster.apply(...objects);
  t.after(() => cluster.delete(...objects));
  await setIngressAddress(cluster, "fresh", balancer.address);
  const begun = performance.now();
  await publishAddress(cluster, balancer);
  await mapped(cluster, "fresh.example.com", balancer);
  t.diagnostic(`address to mapped: ${seconds(begun)}`);
});

describe("ingress-nginx changes its setting, and its names follow", () => {
  const { namespace, service } = NGINX;
  let configuration: string;

  before(async () => {
    const { data } = await cluster.get<{ data: Record<string, string> }>("-n", namespace, "configmap", service);
    configuration = data["nginx.conf"] ?? "";
  });
  after(() => configure(configuration));

  async function configure(text: string): Promise<void> {
    const patch = JSON.stringify({ data: { "nginx.conf": text } });
    await cluster.kubectl("-n", namespace, "patch", "configmap", service, "--type=merge", "-p", patch);
    await cluster.kubectl("-n", namespace, "rollout", "restart", `deployment/${service}`);
    await cluster.rolledOut(namespace, `deployment/${service}`);
  }

  test("without PROXY protocol, its name leaves the map, and pods reach it without us", async (t) => {
    await configure(configuration.replaceAll(" proxy_protocol;", ";"));
    const begun = performance.now();
    await isNotExpected(NAME);
    await cluster.until("the name to leave the map", FOLLOWED_S, async () => {
      return !(await publishedMap(cluster)).includes(` ${NAME}\n`) || undefined;
    });
    t.diagnostic(`off to unmapped: ${seconds(begun)}`);
    assert.equal((await getInside(cluster, `http://${NAME}/`)).status, 200);
  });

  test("with PROXY protocol again, its name returns, and opted-in pods are answered", async (t) => {
    await configure(configuration);
    const begun = performance.now();
    await mapped(cluster, NAME, NGINX);
    t.diagnostic(`on to mapped: ${seconds(begun)}`);
    await answered(cluster, NGINX, "demands-either");
    t.diagnostic(`on to both ports: ${seconds(begun)}`);
    await optIn(cluster);
    for (const url of urlsOf([NAME])) assert.equal((await getMapped(cluster, url)).status, 200);
  });
});
