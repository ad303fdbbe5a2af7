import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import type { RoutingHints } from "../sources/types.ts";
import { TargetDiscovery } from "./discovery.ts";
import { findTarget } from "./find-target.ts";
import { foundName } from "./service-view.ts";

const SERVICES = "/api/v1/services";
const service = (
  key: string,
  parts: { readonly ip?: string; readonly ipMode?: string; readonly type?: string; readonly labels?: object } = {},
) => {
  const { ip = "203.0.113.7", ipMode, type = "LoadBalancer", labels = {} } = parts;
  const [namespace, name] = key.split("/");
  return {
    metadata: { namespace, name, creationTimestamp: "2026-01-01T00:00:00Z", labels },
    spec: { type, clusterIPs: ["10.96.0.7"], ports: [{ port: 443 }] },
    status: { loadBalancer: { ingress: [{ ip, ...(ipMode && { ipMode }) }] } },
  } as unknown as ApiObject;
};

const target = (name: string, classes: readonly string[] = [name]) => ({
  name,
  classes,
  upstream: { service: { namespace: "infra", name } },
});

/** Hints of an object that chooses a target by name. By its class, it would get the target `edge`. */
const choice = (name: string, namespace = "shop", more: Partial<RoutingHints> = {}): RoutingHints => ({
  className: "edge",
  addresses: [],
  admitted: true,
  chosen: { target: name, namespace },
  ...more,
});

const EDGE_AND_VIP = [target("edge"), target("vip")];

function byClass(targets: readonly object[], rules: readonly object[], more: object = {}) {
  const config = parseConfig({ targets, policy: { targets: rules, ...more } });
  const resolver = new TargetDiscovery({ config, log: silentLogger });
  return (hints: RoutingHints) => {
    const { target: found } = findTarget(hints, undefined, { resolver, config });
    return typeof found === "string" ? found : `${found.code}: ${found.text}`;
  };
}

test("no namespace may choose a target without a rule", () => {
  const resolve = byClass(EDGE_AND_VIP, []);
  const refused = 'target-not-allowed: the target "vip" is not allowed (switchback.dev/target in the namespace shop)';
  assert.equal(resolve(choice("vip")), `${refused}; it may choose no target (policy.targets)`);
  assert.match(resolve(choice("edge")), /^target-not-allowed:/, "also the one that it would have without the choice");
  assert.equal(resolve({ className: "edge", addresses: [], admitted: true }), "edge");
});

test("a rule allows targets to namespaces; the text lists only what the namespace may choose", () => {
  const resolve = byClass(EDGE_AND_VIP, [
    { namespaces: ["shop", "blog"], targets: ["vip"] },
    { namespaces: ["platform"], targets: ["*"] },
    { namespaces: ["*"], targets: ["common"] },
  ]);
  assert.equal(resolve(choice("vip")), "vip");
  assert.equal(resolve(choice("edge", "platform")), "edge");
  assert.match(resolve(choice("edge")), /^target-not-allowed: .*; it may choose vip, common \(policy.targets\)$/);
  assert.match(resolve(choice("vip", "other")), /^target-not-allowed: .*; it may choose common \(policy.targets\)$/);
  assert.match(
    resolve(choice("common", "other")),
    /^target-not-allowed: there is no target "common" .* choose common \(policy.targets\)$/,
  );
  const all = resolve(choice("nobody", "platform"));
  assert.match(
    all,
    /^target-not-allowed: there is no target "nobody" .* edge, vip, discovered targets \(policy.targets\)$/,
  );
});

test("a namespace without permission does not learn whether a target exists; odd names yield a reason", () => {
  const resolve = byClass(EDGE_AND_VIP, [{ namespaces: ["platform"], targets: ["*"] }]);
  const withoutName = (text: string) => text.replaceAll(/"[^"]*"/g, "NAME");
  assert.equal(withoutName(resolve(choice("vip"))), withoutName(resolve(choice("nobody"))));
  for (const odd of ["", "*", "__proto__", "constructor", "edge\n", "e".repeat(64), "\u0000"]) {
    assert.match(resolve(choice(odd)), /^target-not-allowed: /);
    assert.match(resolve(choice(odd, "platform")), /^target-not-allowed: there is no target [ -~]+$/);
  }
  for (const namespace of ["__proto__", "*", ""])
    assert.match(resolve(choice("vip", namespace)), /^target-not-allowed/);
});

test("if admission is required, objects that no controller has admitted wait; a choice is no admission", () => {
  const resolve = byClass(EDGE_AND_VIP, [{ namespaces: ["*"], targets: ["*"] }], { requireAdmitted: true });
  assert.equal(resolve({ className: "edge", addresses: [], admitted: true }), "edge");
  assert.match(resolve({ className: "edge", addresses: [], admitted: false }), /^not-admitted: /);
  assert.equal(resolve(choice("vip")), "vip");
  assert.match(resolve(choice("vip", "shop", { admitted: false })), /^not-admitted: /);
});

async function cluster(t: TestContext, settings: object, ...services: readonly ApiObject[]) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  for (const each of services) api.set(SERVICES, each);
  const config = parseConfig({ policy: { targets: [{ namespaces: ["shop"], targets: ["*"] }] }, ...settings });
  const discovery = new TargetDiscovery({ client: api.client, config, log: silentLogger });
  t.after(() => discovery.stop());
  discovery.start(
    () => {},
    () => {},
  );
  await settled();
  const resolve = (hints: RoutingHints) => {
    const { target: found } = findTarget(hints, undefined, { resolver: discovery, config });
    return typeof found === "string" ? found : found.code;
  };
  return { api, discovery, resolve, pass };
}

test("an object can choose a discovered target, whose Service decides whether a mapping is needed", async (t) => {
  const { api, discovery, resolve, pass } = await cluster(
    t,
    { targets: [target("edge")] },
    service("infra/plain"),
    service("infra/proxied", { ip: "203.0.113.8", ipMode: "Proxy" }),
    service("infra/inside", { type: "ClusterIP" }),
  );
  const plain = foundName("infra", "plain");
  assert.equal(resolve(choice(plain)), plain);
  assert.deepEqual(
    discovery.found(plain)?.ports.map(({ port }) => port),
    [443],
  );
  assert.equal(resolve(choice(foundName("infra", "proxied"))), "ip-mode-proxy");
  assert.equal(resolve(choice(foundName("infra", "inside"))), "target-not-allowed", "it is no load balancer");
  assert.equal(resolve(choice(plain, "blog")), "target-not-allowed");
  api.unset(SERVICES, "infra/plain");
  await pass(20);
  assert.equal(resolve(choice(plain)), "target-not-allowed", "its Service is gone");
});

test("an object can choose a configured target, whatever its class, address and selector", async (t) => {
  const { resolve } = await cluster(
    t,
    { targets: [target("edge"), target("vip")] },
    service("infra/other", { ip: "203.0.113.9" }),
  );
  assert.equal(resolve(choice("vip")), "vip");
  assert.equal(resolve(choice("vip", "shop", { className: undefined, addresses: ["203.0.113.9"] })), "vip");
  assert.equal(resolve(choice("vip", "shop", { className: "istio", selector: { istio: "egressgateway" } })), "vip");
});

test("an object can choose the target without classes if its Service exists", async (t) => {
  const targets = [target("only", [])];
  const gce = { className: "gce" };
  const { resolve, api, pass } = await cluster(t, { targets });
  assert.equal(resolve(choice("only", "shop", gce)), "target-missing");
  api.set(SERVICES, service("infra/only"));
  await pass(20);
  assert.equal(resolve(choice("only", "shop", gce)), "only");
  assert.equal(resolve({ className: "gce", addresses: [], admitted: false }), "another-controller");
});

test("a Service of another service proxy is no target by class, by choice, by address and by name", async (t) => {
  const labels = { "service.kubernetes.io/service-proxy-name": "other" };
  const foreign = ["infra/edge", "infra/found"].map((key) => service(key, { labels }));
  const { resolve, api, pass, discovery } = await cluster(t, { targets: [target("edge")] }, ...foreign);
  const found = foundName("infra", "found");
  const own = { className: undefined, addresses: [], admitted: true, service: { namespace: "infra", name: "found" } };
  assert.equal(resolve({ className: "edge", addresses: [], admitted: true }), "target-missing");
  assert.deepEqual([resolve(choice("edge")), resolve(choice(found))], ["target-missing", "target-not-allowed"]);
  assert.equal(resolve(own), "no-service");
  assert.equal(resolve({ className: "any", addresses: ["203.0.113.7"], admitted: true }), "no-target");
  assert.equal(discovery.targetAt("203.0.113.7"), undefined);
  api.set(SERVICES, service("infra/found", { ip: "203.0.113.8" }));
  await pass(20);
  assert.deepEqual([resolve(choice(found)), resolve(own)], [found, found], "without the label it is one");
});

test("a Service of another service proxy is no default target", async (t) => {
  const labels = { "service.kubernetes.io/service-proxy-name": "other" };
  const { resolve, discovery } = await cluster(t, { targets: [target("only", [])] }, service("infra/only", { labels }));
  assert.equal(resolve(choice("only")), "target-missing");
  assert.notEqual(resolve({ className: undefined, addresses: [], admitted: true }), "only");
  assert.deepEqual(discovery.configured(), []);
});
