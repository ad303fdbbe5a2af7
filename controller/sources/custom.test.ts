import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { ample } from "#test/fakes/claim-budget.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { ClaimBudget } from "./claim-budget.ts";
import { customSource } from "./custom.ts";

const VERBS = ["list", "watch", "create", "delete"];
const SERVICES = "/api/v1/services";
const ROUTES = "/apis/route.openshift.io/v1/routes";
const PROXIES = "/apis/projectcontour.io/v1/httpproxies";

/** A source with two presets in two groups, and with Services. */
function rig(t: TestContext, sources: object, budget = ample()) {
  const pass = stopTime(t, 50);
  const api = new MemoryKube();
  api.documents.set("/apis/route.openshift.io", { versions: [{ version: "v1" }] });
  api.documents.set("/apis/route.openshift.io/v1", { resources: [{ name: "routes", kind: "Route", verbs: VERBS }] });
  api.documents.set("/apis/projectcontour.io", { versions: [{ version: "v1" }] });
  api.documents.set("/apis/projectcontour.io/v1", {
    resources: [{ name: "httpproxies", kind: "HTTPProxy", verbs: VERBS }],
  });
  api.documents.set("/api/v1", { resources: [{ name: "services", kind: "Service", verbs: VERBS }] });
  const config = parseConfig({ sources }).sources;
  const source = customSource({ client: api.client, budget, config, log: silentLogger });
  const reported: string[] = [];
  const calls = { synced: 0 };
  const start = () =>
    source?.start(
      (key, claims) => reported.push(`${key} ${claims.map(({ hostname }) => hostname).join()}`),
      () => {
        calls.synced += 1;
      },
    );
  t.after(() => source?.stop());
  return { pass, api, source, start, reported, calls, discoveryMs: config.discoverySeconds * 1000 };
}

const route = (name: string) => ({ metadata: { namespace: "shop", name }, spec: { host: `${name}.example.com` } });
const proxy = (name: string) => ({
  metadata: { namespace: "shop", name },
  spec: { virtualhost: { fqdn: `${name}.example.com` } },
});
const balancer = (name: string) => ({
  metadata: {
    namespace: "shop",
    name,
    annotations: { "external-dns.alpha.kubernetes.io/hostname": `${name}.example.com` },
  },
  spec: { type: "LoadBalancer" },
});
const ALL = { presets: ["openshift-route", "contour-httpproxy"], services: { enabled: true } };

test("without a configured kind there is no source", () => {
  const config = parseConfig({}).sources;
  assert.equal(
    customSource({ client: new MemoryKube().client, budget: ample(), config, log: silentLogger }),
    undefined,
  );
});

test("Services are read if this is configured, even as the only kind", async (t) => {
  const { api, source, start, calls } = rig(t, { services: { enabled: true } });
  start();
  await settled();
  assert.deepEqual(
    source?.state().map(({ name }) => name),
    ["services"],
  );
  assert.deepEqual([api.watched, calls.synced], [[SERVICES], 1]);
});

test("Services that are not configured are not read", async (t) => {
  const { api, start } = rig(t, { presets: ["openshift-route"] });
  start();
  await settled();
  assert.deepEqual(api.watched, [ROUTES]);
});

for (const last of [ROUTES, PROXIES, SERVICES]) {
  test(`synced is reported once, when every kind is synced: ${last.split("/").pop()} last`, async (t) => {
    const { api, start, calls, source } = rig(t, ALL);
    const release = api.hold(last);
    start();
    await settled();
    assert.equal(calls.synced, 0);
    assert.equal(source?.state().filter(({ synced }) => !synced).length, 1);
    release();
    await settled();
    assert.equal(calls.synced, 1);
    assert.deepEqual(api.watched, [PROXIES, ROUTES, SERVICES].sort());
  });
}

test("objects and changes of all kinds are reported, each with its own key", async (t) => {
  const { api, start, reported } = rig(t, ALL);
  api.set(ROUTES, route("a"));
  api.set(PROXIES, proxy("a"));
  api.set(SERVICES, balancer("a"));
  start();
  await settled();
  assert.deepEqual(reported.splice(0).sort(), [
    "0 shop/a a.example.com",
    "1 shop/a a.example.com",
    "2 shop/a a.example.com",
  ]);
  api.set(PROXIES, { ...proxy("a"), spec: { virtualhost: { fqdn: "b.example.com" } } });
  assert.deepEqual(reported, ["1 shop/a b.example.com"]);
});

test("a deleted object makes room for those that did not fit into the budget", async (t) => {
  const budget = new ClaimBudget({ maxNamesPerNamespace: 1, holderOf: () => undefined });
  const { api, start, reported, pass } = rig(t, { services: { enabled: true } }, budget);
  t.after(() => budget.stop());
  const of50 = (name: string) => {
    const { metadata, spec } = balancer(name);
    const hostname = Array.from({ length: 50 }, (_, index) => `${index}.${name}.example.com`).join();
    return { metadata: { ...metadata, annotations: { "external-dns.alpha.kubernetes.io/hostname": hostname } }, spec };
  };
  for (const name of ["a", "b"]) api.set(SERVICES, of50(name));
  start();
  await settled();
  const entered = () => reported.splice(0).filter((each) => each.includes("49."));
  assert.deepEqual(
    entered().map((each) => each.slice(0, 8)),
    ["0 shop/a"],
  );
  api.unset(SERVICES, "shop/a");
  await pass(45_000);
  assert.deepEqual(
    entered().map((each) => each.slice(0, 8)),
    ["0 shop/b"],
  );
});

test("two kinds of one group share its discovery; a misspelt kind is reported", async (t) => {
  const widgets = (resource: string) => ({
    group: "route.openshift.io",
    version: "v1",
    resource,
    hostnames: "$.spec.host",
    className: "x",
  });
  const { api, start, source, calls } = rig(t, { presets: ["openshift-route"], custom: [widgets("rotues")] });
  start();
  await settled();
  assert.equal(calls.synced, 1);
  assert.equal(api.reads.filter((path) => path === "/apis/route.openshift.io").length, 1);
  const [, misspelt] = source?.state() ?? [];
  assert.equal(misspelt?.problems[0]?.code, "resource-not-served");
});
