import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as contour from "../cluster/addons/contour.ts";
import { setAddress } from "../cluster/addons/internet.ts";
import { CONTOUR, type PublishedService } from "../cluster/addons/load-balancers.ts";
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
import { getInside, ingress, openShop, SHOP, setIngressAddress } from "./shop.ts";
import { installSwitchback, leaderStatus, SYSTEM } from "./switchback.ts";

// Contour with its Envoy; nginx, HAProxy and Caddy with and without lists of trusted addresses. No annotation and no
// setting says what they expect: the proxies ask.

export const needs = ["ipv4", "long", "contour", "caddy"];

/** The answer that the proxies find, what a pod without Switchback gets, and whose address arrives with Switchback. */
interface Expected {
  readonly answer: "demands-either" | "optional" | "refuses-header";
  readonly without: "fails" | "answered";
  readonly seen: "client" | "proxy" | undefined;
}

const DEMANDS = { answer: "demands-either", without: "fails", seen: "client" } as const;
/** For the proxies, this looks as if PROXY protocol were off. */
const OFF = { answer: "refuses-header", without: "answered", seen: undefined } as const;
const EXPECTED: Readonly<Record<string, Expected>> = {
  "contour, --use-proxy-protocol": DEMANDS,
  "nginx, list with the proxies": DEMANDS,
  "nginx, list without the proxies": { ...DEMANDS, seen: "proxy" },
  "haproxy, accept-proxy": DEMANDS,
  "haproxy, expect-proxy, list with the proxies": DEMANDS,
  "haproxy, expect-proxy, list without the proxies": OFF,
  "caddy, fallback_policy require": DEMANDS,
  "caddy, list with the proxies": { answer: "optional", without: "answered", seen: "client" },
  "caddy, list without the proxies, fallback_policy skip": OFF,
};

/** Software in one of its modes, and its names. */
interface Receiver {
  readonly title: string;
  readonly balancer: PublishedService;
  readonly hosts: readonly string[];
}

const [BY_INGRESS, BY_PROXY] = ["contour.example.com", "httpproxy.example.com"] as const;
const OTHERS = receivers.RECEIVERS.map((balancer) => ({
  title: `${balancer.software}, ${balancer.mode}`,
  balancer,
  hosts: [`${balancer.service}.example.com`] as const,
}));
const ALL: readonly (Receiver & Expected)[] = [
  { title: "contour, --use-proxy-protocol", balancer: CONTOUR, hosts: [BY_INGRESS, BY_PROXY] },
  ...OTHERS,
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
const OF_OTHERS = OTHERS.map(({ balancer, hosts: [host] }) => ingress(balancer.service, host, "receivers"));

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  const flags = trustSetting("contour").split(" ").slice(2);
  assert.deepEqual(flags, ["--use-proxy-protocol"]);
  await contour.install(cluster, flags);
  await receivers.install(cluster);
  for (const { balancer, hosts } of ALL) for (const host of hosts) await setAddress(cluster, host, balancer.address);
  await cluster.apply(...OF_OTHERS);
  for (const { balancer } of OTHERS) await setIngressAddress(cluster, balancer.service, balancer.address);
  await installSwitchback(cluster, { config: { sources: { presets: ["contour-httpproxy"] } } });
});

after(async () => {
  await cluster.delete(...OF_CONTOUR, ...OF_OTHERS);
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
  for (const { title, balancer, hosts, answer, without } of ALL) {
    const alone = without === "fails" ? "gets no answer" : "is answered";
    test(`${title}: ${answer}; a pod that did not opt in ${alone}`, async () => {
      for (const url of urlsOf(hosts)) {
        if (without === "fails") await failsInside(cluster, url, balancer);
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
    test(`${title}: ${seen === undefined ? "without us" : `it sees the ${seen}`}`, async () => {
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
