import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { TargetDiscovery } from "./discovery.ts";
import { selects } from "./selectors.ts";

const INGRESS = { istio: "ingressgateway" };
const PRESETS = { sources: { presets: ["istio-gateway"] } };
const service = (name: string) => ({ service: { namespace: "edge", name } });

/** Targets of a cluster with Istio's preset, whose Services have selectors. */
async function cluster(t: TestContext, targets: readonly object[], more: object = PRESETS) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  const config = parseConfig({ targets, ...more });
  const discovery = new TargetDiscovery({ client: api.client, config, log: silentLogger });
  t.after(() => discovery.stop());
  const calls = { changes: 0, synced: 0 };
  const put = (name: string, selector?: object) =>
    api.set("/api/v1/services", {
      metadata: { namespace: "edge", name },
      spec: { type: "LoadBalancer", clusterIPs: ["10.96.0.7"], ports: [{ port: 443 }], ...(selector && { selector }) },
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.9" }] } },
    } as ApiObject);
  const start = async () => {
    discovery.start(
      () => {
        calls.changes += 1;
      },
      () => {
        calls.synced += 1;
      },
    );
    await settled();
    await pass(20);
  };
  const target = (selector: Readonly<Record<string, string>>, className = "istio") => {
    const found = discovery.resolve({ className, addresses: [], admitted: true, selector });
    return typeof found === "string" ? found : `${found.code}: ${found.text}`;
  };
  return { api, pass, discovery, calls, put, start, target };
}

test("a Service selects the pods of a selector if it has all labels of the selector", () => {
  assert.ok(selects({ ...INGRESS, app: "gateway" }, INGRESS));
  assert.ok(!selects(INGRESS, { ...INGRESS, app: "gateway" }));
  assert.ok(!selects({ istio: "egressgateway" }, INGRESS));
  assert.ok(!selects(INGRESS, {}));
  assert.ok(!selects(undefined, INGRESS));
  assert.ok(!selects({}, { constructor: "x" }));
});

test("the selector takes precedence over the class, and the Service may have any type", async (t) => {
  const targets = [
    { name: "edge", upstream: service("edge"), classes: ["istio"] },
    { name: "inner", upstream: service("inner"), classes: ["nginx"] },
  ];
  const { put, start, target, calls, pass } = await cluster(t, targets);
  put("edge", { ...INGRESS, app: "gateway" });
  put("inner", { istio: "inner" });
  await start();
  assert.deepEqual([target(INGRESS), target({ istio: "inner" })], ["edge", "inner"]);
  const none = /^no-gateway-service: no configured target's Service has .*"istio=egressgateway"/;
  assert.match(target({ istio: "egressgateway" }), none);
  assert.match(target({}), /^no-gateway-service: its Gateway has no selector/);
  assert.match(target({ a: "1", b: "2", c: "3", d: "4" }), /"a=1,b=2,c=3" and 1 more/);
  const before = calls.changes;
  put("inner", { istio: "egressgateway" });
  await settled();
  await pass(20);
  assert.deepEqual([target({ istio: "egressgateway" }), calls.changes], ["inner", before + 1]);
});

test("a target does not serve an object that is exported only to other namespaces", async (t) => {
  const { put, start, discovery } = await cluster(t, [{ name: "edge", upstream: service("edge") }]);
  put("edge", INGRESS);
  await start();
  const resolve = (exportedTo?: readonly string[]) => {
    const hints = { className: "istio", addresses: [], admitted: true, selector: INGRESS };
    const found = discovery.resolve(exportedTo === undefined ? hints : { ...hints, exportedTo });
    return typeof found === "string" ? found : `${found.code}: ${found.text}`;
  };
  assert.deepEqual([resolve(), resolve(["shop", "edge"])], ["edge", "edge"]);
  const text = '`exportTo` allows the namespaces "a", "b", "c" and 1 more, and the Service of edge is in none of them';
  assert.equal(resolve(["a", "b", "c", "d"]), `not-exported: ${text}`);
});

test("if several targets select the pods, the one that lists the class wins; otherwise none does", async (t) => {
  const targets = ["one", "two"].map((name) => ({ name, upstream: service(name), classes: [`${name}-class`] }));
  const { put, start, target } = await cluster(t, targets);
  for (const name of ["one", "two"]) put(name, INGRESS);
  await start();
  assert.equal(target(INGRESS, "two-class"), "two");
  assert.match(target(INGRESS), /^several-services: .*\(one, two\)/);
});

test("no discovered Service is selected: tenants copy labels, and egress gateways may be load balancers", async (t) => {
  const { put, start, target } = await cluster(t, []);
  put("copy", INGRESS);
  await start();
  assert.match(target(INGRESS), /^no-gateway-service/);
});

test("the target without classes serves an object only if its Service selects the pods", async (t) => {
  const { put, start, target } = await cluster(t, [{ name: "only", upstream: service("only") }]);
  put("only", INGRESS);
  await start();
  assert.equal(target(INGRESS), "only");
  assert.match(target({ istio: "egressgateway" }), /^no-gateway-service/);
});

test("for a host outside the cluster, the class decides instead of the selector", async (t) => {
  const upstream = { host: "gateway.example.net" };
  const listing = await cluster(t, [{ name: "outside", upstream, classes: ["istio"] }]);
  await listing.start();
  assert.equal(listing.target(INGRESS), "outside");
  assert.match(listing.target(INGRESS, "other"), /^no-gateway-service/);
});

test("a host outside the cluster serves every selector as the only target without classes", async (t) => {
  const { start, target } = await cluster(t, [{ name: "outside", upstream: { host: "gateway.example.net" } }]);
  await start();
  assert.equal(target(INGRESS), "outside");
});
