import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { PRESETS } from "#controller/sources/custom.ts";
import { ISTIO_KINDS } from "#controller/sources/istio.ts";
import type { PresetName } from "#lib/config/sources.ts";
import { ACCEPTED, CRDS, condition, GatewayApi, installGatewayApi, installKind } from "./gateway-api.ts";
import { namespaceYaml } from "./objects.ts";
import { PRESET_OBJECTS } from "./preset-objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// Kinds that are not Kubernetes' own in the life of a cluster: Gateway API, the presets and a configured kind. They are
// installed after Switchback, used with the rights that the chart grants, removed while everything runs, and installed
// again.

const WIDGETS = {
  group: "example.com",
  version: "v1",
  resource: "widgets",
  hostnames: "$.hosts[*]",
  class: "$.class",
  className: "edge",
};
const KINDS = { ...PRESETS, ...ISTIO_KINDS };
const PRESET_NAMES = Object.keys(KINDS) as PresetName[];
/** Each class has a target of the same name. */
const CLASSES = ["edge", ...new Set(Object.values(PRESET_OBJECTS).map(({ className }) => className))];

let system: System;
let api: GatewayApi;
before(async () => {
  const targets = CLASSES.map((name) => ({
    name,
    upstream: { service: { namespace: "edge", name } },
    classes: [name],
  }));
  const sources = { custom: [WIDGETS], presets: PRESET_NAMES };
  const map = { vanishSeconds: 0, guardHoldSeconds: 0 };
  system = await startSystem({ values: { config: { targets, sources, map } } });
  api = new GatewayApi(system);
  await system.apply(["infra", "shop", "edge"].map((name) => namespaceYaml(name)).join(""));
  // Istio's Gateways select the pods that serve them by labels.
  const spec = { selector: { app: "gateway", istio: "ingressgateway" }, ports: [{ port: 443 }] };
  const metadata = { namespace: "edge", name: "istio" };
  await system.apply(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata, spec }));
});
after(() => system?.stop());

const listener = (name: string, more: object = {}) => ({ name, port: 80, protocol: "HTTP", ...more });
const FROM_ALL = { allowedRoutes: { namespaces: { from: "All" } } };

async function put(apiVersion: string, kind: string, resource: string, name: string, fields: object): Promise<void> {
  const path = `/apis/${apiVersion}/namespaces/shop/${resource}`;
  const object = { apiVersion, kind, metadata: { name }, ...fields };
  const { status, body } = await system.cluster.call({ method: "POST", path, body: object });
  assert.equal(status, 201, JSON.stringify(body));
}

const widget = (name: string, fields: object) => put("example.com/v1", "Widget", WIDGETS.resource, name, fields);

async function published(...names: string[]): Promise<void> {
  await until(`${names.join(", ")} to be published`, async () =>
    (await system.publishedNames()).isSupersetOf(new Set(names)),
  );
}

async function unpublished(...names: string[]): Promise<void> {
  await until(`${names.join(", ")} to leave`, async () =>
    (await system.publishedNames()).isDisjointFrom(new Set(names)),
  );
}

async function leadsTo(name: string, target: string): Promise<void> {
  await until(`${name} to lead to ${target}`, async () => {
    const { spec } = await system.json<{ spec: { clusterIPs: string[] } }>(
      ...["-n", NAMESPACE, "get", "svc", `switchback-${target}`],
    );
    return (await system.published()).get(name)?.join() === spec.clusterIPs.join();
  });
}

async function refused(name: string, code: string): Promise<void> {
  await until(`${name} to be refused: ${code}`, async () => {
    const found = (await (await system.leader()).status()).names.filter((entry) => entry.name === name);
    return found.length > 0 && found.every(({ reason }) => reason?.code === code);
  });
}

/** Waits until each kind is followed, or is known not to be installed. */
async function noProblem(): Promise<void> {
  let problems: unknown;
  const isInStep = async () => {
    const { sources } = await (await system.leader()).status();
    problems = sources.filter((source) => !source.synced || source.problems.length > 0);
    return (problems as unknown[]).length === 0;
  };
  await until("no problem", isInStep, 60_000).catch((error) => assert.fail(`${error}: ${JSON.stringify(problems)}`));
}

it("kinds that are not installed are no problem", async () => {
  const { sources, synced } = await (await system.leader()).status();
  assert.ok(synced);
  assert.ok(new Set(sources.map(({ name }) => name)).isSupersetOf(new Set([...CRDS, "widgets.example.com"])));
  await noProblem();
});

describe("once they are installed", () => {
  before(async () => {
    await installKind(system, "Widget", WIDGETS);
    for (const preset of PRESET_NAMES) {
      const { group, resource, versions } = KINDS[preset];
      await installKind(system, PRESET_OBJECTS[preset].kind, { group, resource, version: versions[0] ?? "" });
    }
    await installGatewayApi(system);
  });

  it("a configured kind gives its names, by class; wildcards are for DNS only", async () => {
    await widget("one", { hosts: ["one.example.com", "*.one.example.com"] });
    await widget("two", { hosts: ["two.example.com"], class: "traefik" });
    await leadsTo("one.example.com", "edge");
    await leadsTo("two.example.com", "traefik");
    await refused("*.one.example.com", "wildcard");
  });

  for (const preset of PRESET_NAMES) {
    it(`the preset ${preset} gives its names`, async () => {
      const { kind, spec, status, annotations = {}, names, className } = PRESET_OBJECTS[preset];
      const { group, resource, versions } = KINDS[preset];
      await put(`${group}/${versions[0]}`, kind, resource, preset, {
        metadata: { name: preset, annotations },
        ...{ spec, status },
      });
      for (const name of names) await leadsTo(name, className);
    });
  }

  it("each kind of route gives its names, and a listener its own before a route exists", async () => {
    await api.gateway("open", [
      listener("http", FROM_ALL),
      listener("own", { hostname: "listener.example.com" }),
      listener("tls", { port: 443, protocol: "TLS", tls: { mode: "Passthrough" }, ...FROM_ALL }),
    ]);
    await published("listener.example.com");
    await api.route("HTTPRoute", "http", "open", ["http.example.com"]);
    await api.route("GRPCRoute", "grpc", "open", ["grpc.example.com"]);
    await api.route("TLSRoute", "tls", "open", ["tls.example.com"]);
    await published("http.example.com", "grpc.example.com", "tls.example.com");
  });

  it("a route is mapped while its controller accepts it", async () => {
    const accepted = [condition("Accepted", "False")];
    await api.route("HTTPRoute", "later", "open", ["later.example.com"], { accepted });
    await refused("later.example.com", "not-accepted");
    await api.route("HTTPRoute", "later", "open", ["later.example.com"]);
    await published("later.example.com");
    await api.route("HTTPRoute", "later", "open", ["later.example.com"], { accepted });
    await unpublished("later.example.com");
  });

  it("a ListenerSet counts, with its routes, while a namespace's labels and its controller allow it", async () => {
    const selector = { matchLabels: { team: "sets" } };
    const allowedListeners = { namespaces: { from: "Selector", selector } };
    const listeners = [listener("wide", { hostname: "*.wide.example.com" })];
    const parentRef = { kind: "ListenerSet", namespace: "shop" };
    await api.gateway("sets", [listener("http", { hostname: "gateway.example.com" })], { allowedListeners });
    await api.listenerSet("set", "sets", listeners);
    await api.route("HTTPRoute", "set", "set", ["a.wide.example.com"], { parentRef });
    await refused("a.wide.example.com", "not-allowed");
    await system.kubectl("label", "namespace", "shop", "team=sets");
    await refused("*.wide.example.com", "not-accepted");
    await api.listenerSet("set", "sets", listeners, { conditions: ACCEPTED });
    await published("a.wide.example.com");
    await system.kubectl("label", "namespace", "shop", "team-");
    await unpublished("a.wide.example.com");
  });
});

it("an API server that restarts does not serve every kind at first: no name leaves, and all are followed", async () => {
  const before = [...(await system.publishedNames())];
  await system.cluster.restartApiServer("SIGKILL");
  await noProblem();
  await api.route("HTTPRoute", "afterwards", "open", ["afterwards.example.com"]);
  await published("afterwards.example.com");
  // Names are in the order of their first publication. A name that had left would come after the new one.
  assert.deepEqual([...(await system.publishedNames())], [...before, "afterwards.example.com"]);
});

it("removed kinds end their names like deleted objects; installed again, they are followed again", async () => {
  await system.kubectl("delete", "crd", ...CRDS, "widgets.example.com", "--timeout=60s");
  await unpublished("one.example.com", "http.example.com", "grpc.example.com", "tls.example.com");
  await published("route.example.com");
  // The controller looks for kinds every 15 s. Before that, it does not know that they are gone.
  await delay(20_000);
  await noProblem();
  await installKind(system, "Widget", WIDGETS);
  await installGatewayApi(system);
  await widget("one", { hosts: ["one.example.com"] });
  await api.gateway("open", [listener("http", FROM_ALL)]);
  await api.route("HTTPRoute", "http", "open", ["http.example.com"]);
  await published("one.example.com", "http.example.com");
});
