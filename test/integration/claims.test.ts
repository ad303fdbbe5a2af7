import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type { NameStatus } from "#controller/status.ts";
import { recordMap } from "./history.ts";
import { type IngressParts, ingress, namespaceYaml } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// Which namespace gets which names, and for which target: classes, admission, a policy by annotations, and conflicts on
// a real API server, with the policy of a shared cluster.

const TARGETS = ["one", "two"].map((name) => ({
  name,
  upstream: { service: { namespace: "edge", name } },
  classes: [name],
}));

let system: System;
before(async () => {
  const policy = {
    claims: [{ namespaces: ["*"], domains: ["*.open.example.com"] }],
    namespaceAnnotation: true,
    requireAdmitted: true,
  };
  system = await startSystem({ values: { config: { targets: TARGETS, policy, map: { vanishSeconds: 0 } } } });
  await system.apply(["tenant", "other"].map((name) => namespaceYaml(name)).join(""));
});
after(() => system?.stop());

/** Creates an Ingress of the class `one`, which its controller admits, in the namespace `tenant`. */
async function claim(name: string, hosts: readonly string[], parts: IngressParts = {}): Promise<void> {
  const { namespace = "tenant" } = parts;
  await system.apply(ingress(name, hosts, { className: "one", namespace, ...parts }));
  await admit(name, namespace);
}

async function admit(name: string, namespace: string): Promise<void> {
  const patch = JSON.stringify({ status: { loadBalancer: { ingress: [{ ip: "203.0.113.9" }] } } });
  await system.kubectl("-n", namespace, "patch", "ingress", name, "--subresource=status", "--type=merge", "-p", patch);
}

async function claimsOf(host: string): Promise<readonly NameStatus[]> {
  return (await (await system.leader()).status()).names.filter(({ name }) => name === host);
}

/** Waits until the claim of the host is refused, and the host is not in the map. */
async function refused(host: string, code: string): Promise<void> {
  await until(`${host} to be refused: ${code}`, async () => {
    const [found] = await claimsOf(host);
    return found?.reason?.code === code && !(await system.publishedNames()).has(host);
  });
}

/** Waits until the name has the addresses of a target's front Service. */
async function leadsTo(host: string, target: string): Promise<void> {
  await until(`${host} to lead to ${target}`, async () => {
    const { spec } = await system.json<{ spec: { clusterIPs: string[] } }>(
      ...["-n", NAMESPACE, "get", "service", `switchback-${target}`],
    );
    return (await system.published()).get(host)?.join() === spec.clusterIPs.join();
  });
}

it("the class is in the field or the old annotation, and the field wins", async () => {
  const annotations = { "kubernetes.io/ingress.class": "two" };
  await claim("old", ["old.open.example.com"], { className: null, annotations });
  await leadsTo("old.open.example.com", "two");
  // The API server accepts both together only in an update.
  await claim("old", ["old.open.example.com"], { className: "one", annotations });
  await leadsTo("old.open.example.com", "one");
});

it("an Ingress without a class has the cluster's default class, also if that is created later", async () => {
  await claim("classless", ["classless.open.example.com"], { className: null });
  await refused("classless.open.example.com", "no-class");
  const metadata = { name: "two", annotations: { "ingressclass.kubernetes.io/is-default-class": "true" } };
  const spec = { controller: "example.com/controller" };
  await system.apply(JSON.stringify({ apiVersion: "networking.k8s.io/v1", kind: "IngressClass", metadata, spec }));
  await leadsTo("classless.open.example.com", "two");
});

it("an Ingress waits until a controller has admitted it", async () => {
  await system.apply(ingress("bait", ["bait.open.example.com"], { namespace: "tenant", className: "one" }));
  await refused("bait.open.example.com", "not-admitted");
  await admit("bait", "tenant");
  await leadsTo("bait.open.example.com", "one");
});

it("a namespace gets the names that its annotation lists and that all may claim, and follows changes", async () => {
  await claim("own", ["a.tenant.example.com", "x.open.example.com"]);
  await leadsTo("x.open.example.com", "one");
  await refused("a.tenant.example.com", "claim-not-allowed");
  await system.kubectl("annotate", "namespace", "tenant", "switchback.dev/domains=*.tenant.example.com");
  await leadsTo("a.tenant.example.com", "one");
  await claim("stolen", ["b.tenant.example.com"], { namespace: "other" });
  await refused("b.tenant.example.com", "claim-not-allowed");
  await system.kubectl("annotate", "namespace", "tenant", "switchback.dev/domains-");
  await refused("a.tenant.example.com", "claim-not-allowed");
  await leadsTo("x.open.example.com", "one");
});

it("a name stays with its namespace; another one gets a reason, and takes over without a gap", async () => {
  const name = "contested.open.example.com";
  await claim("first", [name]);
  await leadsTo(name, "one");
  await system.aged("tenant", "ingress/first");
  await claim("second", [name], { namespace: "other", className: "two" });
  await until("a conflict", async () => {
    return (await claimsOf(name)).some(({ from, reason }) => from.name === "second" && reason?.code === "conflict");
  });
  await leadsTo(name, "one");
  const editions = await recordMap(system);
  await system.kubectl("-n", "tenant", "delete", "ingress", "first");
  await leadsTo(name, "two");
  for (const hosts of await editions()) assert.ok(hosts.has(name), "moved, not removed");
});
