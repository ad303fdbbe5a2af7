import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import type { NameStatus } from "#controller/status.ts";
import { foundName } from "#controller/targets/service-view.ts";
import { OBJECTS, targetsIn, targetsObject } from "../published.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// Targets that nobody configured: the controller finds LoadBalancer Services of the API server by their addresses,
// and publishes them to a running proxy.

const QUICK_LEASE = { leaseSeconds: 4 };

let system: System;
before(async () => {
  const config = { targets: [], map: { vanishSeconds: 0, guardHoldSeconds: 0 }, discovery: { keepSeconds: 4 } };
  system = await startSystem({ controllers: 2, values: { config: { ...config, controller: QUICK_LEASE } } });
  await system.apply(namespaceYaml("edge"));
  await system.startProxy();
});
after(() => system?.stop());

interface Balancer {
  readonly annotations?: Record<string, string>;
  readonly ports?: readonly number[];
  readonly status?: readonly object[];
}

/**
 * Creates a LoadBalancer Service with the status that its cloud's controller would write. Returns its target's name.
 */
async function balancer(name: string, { annotations = {}, ports = [80, 443], status = [] }: Balancer): Promise<string> {
  const object = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: "edge", name, annotations },
    spec: { type: "LoadBalancer", ports: ports.map((port) => ({ name: `p${port}`, port })) },
  };
  await system.apply(JSON.stringify(object));
  await patchStatus("service", "edge", name, status);
  return foundName("edge", name);
}

async function patchStatus(kind: string, namespace: string, name: string, entries: readonly object[]): Promise<void> {
  const patch = JSON.stringify({ status: { loadBalancer: { ingress: entries } } });
  await system.kubectl("-n", namespace, "patch", kind, name, "--subresource=status", "--type=merge", "-p", patch);
}

/** Creates an Ingress that its controller has admitted. */
async function admitted(name: string, host: string, ...entries: object[]): Promise<void> {
  await system.apply(ingress(name, [host]));
  if (entries.length > 0) await patchStatus("ingress", "default", name, entries);
}

const relayed = async () => targetsIn(await system.configMaps()).targets;
const targetOf = async (name: string) => (await relayed()).find((target) => target.name === name);
const portsOf = async (name: string) => (await targetOf(name))?.ports.map(({ listenPort }) => listenPort) ?? [];

async function frontOf(target: string): Promise<readonly string[]> {
  const args = [
    "-n",
    NAMESPACE,
    "get",
    "svc",
    `switchback-${target}`,
    "--ignore-not-found",
    "-o",
    "jsonpath={.spec.clusterIPs}",
  ];
  const text = await system.kubectl(...args);
  return text === "" ? [] : JSON.parse(text);
}

async function leadsToFront(host: string, target: string): Promise<readonly string[]> {
  await until(`${host} to lead to the front of ${target}`, async () => {
    const front = await frontOf(target);
    return front.length > 0 && (await system.published()).get(host)?.join() === front.join();
  });
  return await frontOf(target);
}

async function claim(host: string): Promise<NameStatus | undefined> {
  return (await (await system.leader()).status()).names.find(({ name }) => name === host);
}

async function refused(host: string, code: string): Promise<string> {
  let found: NameStatus | undefined;
  await until(`${host} to be refused: ${code}`, async () => {
    found = await claim(host);
    return found?.reason?.code === code;
  });
  await until(`${host} to be out of the map`, async () => !(await system.published()).has(host));
  return found?.reason?.text ?? "";
}

/** The targets that the proxy listens for. */
async function listening(): Promise<string[]> {
  const { text } = await (system.proxies[0]?.page("/targets") ?? Promise.reject(new Error("no proxy")));
  return (JSON.parse(text) as { listening: string[] }).listening;
}

async function listensFor(target: string, expected = true): Promise<void> {
  await until(`the proxy ${expected ? "to listen" : "no longer to listen"} for ${target}`, async () => {
    return (await listening()).includes(target) === expected;
  });
}

describe("a target is found", () => {
  it("by the address of an Ingress; its names lead to a front Service on all ports; the proxy listens", async () => {
    const target = await balancer("one", { ports: [80, 443, 8443], status: [{ ip: "203.0.113.1" }] });
    await admitted("one", "one.example.com", { ip: "203.0.113.1" });
    const front = await leadsToFront("one.example.com", target);
    assert.equal(front.length, 2, "dual-stack");
    const { spec } = await system.json<{ spec: { ports: { port: number; targetPort: number }[] } }>(
      ...["-n", NAMESPACE, "get", "svc", `switchback-${target}`],
    );
    assert.deepEqual(
      spec.ports.map(({ port }) => port),
      [80, 443, 8443],
    );
    assert.deepEqual(
      spec.ports.map(({ targetPort }) => targetPort),
      await portsOf(target),
    );
    await listensFor(target);
    const { targets } = await (await system.leader()).status();
    const known = targets.find(({ name }) => name === target);
    assert.deepEqual([known?.upstream, known?.relayed, known?.clusterIPs], ["edge/one", true, front]);
  });

  it("each with its own PROXY version, from the annotations of its Service", async () => {
    const annotations = { "service.beta.kubernetes.io/scw-loadbalancer-proxy-protocol-v2": "443" };
    const target = await balancer("two", { annotations, status: [{ ip: "203.0.113.2" }] });
    await admitted("two", "two.example.com", { ip: "203.0.113.2" });
    await leadsToFront("two.example.com", target);
    assert.deepEqual(
      (await targetOf(target))?.ports.map(({ protocol }) => protocol),
      ["v1", "v2"],
    );
    const own = { "switchback.dev/proxy-protocol": "v2" };
    await balancer("two", { annotations: own, status: [{ ip: "203.0.113.2" }] });
    await until("both ports to speak v2", async () => {
      return (await targetOf(target))?.ports.every(({ protocol }) => protocol === "v2") === true;
    });
  });

  it("without a header to send, and its names lead to its own ClusterIPs", async () => {
    const annotations = { "switchback.dev/proxy-protocol": "none" };
    const target = await balancer("plain", { annotations, status: [{ ip: "203.0.113.3" }] });
    await admitted("plain", "plain.example.com", { ip: "203.0.113.3" });
    const { spec } = await system.json<{ spec: { clusterIPs: string[] } }>("-n", "edge", "get", "svc", "plain");
    await until("its own addresses to be published", async () => {
      return (await system.published()).get("plain.example.com")?.join() === spec.clusterIPs.join();
    });
    assert.deepEqual([await frontOf(target), (await targetOf(target))?.ports], [[], []]);
  });
});

describe("no target is found, and status says why", () => {
  it("while no controller has written an address; then the name is mapped", async () => {
    await system.apply(ingress("later", ["later.example.com"]));
    await refused("later.example.com", "no-address");
    await patchStatus("ingress", "default", "later", [{ ip: "203.0.113.1" }]);
    await leadsToFront("later.example.com", foundName("edge", "one"));
  });

  it("if no Service has the address", async () => {
    await admitted("foreign", "foreign.example.com", { ip: "198.51.100.7" });
    assert.match(await refused("foreign.example.com", "no-service"), /198\.51\.100\.7/);
  });

  it("if its two addresses belong to two Services", async () => {
    await balancer("twin-a", { status: [{ ip: "203.0.113.4" }] });
    await balancer("twin-b", { status: [{ ip: "203.0.113.14" }] });
    await system.apply(ingress("twins", ["twins.example.com"]));
    await patchStatus("ingress", "default", "twins", [{ ip: "203.0.113.4" }, { ip: "203.0.113.14" }]);
    assert.match(await refused("twins.example.com", "several-services"), /edge\/twin-a, edge\/twin-b/);
  });

  it("if the Service has ipMode Proxy, because pods reach its load balancer", async () => {
    await balancer("proxied", { status: [{ ip: "203.0.113.5", ipMode: "Proxy" }] });
    await admitted("proxied", "proxied.example.com", { ip: "203.0.113.5" });
    assert.match(await refused("proxied.example.com", "ip-mode-proxy"), /edge\/proxied/);
  });

  it("if the load balancer has a host name, because it is not short-circuited", async () => {
    await balancer("hosted", { status: [{ hostname: "lb.example.net" }] });
    await admitted("named", "named.example.com", { hostname: "lb.example.net" });
    assert.match(await refused("named.example.com", "load-balancer-hostname"), /lb\.example\.net/);
    await admitted("astray", "astray.example.com", { hostname: "other.example.net" });
    assert.match(await refused("astray.example.com", "no-service"), /other\.example\.net/);
  });
});

describe("names are mapped although nothing is short-circuited", () => {
  const straight = { "switchback.dev/map": "always", "switchback.dev/proxy-protocol": "none" };
  const clusterIPsOf = async (name: string): Promise<string[]> =>
    JSON.parse(await system.kubectl("-n", "edge", "get", "svc", name, "-o", "jsonpath={.spec.clusterIPs}"));

  it("if a Service with ipMode Proxy asks for it: to its ClusterIPs, without a header", async () => {
    await balancer("always", { annotations: straight, status: [{ ip: "203.0.113.6", ipMode: "Proxy" }] });
    await admitted("always", "always.example.com", { ip: "203.0.113.6" });
    const clusterIPs = (await clusterIPsOf("always")).join();
    await until("its name to lead there", async () => {
      return (await system.published()).get("always.example.com")?.join() === clusterIPs;
    });
    await system.kubectl("-n", "edge", "annotate", "svc", "always", "switchback.dev/map=never", "--overwrite");
    await until("the typing error to be reported", async () => {
      const { sources } = await (await system.leader()).status();
      return sources.some(({ problems }) => problems.some(({ place }) => place === "Service edge/always"));
    });
    assert.equal((await system.published()).get("always.example.com")?.join(), clusterIPs);
    await system.kubectl("-n", "edge", "annotate", "svc", "always", "switchback.dev/map-");
    assert.match(await refused("always.example.com", "ip-mode-proxy"), /edge\/always/);
  });

  it("if a load balancer has a host name, through the proxy if its Service expects a header", async () => {
    const annotations = { "switchback.dev/map": "always", "switchback.dev/proxy-protocol": "v2" };
    const target = await balancer("nlb", { annotations, status: [{ hostname: "nlb.elb.example.net" }] });
    await admitted("nlb", "nlb.example.com", { hostname: "nlb.elb.example.net" });
    await leadsToFront("nlb.example.com", target);
    assert.deepEqual(
      (await targetOf(target))?.ports.map(({ protocol }) => protocol),
      ["v2", "v2"],
    );
    await system.kubectl("delete", "ingress", "nlb");
    await until("its name to leave", async () => !(await system.published()).has("nlb.example.com"));
    await until("its target to be given up", async () => (await targetOf(target)) === undefined);
    await listensFor(target, false);
  });
});

describe("a running proxy", () => {
  it("accepts connections for a new target, and connects to the Service's ClusterIP without a DNS lookup", async () => {
    const target = foundName("edge", "two");
    await listensFor(target);
    const [port] = await portsOf(target);
    assert.ok(port);
    const clusterIP = await system.kubectl("-n", "edge", "get", "svc", "two", "-o", "jsonpath={.spec.clusterIP}");
    assert.deepEqual((await targetOf(target))?.upstreamIPs, [clusterIP]);
    // No cluster DNS here knows the Service, so a lookup would fail and the proxy would report it.
    const client = connect(port, system.proxies[0]?.address).on("error", () => {});
    await once(client, "connect");
    const { text } = await (system.proxies[0]?.page("/readyz") ?? Promise.reject(new Error("no proxy")));
    assert.doesNotMatch(text, new RegExp(`${target}:80: failing \\(dns`));
    client.destroy();
  });

  it("keeps its targets when somebody breaks the ConfigMap, which the controller then writes again", async () => {
    const before = await listening();
    const broken = Object.keys(targetsObject([]).data).map((key) => [key, "{"]);
    const patch = JSON.stringify({ data: Object.fromEntries(broken) });
    await system.kubectl("-n", NAMESPACE, "patch", "cm", OBJECTS.targets, "--type=merge", "-p", patch);
    await until("the ConfigMap to be as it was", async () => (await relayed()).length > 0);
    assert.deepEqual(await listening(), before);
    await system.kubectl("-n", NAMESPACE, "delete", "cm", OBJECTS.targets);
    await until("the ConfigMap to be there again", async () => (await relayed()).length > 0);
    assert.deepEqual(await listening(), before);
  });

  it("that restarts listens on the same ports as before", async () => {
    const [proxy] = system.proxies;
    const before = await listening();
    assert.ok(proxy);
    await system.end(proxy, "SIGTERM");
    await system.startProxy();
    assert.deepEqual(await listening(), before);
  });
});

describe("what stays unchanged", () => {
  it("listen ports and fronts, after a change of the leader and after a front Service was deleted", async () => {
    const names = [foundName("edge", "one"), foundName("edge", "two")];
    const look = async () => await Promise.all(names.map(async (name) => [await portsOf(name), await frontOf(name)]));
    const before = await look();
    await system.end(await system.leader(), "SIGTERM");
    await system.start("controller");
    const leader = await system.leader();
    await system.kubectl("-n", NAMESPACE, "delete", "svc", `switchback-${names[0]}`);
    await until("the front to be there again", async () => (await frontOf(names[0] ?? "")).length > 0);
    assert.deepEqual(await look(), before);
    assert.equal((await leader.status()).targets.length, 3);
  });

  it("a target whose Service was deleted keeps its front for a while, then it is given up", async () => {
    const target = await balancer("passing", { status: [{ ip: "203.0.113.8" }] });
    await admitted("passing", "passing.example.com", { ip: "203.0.113.8" });
    const front = await leadsToFront("passing.example.com", target);
    await listensFor(target);
    await system.kubectl("-n", "edge", "delete", "svc", "passing");
    await refused("passing.example.com", "no-service");
    assert.deepEqual(await frontOf(target), front);
    assert.notEqual((await targetOf(target))?.unusedSince, undefined);
    await until("the front to be given up", async () => (await frontOf(target)).length === 0);
    await listensFor(target, false);
    assert.equal(await targetOf(target), undefined);
  });
});
