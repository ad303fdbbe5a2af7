import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { foundName } from "#controller/targets/service-view.ts";
import { OBJECTS, targetsIn, targetsObject } from "../published.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// Targets that nobody configured: the controller finds LoadBalancer Services of the API server by their addresses, and
// publishes them to a running proxy. The tests are one life: each continues where the previous one ended.

let system: System;
before(async () => {
  const map = { vanishSeconds: 0, guardHoldSeconds: 0 };
  const config = { targets: [], map, discovery: { keepSeconds: 4 }, controller: { leaseSeconds: 4 } };
  system = await startSystem({ controllers: 2, values: { config } });
  await system.apply(namespaceYaml("edge"));
  await system.startProxy();
});
after(() => system?.stop());

/** Writes the status that a cloud's controller or an ingress controller would write. */
async function giveAddress(kind: "service" | "ingress", name: string, address: object): Promise<void> {
  const namespace = kind === "service" ? "edge" : "default";
  const patch = JSON.stringify({ status: { loadBalancer: { ingress: [address] } } });
  await system.kubectl("-n", namespace, "patch", kind, name, "--subresource=status", "--type=merge", "-p", patch);
}

/** Creates a LoadBalancer Service with an address. Returns the name of its target. */
async function balancer(name: string, address: object, annotations = {}, ports = [80, 443]): Promise<string> {
  const metadata = { namespace: "edge", name, annotations };
  const spec = { type: "LoadBalancer", ports: ports.map((port) => ({ name: `p${port}`, port })) };
  await system.apply(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata, spec }));
  await giveAddress("service", name, address);
  return foundName("edge", name);
}

const hostOf = (name: string) => `${name}.example.com`;

/** Creates an Ingress of this name that its controller has admitted. */
async function admitted(name: string, address: object): Promise<void> {
  await system.apply(ingress(name, [hostOf(name)]));
  await giveAddress("ingress", name, address);
}

const annotate = (name: string, annotation: string) =>
  system.kubectl("-n", "edge", "annotate", "service", name, annotation, "--overwrite");

async function addressesOf(namespace: string, service: string): Promise<readonly string[]> {
  const args = ["-n", namespace, "get", "svc", service, "--ignore-not-found", "-o", "jsonpath={.spec.clusterIPs}"];
  return JSON.parse((await system.kubectl(...args)) || "[]");
}

const frontOf = (target: string) => addressesOf(NAMESPACE, `switchback-${target}`);
const published = async (target: string) =>
  targetsIn(await system.configMaps()).targets.find(({ name }) => name === target);
const protocolsOf = async (target: string) =>
  (await published(target))?.ports.map(({ protocol }) => protocol).join(", ");

async function leadsTo(name: string, namespace: string, service: string): Promise<void> {
  await until(`${name} to lead to ${service}`, async () => {
    const addresses = await addressesOf(namespace, service);
    return addresses.length > 0 && (await system.published()).get(hostOf(name))?.join() === addresses.join();
  });
}

async function refused(name: string, code: string): Promise<void> {
  await until(`${name} to be refused: ${code}`, async () => {
    const { names } = await (await system.leader()).status();
    const isRefused = names.some((entry) => entry.name === hostOf(name) && entry.reason?.code === code);
    return isRefused && !(await system.published()).has(hostOf(name));
  });
}

/** The targets for which the proxy listens. */
async function listening(): Promise<string[]> {
  const { text = "" } = (await system.proxies[0]?.page("/targets")) ?? {};
  return (JSON.parse(text) as { listening: string[] }).listening;
}

async function listensFor(target: string, expected: boolean): Promise<void> {
  await until(`the proxy ${expected ? "to listen" : "no longer to listen"} for ${target}`, async () => {
    return (await listening()).includes(target) === expected;
  });
}

const ONE = foundName("edge", "one");

it("an Ingress gets an address: its name leads to a front Service on all ports, and the proxy listens", async () => {
  await balancer("one", { ip: "203.0.113.1" }, {}, [80, 443, 8443]);
  await system.apply(ingress("one", [hostOf("one")]));
  await refused("one", "no-address");
  await giveAddress("ingress", "one", { ip: "203.0.113.1" });
  await leadsTo("one", NAMESPACE, `switchback-${ONE}`);
  const { spec } = await system.json<{ spec: { ports: { port: number; targetPort: number }[] } }>(
    ...["-n", NAMESPACE, "get", "svc", `switchback-${ONE}`],
  );
  const listenPorts = (await published(ONE))?.ports.map(({ port, listenPort }) => ({ port, targetPort: listenPort }));
  assert.deepEqual(
    spec.ports.map(({ port, targetPort }) => ({ port, targetPort })),
    listenPorts,
  );
  assert.equal(listenPorts?.length, 3);
  await listensFor(ONE, true);
  const { targets } = await (await system.leader()).status();
  const known = targets.find(({ name }) => name === ONE);
  assert.deepEqual([known?.upstream, known?.relayed, known?.clusterIPs], ["edge/one", true, await frontOf(ONE)]);
  assert.equal(known?.clusterIPs.length, 2, "dual-stack");
});

it("the annotations of a Service decide which header it gets; without any, its names lead to itself", async () => {
  const annotations = { "service.beta.kubernetes.io/scw-loadbalancer-proxy-protocol-v2": "443" };
  const target = await balancer("two", { ip: "203.0.113.2" }, annotations);
  await admitted("two", { ip: "203.0.113.2" });
  await leadsTo("two", NAMESPACE, `switchback-${target}`);
  assert.equal(await protocolsOf(target), "v1, v2");
  await annotate("two", "switchback.dev/proxy-protocol=v2");
  await until("both ports to speak v2", async () => (await protocolsOf(target)) === "v2, v2");
  await annotate("two", "switchback.dev/proxy-protocol=none");
  await leadsTo("two", "edge", "two");
});

for (const [what, name, address, code] of [
  ["ipMode Proxy", "proxied", { ip: "203.0.113.5", ipMode: "Proxy" }, "ip-mode-proxy"],
  ["a host name", "hosted", { hostname: "lb.example.net" }, "load-balancer-hostname"],
] as const) {
  it(`a Service with ${what}, which pods reach, is mapped while its annotation asks for it`, async () => {
    await balancer(name, address, { "switchback.dev/map": "always", "switchback.dev/proxy-protocol": "none" });
    await admitted(name, address);
    await leadsTo(name, "edge", name);
    await annotate(name, "switchback.dev/map-");
    await refused(name, code);
  });
}

it("ports and fronts stay through a broken and a lost document, a new leader and a lost front", async () => {
  const look = async () => [(await published(ONE))?.ports, await frontOf(ONE), (await listening()).includes(ONE)];
  const before = await look();
  const broken = JSON.stringify({
    data: Object.fromEntries(Object.keys(targetsObject([]).data).map((key) => [key, "{"])),
  });
  for (const spoil of [["patch", "--type=merge", "-p", broken], ["delete"]]) {
    await system.kubectl("-n", NAMESPACE, ...spoil, "configmap", OBJECTS.targets);
    await until("the document to be as it was", async () => (await published(ONE)) !== undefined);
  }
  await system.end(await system.leader(), "SIGTERM");
  await system.start("controller");
  await system.leader();
  await system.kubectl("-n", NAMESPACE, "delete", "svc", `switchback-${ONE}`);
  await until("the front to be there again", async () => (await frontOf(ONE)).length > 0);
  assert.deepEqual(await look(), before);
});

it("the target of a deleted Service keeps its front for a while; then it is given up", async () => {
  const front = await frontOf(ONE);
  await system.kubectl("-n", "edge", "delete", "svc", "one");
  await refused("one", "no-service");
  assert.deepEqual(await frontOf(ONE), front);
  assert.notEqual((await published(ONE))?.unusedSince, undefined);
  await until("the front to be given up", async () => (await frontOf(ONE)).length === 0);
  await listensFor(ONE, false);
  assert.equal(await published(ONE), undefined);
});
