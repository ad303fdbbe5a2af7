import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { OBJECTS } from "../published.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import { assertDenied, assertPasses, callsWith } from "./policy-calls.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// The controller's Events on a real API server: what it writes, and which other Events its token can write.

const EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events";
/** A leader writes an Event 10 s after a name was refused. */
const SETTLED_MS = 12_000;
const upstream = { service: { namespace: "edge", name: "edge" } };

interface KubeEvent {
  readonly reason: string;
  readonly note: string;
  readonly regarding: { readonly name: string; readonly uid: string };
}

let system: System;
before(async () => {
  const site = { group: "example.com", version: "v1", resource: "sites", hostnames: "$.spec.host" };
  const sources = { presets: ["openshift-route"], custom: [{ ...site, className: "one" }] };
  // No proxy runs here that could ask at the ports.
  const ports = [{ port: 443, protocol: "v1" }];
  const targets = ["one", "two"].map((name) => ({ name, upstream, classes: [name], ports }));
  const config = { sources, targets, map: { vanishSeconds: 0 }, controller: { leaseSeconds: 4 } };
  system = await startSystem({ controllers: 2, values: { config: { ...config, discovery: { detect: true } } } });
  await system.apply(namespaceYaml("shop") + namespaceYaml("secret-tenant"));
});
after(() => system?.stop());

const eventsOfShop = async () =>
  (await system.json<{ items: KubeEvent[] }>("-n", "shop", "get", "events.events.k8s.io")).items;

it("an Ingress whose names are refused gets an Event once, which names no object of another tenant", async () => {
  const taken = (name: string, parts: { namespace: string; className: string }) =>
    ingress(name, ["taken.example.com"], parts);
  await system.apply(taken("secret-object", { namespace: "secret-tenant", className: "two" }));
  await until("the older one", async () => (await system.publishedNames()).has("taken.example.com"));
  await system.aged("secret-tenant", "ingress/secret-object");
  await system.apply(taken("young", { namespace: "shop", className: "one" }));
  await system.apply(ingress("stray", ["stray.example.com"], { namespace: "shop", className: "nobody" }));
  await until("the Events", async () => (await eventsOfShop()).length >= 2);
  await system.end(await system.leader(), "SIGTERM");
  await system.leader();
  await delay(SETTLED_MS);
  const found = await eventsOfShop();
  const told = found.map(({ reason, note, regarding }) => `${regarding.name} ${reason}: ${note.split(")")[0]})`);
  assert.deepEqual(told.sort(), [
    "stray NoTarget: stray.example.com is not mapped (no-target)",
    "young Conflict: taken.example.com is not mapped (conflict)",
  ]);
  assert.doesNotMatch(JSON.stringify(found), /secret/);
  assert.match(await system.kubectl("-n", "shop", "describe", "ingress", "stray"), /Warning +NoTarget /);
});

/** An Event as the controller writes it, with the given changes. */
function event(changes: object = {}, metadata: object = { generateName: "switchback-" }) {
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { namespace: "shop", ...metadata },
    eventTime: "2026-01-01T00:00:00.000000Z",
    type: "Warning",
    reason: "NoTarget",
    action: "Map",
    note: "shop.example.com is not mapped (no-target)",
    reportingController: "switchback.dev/switchback-controller",
    reportingInstance: "switchback-controller-0",
    ...about("networking.k8s.io/v1", "Ingress"),
    ...changes,
  };
}

function about(apiVersion: string, kind: string, name = "web", namespace = "shop") {
  return { regarding: { apiVersion, kind, name, namespace } };
}

describe("the controller's token", () => {
  const tokens = { controller: "" };
  const { send, admin } = callsWith(() => system.cluster, tokens);
  const write = (body: object) => send("controller", "POST", EVENTS, body);
  before(async () => {
    tokens.controller = await system.cluster.tokenFor(`${NAMESPACE}/switchback-controller`);
  });

  for (const [apiVersion, kind] of [
    ["networking.k8s.io/v1", "Ingress"],
    ["gateway.networking.k8s.io/v1", "HTTPRoute"],
    ["route.openshift.io/v1", "Route"],
    ["example.com/v1", "Site"],
    ["apps/v1", "StatefulSet"],
    ["v1", "Pod"],
  ] as const) {
    it(`writes an Event about an object of kind ${kind}`, async () => {
      assertPasses(await write(event(about(apiVersion, kind))));
    });
  }

  it("writes one about an object of its own in its namespace, and about no other there", async () => {
    const own = (name: string) => {
      const changes = { reason: "RemovalHeld", action: "Publish", ...about("v1", "ConfigMap", name, NAMESPACE) };
      const body = event(changes, { namespace: NAMESPACE, name: "switchback-0123456789ab" });
      return send("controller", "POST", EVENTS.replace("/shop/", `/${NAMESPACE}/`), body);
    };
    assertPasses(await own(OBJECTS.map));
    assertDenied(await own("theirs"));
  });

  const named = { name: "switchback-a" };
  const ownerReferences = [{ apiVersion: "v1", kind: "Pod", name: "p", uid: "u" }];
  for (const [what, changes, metadata] of [
    ["a reason in another form", { reason: "node-not-ready" }],
    ["an action of another component", { action: "Evicting" }],
    ["the name of another component", { reportingController: "kubelet" }],
    ["a Secret as its subject", about("v1", "Secret")],
    ["a Service of others as its subject", about("v1", "Service", "switchback-web")],
    ["a Role as its subject", about("rbac.authorization.k8s.io/v1", "Role")],
    ["a kind of a source that is off as its subject", about("projectcontour.io/v1", "HTTPProxy")],
    ["another kind of a group that is read as its subject", about("networking.k8s.io/v1", "NetworkPolicy")],
    ["a second object", { related: { apiVersion: "v1", kind: "Secret", name: "s", namespace: "shop" } }],
    ["a series", { series: { count: 7, lastObservedTime: "2026-01-01T00:00:00.000000Z" } }],
    ["escape sequences for a terminal", { note: "\u001b[2J" }],
    ["escape sequences in the name of its writer", { reportingInstance: "\u009b2J" }],
    ["a direction mark", { note: "\u202e" }],
    ["escape sequences in the name of its subject", about("networking.k8s.io/v1", "Ingress", "\u001b[2J")],
    ["a long name of its subject", about("networking.k8s.io/v1", "Ingress", "x".repeat(254))],
    ["an object of another namespace as its subject", about("networking.k8s.io/v1", "Ingress", "web", "bank")],
    ["a name of others", {}, { name: "web.17a0c1d2e3f4" }],
    ["a finalizer, which would keep the namespace", {}, { ...named, finalizers: ["example.com/never"] }],
    ["labels", {}, { ...named, labels: { a: "b" } }],
    ["annotations", {}, { ...named, annotations: { a: "b" } }],
    ["an owner", {}, { ...named, ownerReferences }],
  ] as const) {
    it(`cannot write one with ${what}`, async () => {
      assertDenied(await write(event(changes, metadata)));
      // The admin may: the policy denied it, and nothing else.
      await admin("POST", `${EVENTS}?dryRun=All`, event(changes, metadata));
    });
  }

  it("can neither change, delete nor read an Event, nor write one of the core group", async () => {
    const there = event({}, { name: "there" });
    await admin("POST", EVENTS, there);
    const core = EVENTS.replace("/apis/events.k8s.io/v1/", "/api/v1/");
    const answers = [
      await send("controller", "PUT", `${EVENTS}/there`, there),
      await send("controller", "DELETE", `${EVENTS}/there`),
      await send("controller", "GET", `${EVENTS}/there`),
      await send("controller", "POST", core, { ...event(), apiVersion: "v1" }),
    ];
    assert.deepEqual(
      answers.map(({ status }) => status),
      [403, 403, 403, 403],
    );
  });
});
