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
import { gatewaySource } from "./gateway.ts";

const GROUP = "/apis/gateway.networking.k8s.io";
const GATEWAYS = `${GROUP}/v1/gateways`;
const LISTENER_SETS = `${GROUP}/v1/listenersets`;
const HTTP_ROUTES = `${GROUP}/v1/httproutes`;
const GRPC_ROUTES = `${GROUP}/v1/grpcroutes`;
const TLS_ROUTES = `${GROUP}/v1alpha2/tlsroutes`;
const NAMESPACES = "/api/v1/namespaces";
const KINDS = [GATEWAYS, LISTENER_SETS, HTTP_ROUTES, GRPC_ROUTES, TLS_ROUTES];

const served = (name: string, kind: string) => ({ name, kind, verbs: ["list", "watch", "create"] });
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
  const source = gatewaySource({ client: api.client, budget: ample(), config, log: silentLogger });
  const reported: string[] = [];
  const calls = { synced: 0 };
  const start = () =>
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
  t.after(() => source.stop());
  return {
    pass,
    api,
    source,
    start,
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
    assert.deepEqual(api.watched, [...KINDS].sort());
  });
}

test("a cluster without Gateway API is synced and has no problem", async (t) => {
  const { api, source, start, calls } = rig(t);
  api.documents.clear();
  start();
  await settled();
  assert.deepEqual([calls.synced, api.watched], [1, []]);
  assert.deepEqual(
    source.state().map(({ name, synced, problems }) => [name.split(".")[0], synced, problems.length]),
    ["gatewayclasses", "gateways", "listenersets", "xlistenersets", "httproutes", "grpcroutes", "tlsroutes"].map(
      (name) => [name, true, 0],
    ),
  );
});

test("Gateway API that is installed later is followed within the configured time", async (t) => {
  const { pass, api, start, everyMs } = rig(t);
  const documents = [...api.documents];
  api.documents.clear();
  start();
  await settled();
  for (const [path, document] of documents) api.documents.set(path, document);
  await pass(everyMs - 100);
  assert.deepEqual(api.watched, []);
  await pass(200);
  assert.deepEqual(api.watched, [...KINDS].sort());
});

test("a change of a Gateway changes its routes' claims; routes of two kinds with one name stay distinct", async (t) => {
  const { api, start, take } = rig(t);
  start();
  await settled();
  api.set(GATEWAYS, gatewayObject("gw", [{}]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"]));
  api.set(GRPC_ROUTES, routeObject("web", ["gw"], ["b.example.com"]));
  assert.deepEqual(take(), [`GRPCRoute ${INFRA}/web: b.example.com`, `HTTPRoute ${INFRA}/web: a.example.com`]);
  api.set(GATEWAYS, gatewayObject("gw", [{ hostname: "a.example.com" }]));
  assert.deepEqual(take(), [`GRPCRoute ${INFRA}/web: no-matching-hostname`, `HTTPRoute ${INFRA}/web: a.example.com`]);
});

test("listeners claim hostnames if this is configured", async (t) => {
  const { api, start, take } = rig(t, { listeners: true });
  api.set(GATEWAYS, gatewayObject("gw", [{ hostname: "a.example.com" }]));
  start();
  await settled();
  assert.deepEqual(take(), [`Gateway ${INFRA}/gw: a.example.com`]);
});

test("ListenerSets claim hostnames, and namespaces are read if a Gateway selects ListenerSets by them", async (t) => {
  const { api, start, take } = rig(t, { listeners: true });
  api.set(NAMESPACES, { metadata: { name: "shop", labels: { shared: "yes" } } });
  api.set(GATEWAYS, gatewayObject("gw", [], {}, SELECTING));
  api.set(LISTENER_SETS, listenerSetObject("set", "gw", [{ hostname: "a.example.com" }], { namespace: "shop" }));
  start();
  await settled();
  assert.deepEqual(take(), [`Gateway ${INFRA}/gw: `, "ListenerSet shop/set: a.example.com"]);
  api.set(NAMESPACES, { metadata: { name: "shop", labels: {} } });
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

test("if a listener selects namespaces by labels, the source is synced only with the namespaces", async (t) => {
  const { api, source, start, calls, take } = rig(t);
  api.set(GATEWAYS, gatewayObject("gw", [SELECTING]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"], { namespace: "shop" }));
  api.set(NAMESPACES, { metadata: { name: "shop", labels: { shared: "yes" } } });
  const release = api.hold(NAMESPACES);
  start();
  await settled();
  assert.deepEqual([calls.synced, take()], [0, []]);
  assert.deepEqual([source.state().at(-1)?.name, source.state().at(-1)?.synced], ["namespaces", false]);
  release();
  await settled();
  assert.deepEqual([calls.synced, take()], [1, ["HTTPRoute shop/web: a.example.com"]]);
  api.set(NAMESPACES, { metadata: { name: "shop", labels: {} } });
  assert.equal(take().length, 1);
  api.set(GATEWAYS, gatewayObject("other", [SELECTING]));
  await settled();
  assert.equal(api.watched.filter((collection) => collection === NAMESPACES).length, 1, "watched once");
});

test("namespaces are read once a listener selects them; synced is not reported twice", async (t) => {
  const { api, source, start, calls, take } = rig(t);
  start();
  await settled();
  assert.equal(source.state().length, KINDS.length + 2, "this cluster has no GatewayClasses and XListenerSets");
  api.set(NAMESPACES, { metadata: { name: "shop", labels: { shared: "yes" } } });
  api.set(GATEWAYS, gatewayObject("gw", [SELECTING]));
  api.set(HTTP_ROUTES, routeObject("web", ["gw"], ["a.example.com"], { namespace: "shop" }));
  await settled();
  assert.deepEqual([calls.synced, take()], [1, ["HTTPRoute shop/web: a.example.com"]]);
  assert.deepEqual([...api.whole].sort(), [...KINDS].sort(), "labels are metadata");
});

test("stopping ends every watch and the discovery poll, and waits for them", async (t) => {
  const { pass, api, source, start, everyMs } = rig(t);
  api.set(GATEWAYS, gatewayObject("gw", [SELECTING]));
  start();
  await settled();
  assert.deepEqual(api.watched, [NAMESPACES, ...KINDS].sort());
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = source.stop();
  assert.equal(await isSettled(stopped), false);
  linger.resolve();
  await stopped;
  assert.deepEqual(api.watched, []);
  const asked = api.reads.length;
  await pass(everyMs * 2);
  assert.equal(api.reads.length, asked);
});
