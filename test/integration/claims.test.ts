import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { NameStatus } from "#controller/status.ts";
import { recordMap } from "./history.ts";
import { type IngressParts, ingress, mapped, namespaceYaml } from "./objects.ts";
import { streamPods } from "./pod-stream.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

const QUOTA = 4;
const service = (namespace: string, name: string) => ({ service: { namespace, name } });
const TARGETS = [
  {
    name: "one",
    upstream: service("edge", "one"),
    classes: ["one"],
    ports: [
      { port: 80, protocol: "v1" },
      { port: 443, upstreamPort: 8443, protocol: "v1" },
    ],
  },
  {
    name: "two",
    upstream: service("edge", "two"),
    classes: ["two", "two-too"],
    ports: [{ port: 443, protocol: "v2" }],
  },
  { name: "direct", upstream: service("edge", "router"), classes: ["direct"], ports: [{ port: 80, protocol: "none" }] },
];

let system: System;
before(async () => {
  const policy = { maxNamesPerNamespace: QUOTA, denyDomains: ["denied.example.com", "*.denied.example.com"] };
  const map = { vanishSeconds: 0 };
  system = await startSystem({ values: { config: { targets: TARGETS, policy, map, clusterDomain: "cozy.example" } } });
  const router = { apiVersion: "v1", kind: "Service", metadata: { namespace: "edge", name: "router" } };
  const ports = [{ port: 80 }];
  await system.apply(`${["edge", "single", "many", "old", "young"].map((name) => namespaceYaml(name)).join("")}
${namespaceYaml("labelled", "enabled")}
${JSON.stringify({ ...router, spec: { ipFamilyPolicy: "PreferDualStack", ports } })}`);
});
after(() => system?.stop());

async function claims(name: string): Promise<readonly NameStatus[]> {
  const leader = await system.leader();
  return (await leader.status()).names.filter((entry) => entry.name === name);
}

/** Waits until every claim of the name is refused for this reason. Returns the reason's text. */
async function refusal(name: string, code: string): Promise<string> {
  let texts: (string | undefined)[] = [];
  await until(`${name} to be refused: ${code}`, async () => {
    const found = await claims(name);
    texts = found.map(({ reason }) => reason?.text);
    return found.length > 0 && found.every(({ reason }) => reason?.code === code);
  });
  return texts.join();
}

async function serviceAddresses(namespace: string, name: string): Promise<string[]> {
  const { spec } = await system.json<{ spec: { clusterIPs: string[] } }>("-n", namespace, "get", "svc", name);
  return spec.clusterIPs;
}

/** Waits until the published line of a name leads to these addresses. */
async function leadsTo(name: string, addresses: readonly string[]): Promise<void> {
  await until(`${name} to lead to ${addresses.join(", ")}`, async () => {
    return (await system.published()).get(name)?.join() === addresses.join();
  });
}

const front = (target: string) => serviceAddresses(NAMESPACE, `switchback-${target}`);

/** Creates an Ingress in the namespace `single`, unless `parts` has another one. */
async function claim(name: string, host: string, parts: IngressParts = {}): Promise<void> {
  await system.apply(ingress(name, [host], { namespace: "single", ...parts }));
}

const unclaim = (name: string) => system.kubectl("-n", "single", "delete", "ingress", name);

describe("several targets", () => {
  it("map names by class to their own addresses; without PROXY protocol to the ingress controller's own", async () => {
    await system.apply(`${ingress("one", ["one.example.com"], { className: "one" })}
${ingress("two", ["two.example.com"], { className: "two", tlsHosts: ["tls.example.com", "two.example.com"] })}
${ingress("direct", ["direct.example.com"], { className: "direct" })}`);
    await leadsTo("one.example.com", await front("one"));
    await leadsTo("two.example.com", await front("two"));
    await leadsTo("tls.example.com", await front("two"));
    await leadsTo("direct.example.com", await serviceAddresses("edge", "router"));
    const all = [...(await system.published()).values()].flat();
    assert.equal(new Set(all).size, 6, "three targets, two families");
  });

  it("have a front Service with their own ports; a target without a relay has none", async () => {
    interface Service {
      metadata: { name: string };
      spec: { ports: { port: number; targetPort: number }[]; selector: object };
    }
    const args = ["-n", NAMESPACE, "get", "svc", "-l", "switchback.dev/target"];
    const { items } = await system.json<{ items: Service[] }>(...args);
    const ports = items.map(({ metadata, spec }) => [metadata.name, ...spec.ports.map(({ port }) => port)]);
    assert.deepEqual(ports.sort(), [
      ["switchback-one", 80, 443],
      ["switchback-two", 443],
    ]);
    const listeners = items.flatMap(({ spec }) => spec.ports.map(({ targetPort }) => targetPort));
    assert.equal(new Set(listeners).size, 3, "a listener each");
  });

  it("have all their names in one pod", async () => {
    await system.ready(["one.example.com", "two.example.com", "direct.example.com"]);
    const stream = streamPods(system, { namespace: "labelled", concurrency: 1 });
    await until("a pod", () => stream.created.length > 0);
    const [created] = await stream.stop();
    assert.ok(created);
    assert.deepEqual(mapped(created.pod), [
      "direct.example.com",
      "one.example.com",
      "tls.example.com",
      "two.example.com",
    ]);
    const aliases = new Map(created.pod.spec.hostAliases?.map(({ ip, hostnames }) => [ip, hostnames]));
    for (const ip of await front("two")) assert.deepEqual(aliases.get(ip), ["tls.example.com", "two.example.com"]);
  });

  it("follow the Service of a target without a relay to its new address", async () => {
    await system.kubectl("-n", "edge", "delete", "svc", "router");
    const metadata = { namespace: "edge", name: "router" };
    const spec = { ipFamilyPolicy: "SingleStack", ports: [{ port: 80 }] };
    await system.apply(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata, spec }));
    await leadsTo("direct.example.com", await serviceAddresses("edge", "router"));
  });
});

describe("the class of an Ingress", () => {
  const ingressClass = (name: string, isDefault: boolean) =>
    system.apply(
      JSON.stringify({
        apiVersion: "networking.k8s.io/v1",
        kind: "IngressClass",
        metadata: { name, annotations: { "ingressclass.kubernetes.io/is-default-class": String(isDefault) } },
        spec: { controller: "example.com/controller" },
      }),
    );

  it("may be in the old annotation, but the field wins", async () => {
    const annotations = { "kubernetes.io/ingress.class": "two" };
    await claim("old-class", "old-class.example.com", { className: null, annotations });
    await leadsTo("old-class.example.com", await front("two"));
    // The API server accepts both together only in an update.
    await claim("old-class", "old-class.example.com", { className: "one", annotations });
    await leadsTo("old-class.example.com", await front("one"));
    await unclaim("old-class");
  });

  it("is the cluster's default if the Ingress names none, and changes with the default", async () => {
    await claim("classless", "classless.example.com", { className: null });
    assert.match(await refusal("classless.example.com", "no-class"), /no default IngressClass/);
    await ingressClass("two-too", true);
    await leadsTo("classless.example.com", await front("two"));
    await ingressClass("two-too", false);
    // Nothing rules out its target, so the name stays.
    await until("it to be kept", async () => (await claims("classless.example.com"))[0]?.warning?.code === "kept");
    await leadsTo("classless.example.com", await front("two"));
    await ingressClass("one", true);
    await leadsTo("classless.example.com", await front("one"));
    await system.kubectl("delete", "ingressclass", "one", "two-too");
    await unclaim("classless");
  });

  it("is refused if no target lists it, and the reason names the classes that are listed", async () => {
    await claim("stray", "stray.example.com", { className: "traefik" });
    assert.match(
      await refusal("stray.example.com", "no-target"),
      /"traefik"; the targets list one, two, two-too, direct/,
    );
    await unclaim("stray");
  });
});

describe("names that are refused", () => {
  it("include those of an Ingress with our ignore annotation, while it has the annotation", async () => {
    await claim("ignored", "ignored.example.com", {
      className: "one",
      annotations: { "switchback.dev/ignore": "true" },
    });
    await refusal("ignored.example.com", "ignored");
    await claim("ignored", "ignored.example.com", { className: "one" });
    await leadsTo("ignored.example.com", await front("one"));
    await claim("ignored", "ignored.example.com", {
      className: "one",
      annotations: { "switchback.dev/ignore": "true" },
    });
    await until("it to leave", async () => !(await system.publishedNames()).has("ignored.example.com"));
    await unclaim("ignored");
  });

  for (const [host, code] of [
    ["acme-v02.api.letsencrypt.org", "name-protected"],
    ["shop.default.svc.cozy.example", "name-protected"],
    ["localhost", "name-invalid"],
    ["www.denied.example.com", "domain-not-allowed"],
  ] as const) {
    it(`include ${host}: ${code}`, async () => {
      await claim("bad", host, { className: "one" });
      assert.match(await refusal(host, code), /\S/);
      assert.ok(!(await system.publishedNames()).has(host));
      await unclaim("bad");
    });
  }

  it("include wildcards for pods: they stay in the map, and are reported", async () => {
    await claim("wild", "*.wild.example.com", { className: "one" });
    assert.match(await refusal("*.wild.example.com", "wildcard"), /hosts file/);
    await leadsTo("*.wild.example.com", await front("one"));
    await unclaim("wild");
  });

  it("include those over a namespace's quota; names of its oldest objects stay mapped", async () => {
    const names = Array.from({ length: QUOTA + 2 }, (_, index) => `q${index}.example.com`);
    const first = names.slice(0, QUOTA - 1);
    await system.apply(ingress("older", first, { namespace: "many", className: "one" }));
    await system.ready(first);
    await system.aged("many", "ingress/older");
    await system.apply(ingress("younger", names.slice(QUOTA - 1), { namespace: "many", className: "one" }));
    await system.ready(names.slice(0, QUOTA));
    for (const name of names.slice(QUOTA)) assert.match(await refusal(name, "namespace-quota"), /many .* 4 names/);
    await system.kubectl("-n", "many", "delete", "ingress", "older");
    await system.ready(names.slice(QUOTA - 1));
    await system.kubectl("-n", "many", "delete", "ingress", "younger");
  });
});

describe("one name, claimed for two targets", () => {
  it("stays with its namespace; another one gets a reason, and takes over without a gap", async () => {
    await claim("first", "contested.example.com", { namespace: "old", className: "one" });
    await leadsTo("contested.example.com", await front("one"));
    await system.aged("old", "ingress/first");
    await claim("second", "contested.example.com", { namespace: "young", className: "two" });
    await until("the second claim", async () => (await claims("contested.example.com")).length === 2);
    const [won, lost] = (await claims("contested.example.com")).toSorted((a, b) =>
      a.from.name < b.from.name ? -1 : 1,
    );
    assert.deepEqual([won?.target, won?.reason], ["one", undefined]);
    assert.equal(lost?.reason?.code, "conflict");
    assert.match(lost.reason.text, /the namespace old has the name, with the target one/);
    await leadsTo("contested.example.com", await front("one"));
    const editions = await recordMap(system);
    await system.kubectl("-n", "old", "delete", "ingress", "first");
    await leadsTo("contested.example.com", await front("two"));
    for (const hosts of await editions()) assert.ok(hosts.has("contested.example.com"), "moved, not removed");
  });
});
