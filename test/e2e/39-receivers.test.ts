import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setAddress } from "../cluster/addons/internet.ts";
import { install, RECEIVERS, type Receiver, uninstall } from "../cluster/addons/receivers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { answered, FOLLOWED_S, mapped } from "./asked.ts";
import { addressArrives, failsInside } from "./gateways.ts";
import { getMapped, optIn } from "./opted-in.ts";
import { getInside, ingress, openShop, setIngressAddress } from "./shop.ts";
import { installSwitchback, leaderStatus, SYSTEM } from "./switchback.ts";

// nginx, HAProxy and Caddy, with and without lists of trusted addresses. No setting says what they expect; the proxies
// ask.

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
  "nginx, list with the proxies": DEMANDS,
  "nginx, list without the proxies": { ...DEMANDS, seen: "proxy" },
  "haproxy, accept-proxy": DEMANDS,
  "haproxy, expect-proxy, list with the proxies": DEMANDS,
  "haproxy, expect-proxy, list without the proxies": OFF,
  "caddy, fallback_policy require": DEMANDS,
  "caddy, list with the proxies": { answer: "optional", without: "answered", seen: "client" },
  "caddy, list without the proxies, fallback_policy skip": OFF,
};

const hostOf = ({ service }: Receiver) => `${service}.example.com`;
const urlsOf = (receiver: Receiver) => ["http", "https"].map((scheme) => `${scheme}://${hostOf(receiver)}/`);

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  await install(cluster);
  for (const receiver of RECEIVERS) {
    const { service, address } = receiver;
    await setAddress(cluster, hostOf(receiver), address);
    await cluster.apply(ingress(service, hostOf(receiver), "receivers"));
    await setIngressAddress(cluster, service, address);
  }
  await installSwitchback(cluster);
});

after(async () => {
  await cluster.delete(...RECEIVERS.map((receiver) => ingress(receiver.service, hostOf(receiver), "receivers")));
  await uninstall(cluster);
  await installSwitchback(cluster);
});

/** The proxies' addresses, from the command in docs/trust/README.md. */
async function proxyAddresses(): Promise<string[]> {
  const pods = ["-n", SYSTEM, "get", "pods", "-l", "app.kubernetes.io/component=proxy"];
  return (await cluster.kubectl(...pods, "-o", "jsonpath={.items[*].status.podIP}")).split(" ");
}

/** Waits until the receiver's name is not mapped, with this reason. */
async function isNotExpected(receiver: Receiver): Promise<void> {
  await cluster.until("header-not-expected", FOLLOWED_S, async () => {
    const { names } = await leaderStatus(cluster);
    const reason = names.find(({ name }) => name === hostOf(receiver))?.reason;
    if (reason?.code !== "header-not-expected") throw new Error(JSON.stringify(reason));
    return true;
  });
}

describe("the proxies ask", () => {
  for (const receiver of RECEIVERS) {
    const title = `${receiver.software}, ${receiver.mode}`;
    const { answer, without } = EXPECTED[title] ?? assert.fail(title);
    const alone = without === "fails" ? "gets no answer" : "is answered";
    test(`${title}: ${answer}; a pod without us ${alone}`, async () => {
      for (const url of urlsOf(receiver)) {
        if (without === "fails") await failsInside(cluster, url, receiver);
        else assert.equal((await getInside(cluster, url)).status, 200);
      }
      if (answer === "refuses-header") return await isNotExpected(receiver);
      await answered(cluster, receiver, answer);
      await mapped(cluster, hostOf(receiver), receiver);
    });
  }
});

describe("a pod that opted in is answered", () => {
  before(() => optIn(cluster));

  for (const receiver of RECEIVERS) {
    const title = `${receiver.software}, ${receiver.mode}`;
    const { seen } = EXPECTED[title] ?? assert.fail(title);
    test(`${title}: ${seen === undefined ? "without us" : `it sees the ${seen}`}`, async () => {
      for (const url of urlsOf(receiver)) {
        if (seen === "client") await addressArrives(cluster, url);
        const { status, body = "" } = await getMapped(cluster, url);
        assert.equal(status, 200, body);
        const address = / for=(\S+)\n/.exec(body)?.[1] ?? "";
        if (seen === "proxy") assert.ok((await proxyAddresses()).includes(address), body);
      }
    });
  }
});
