import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { ample } from "#test/fakes/claim-budget.ts";
import {
  gatewayObject,
  INFRA,
  type ListenerParts,
  listenerSetObject,
  routeObject,
} from "#test/fakes/gateway-objects.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import { ClaimList } from "./claim-list.ts";
import { gatewaySource } from "./gateway.ts";
import { Namespaces } from "./namespaces.ts";
import { CONFIRM_MS } from "./optional-kinds.ts";
import type { View } from "./types.ts";

const GROUP = "/apis/gateway.networking.k8s.io";
const GATEWAYS = `${GROUP}/v1/gateways`;
const LISTENER_SETS = `${GROUP}/v1/listenersets`;
const HTTP_ROUTES = `${GROUP}/v1/httproutes`;
const GRPC_ROUTES = `${GROUP}/v1/grpcroutes`;
const TLS_ROUTES = `${GROUP}/v1alpha2/tlsroutes`;
const NAMESPACES = "/api/v1/namespaces";
const KINDS = [GATEWAYS, LISTENER_SETS, HTTP_ROUTES, GRPC_ROUTES, TLS_ROUTES];

const WATCHED = [NAMESPACES, ...KINDS].sort();

const served = (name: string, kind: string) => ({ name, kind, verbs: ["list", "watch", "create"] });
/** Time in which a change is evaluated, milliseconds. */
const SOON_MS = 100;
const SELECTING: ListenerParts = { from: "Selector", selector: { matchLabels: { shared: "yes" } } };

/** A cluster with Gateway API, where TLSRoutes exist only in an old version, and a source for it. */
function rig(t: TestContext, gateway: object = { listeners: false }) {
  const pass = stopTime(t, 50);
  const api = new MemoryKube();
  api.documents.set(GROUP, { versions: [{ version: "v1" }, { version: "v1alpha2" }] });
  api.documents.set(`${GROUP}/v1`, {
    resources: [
      served("gateways", "Gateway"),
      served("listenersets", "ListenerSet"),
      served("httproutes", "HTTPRoute"),
      served("grpcroutes", "GRPCRoute"),
    ],
  });
  api.documents.set(`${GROUP}/v1alpha2`, { resources: [served("tlsroutes", "TLSRoute")] });
  const config = parseConfig({ sources: { gateway } }).sources;
  const namespaces = new Namespaces({ client: api.client, log: silentLogger });
  api.set(NAMESPACES, { metadata: { name: INFRA } });
  const source = gatewaySource({ client: api.client, budget: ample(), config, namespaces, log: silentLogger });
  const reported: string[] = [];
  const calls = { synced: 0 };
  const start = () => {
    namespaces.start(() => {});
    source.start(
      (key, claims) => {
        reported.push(
          `${key}: ${claims.map(({ hostname, hints }) => ("code" in hints ? hints.code : hostname)).join()}`,
        );
      },
      () => {
        calls.synced += 1;
      },
    );
  };
  const stop = () => Promise.all([namespaces.stop(), source.stop()]);
  t.after(stop);
  return {
    pass,
    api,
    source,
    start,
    stop,
    calls,
    take: () => reported.splice(0).sort(),
    everyMs: config.discoverySeconds * 1000,
  };
}

for (const last of KINDS) {
  test(`no report comes before every kind is known, then all at once: ${last.split("/").pop()} is last`, async (t) => {
    const { api, start, calls, take } = rig(t);
    api.set(GATEWAYS, gatewayObject("gw", [{}]));
    api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"]));
    const release = api.hold(last);
    start();
    await settled();
    assert.deepEqual([take(), calls.synced], [[], 0]);
    release();
    await settled();
    assert.deepEqual([take(), calls.synced], [[`HTTPRoute ${INFRA}/web: a.example.com`], 1]);
    assert.deepEqual(api.watched, WATCHED);
  });
}

test("a cluster without Gateway API is synced and has no problem", async (t) => {
  const { api, source, start, calls } = rig(t);
  api.documents.clear();
  start();
  await settled();
  assert.deepEqual([calls.synced, api.watched], [1, [NAMESPACES]]);
  assert.deepEqual(
    source.state().map(({ name, synced, problems }) => [name.split(".")[0], synced, problems.length]),
    ["gatewayclasses", "gateways", "listenersets", "xlistenersets", "httproutes", "grpcroutes", "tlsroutes"].map(
      (name) => [name, true, 0],
    ),
  );
});

test("a change of a Gateway changes its routes' claims; routes of two kinds with one name stay distinct", async (t) => {
  const { pass, api, start, take } = rig(t);
  start();
  await settled();
  api.set(GATEWAYS, gatewayObject("gw", [{}]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"]));
  api.set(GRPC_ROUTES, routeObject("web", ["gw"], ["b.example.com"]));
  await pass(SOON_MS);
  assert.deepEqual(take(), [`GRPCRoute ${INFRA}/web: b.example.com`, `HTTPRoute ${INFRA}/web: a.example.com`]);
  api.set(GATEWAYS, gatewayObject("gw", [{ hostname: "a.example.com" }]));
  await pass(SOON_MS);
  assert.deepEqual(take(), [`GRPCRoute ${INFRA}/web: no-matching-hostname`], "the other claim is as before");
});

test("a change without effect is not reported, and many changes are evaluated at once", async (t) => {
  const { pass, api, start, take } = rig(t);
  api.set(GATEWAYS, gatewayObject("gw", [{}]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"]));
  start();
  await settled();
  assert.equal(take().length, 1);
  api.set(GATEWAYS, gatewayObject("gw", [{}], { spec: { ...(gatewayObject("gw", [{}]).spec as object), x: 1 } }));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"]));
  await pass(SOON_MS);
  assert.deepEqual(take(), []);
  for (const name of ["b", "c", "d"]) api.set(HTTP_ROUTES, routeObject("web", ["gw"], [`${name}.example.com`]));
  await pass(SOON_MS);
  assert.deepEqual(take(), [`HTTPRoute ${INFRA}/web: d.example.com`]);
});

test("an object that cannot be evaluated affects only itself: its earlier claims stay", async (t) => {
  const { pass, api, start, take } = rig(t);
  api.set(GATEWAYS, gatewayObject("gw", [{}]));
  for (const name of ["odd", "web"]) api.set(HTTP_ROUTES, routeObject(name, ["gw"], [`${name}.example.com`]));
  start();
  await settled();
  take();
  const { all } = Object.getOwnPropertyDescriptors(ClaimList.prototype);
  t.mock.getter(ClaimList.prototype, "all", function (this: ClaimList) {
    const views: readonly View[] = all.get?.call(this) ?? [];
    if (views[0]?.from.name === "odd") throw new Error("odd");
    return views;
  });
  for (const name of ["odd", "web"]) api.set(HTTP_ROUTES, routeObject(name, ["gw"], [`${name}.example.net`]));
  await pass(SOON_MS);
  assert.deepEqual(take(), [`HTTPRoute ${INFRA}/web: web.example.net`]);
});

test("a route that is deleted loses its claims once the kind is confirmed to be still served", async (t) => {
  const { pass, api, start, take } = rig(t);
  api.set(GATEWAYS, gatewayObject("gw", [{}]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"]));
  start();
  await settled();
  take();
  api.unset(HTTP_ROUTES, `${INFRA}/web`);
  await pass(CONFIRM_MS - SOON_MS);
  assert.deepEqual(take(), []);
  await pass(3 * SOON_MS);
  assert.deepEqual(take(), [`HTTPRoute ${INFRA}/web: `]);
});

test("listeners claim hostnames if this is configured", async (t) => {
  const { api, start, take } = rig(t, { listeners: true });
  api.set(GATEWAYS, gatewayObject("gw", [{ hostname: "a.example.com" }]));
  start();
  await settled();
  assert.deepEqual(take(), [`Gateway ${INFRA}/gw: a.example.com`]);
});

test("ListenerSets claim hostnames, and namespaces are read if a Gateway selects ListenerSets by them", async (t) => {
  const { pass, api, start, take } = rig(t, { listeners: true });
  api.set(NAMESPACES, { metadata: { name: "shop", labels: { shared: "yes" } } });
  api.set(GATEWAYS, gatewayObject("gw", [], {}, SELECTING));
  api.set(LISTENER_SETS, listenerSetObject("set", "gw", [{ hostname: "a.example.com" }], { namespace: "shop" }));
  start();
  await settled();
  assert.deepEqual(take(), ["ListenerSet shop/set: a.example.com"]);
  api.set(NAMESPACES, { metadata: { name: "shop", labels: {} } });
  await pass(SOON_MS);
  assert.deepEqual(take(), ["ListenerSet shop/set: listener-set-not-allowed"]);
});

test("an older Gateway API without ListenerSets is read as far as possible", async (t) => {
  const { api, source, start, calls, take } = rig(t);
  const resources = [served("gateways", "Gateway"), served("httproutes", "HTTPRoute")];
  api.documents.set(`${GROUP}/v1`, { resources });
  api.set(GATEWAYS, gatewayObject("gw", [{}]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"]));
  start();
  await settled();
  assert.deepEqual([calls.synced, take()], [1, [`HTTPRoute ${INFRA}/web: a.example.com`]]);
  assert.ok(source.state().every(({ problems }) => problems.length === 0));
});

test("a listener selects namespaces by their labels, which are metadata", async (t) => {
  const { pass, api, start, take } = rig(t);
  api.set(GATEWAYS, gatewayObject("gw", [SELECTING]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"], { namespace: "shop" }));
  api.set(NAMESPACES, { metadata: { name: "shop", labels: { shared: "yes" } } });
  start();
  await settled();
  assert.deepEqual(take(), ["HTTPRoute shop/web: a.example.com"]);
  api.set(NAMESPACES, { metadata: { name: "shop", labels: {} } });
  await pass(SOON_MS);
  assert.equal(take().length, 1);
  assert.deepEqual([...api.whole].sort(), [...KINDS].sort());
});

test("stopping ends every watch and the discovery poll, and waits for them", async (t) => {
  const { pass, api, stop, start, everyMs } = rig(t);
  start();
  await settled();
  assert.deepEqual(api.watched, WATCHED);
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = stop();
  assert.equal(await isSettled(stopped), false);
  linger.resolve();
  await stopped;
  assert.deepEqual(api.watched, []);
  const asked = api.reads.length;
  await pass(everyMs * 2);
  assert.equal(api.reads.length, asked);
});
