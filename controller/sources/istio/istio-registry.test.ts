import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import type { View } from "../types.ts";
import { IstioRegistry } from "./istio-registry.ts";
import { gatewayKey, viewGateway, viewVirtualService } from "./view.ts";

const SELECTOR = { istio: "ingressgateway" };
const server = (...hosts: string[]) => ({ port: { number: 443 }, hosts });

function rig({ gateways = true } = {}) {
  const claims = new Map<string, string[]>();
  const whole = new Map<string, readonly View[]>();
  const decided: string[] = [];
  const registry = new IstioRegistry({ gateways }, (key, list) => {
    decided.push(key);
    whole.set(key, list);
    claims.set(
      key,
      list.map(({ hostname, hints }) => ("code" in hints ? `${hostname}: ${hints.code}` : hostname)),
    );
  });
  const object = (key: string, spec: object, annotations: object = {}) => {
    const [namespace, name] = key.split("/");
    return { metadata: { namespace, name, annotations, creationTimestamp: "t" }, spec };
  };
  const gateway = (key: string, servers: readonly object[], more: object = {}, annotations: object = {}) =>
    registry.setGateway(key, viewGateway(object(key, { selector: SELECTOR, servers, ...more }, annotations)));
  const service = (key: string, spec: object, annotations: object = {}) =>
    registry.setVirtualService(key, viewVirtualService(object(key, spec, annotations)));
  const of = (kind: string, key: string) => claims.get(`${kind} ${key}`);
  return { registry, whole, decided, gateway, service, of };
}

test("a Gateway claims its servers' hosts, with its selector; wildcards cover any number of labels", () => {
  const { registry, gateway, whole, of } = rig();
  registry.open();
  gateway("infra/public", [
    server("a.com", "shop/b.com", "./c.com", "*/*.d.com", "*", "ns/*"),
    { hosts: ["portless.com"] },
    { ...server("*.local"), tls: { mode: "AUTO_PASSTHROUGH" } },
    { ...server("tls.com"), tls: { mode: "PASSTHROUGH" } },
  ]);
  assert.deepEqual(of("Gateway", "infra/public"), ["a.com", "b.com", "c.com", "*.d.com", "tls.com"]);
  assert.deepEqual(whole.get("Gateway infra/public")?.[3], {
    hostname: "*.d.com",
    from: { kind: "Gateway", namespace: "infra", name: "public" },
    created: "t",
    hints: { className: "istio", addresses: [], admitted: true, selector: SELECTOR },
    anyDepth: true,
  });
});

test("a VirtualService claims the names that it shares with its Gateways; the mesh adds none", () => {
  const { registry, gateway, service, of } = rig({ gateways: false });
  registry.open();
  gateway("infra/public", [server("*.a.com", "other/b.com")]);
  const hosts = ["x.a.com", "b.com", "*", "reviews"];
  service("shop/bound", { hosts, gateways: ["infra/public", "mesh"] });
  service("shop/lost", { hosts: ["x.a.com"], gateways: ["public"] });
  service("shop/mesh", { hosts, gateways: ["mesh"] });
  service("shop/none", { hosts });
  const bound = ["x.a.com", "*.a.com", "b.com: no-matching-listener", "reviews: no-matching-listener"];
  assert.deepEqual(of("VirtualService", "shop/bound"), bound);
  assert.deepEqual(of("VirtualService", "shop/lost"), ["x.a.com: gateway-not-found"]);
  assert.deepEqual([of("VirtualService", "shop/mesh"), of("VirtualService", "shop/none")], [[], []]);
  assert.equal(of("Gateway", "infra/public"), undefined);
});

test("Gateways with equal selectors yield one claim, and another selector a second one", () => {
  const { registry, gateway, service, whole } = rig();
  registry.open();
  gateway("infra/one", [server("a.com")], { selector: { a: "1", b: "2" } });
  gateway("infra/two", [server("a.com")], { selector: { b: "2", a: "1" } });
  gateway("infra/three", [server("a.com")], { selector: { a: "1" } });
  service("shop/web", { hosts: ["a.com"], gateways: ["infra/one", "infra/two", "infra/three"] });
  const claims = whole.get("VirtualService shop/web") ?? [];
  assert.deepEqual(
    claims.map(({ hints }) => ("code" in hints ? hints.code : hints.selector)),
    [{ a: "1", b: "2" }, { a: "1" }],
  );
});

test("a change evaluates its object, or a Gateway with its VirtualServices; without a change nothing happens", () => {
  const { registry, gateway, service, decided, of } = rig();
  gateway("infra/public", [server("a.com")]);
  gateway("infra/other", [server("b.com")]);
  for (const name of ["one", "two"]) service(`shop/${name}`, { hosts: ["a.com"], gateways: ["infra/public"] });
  service("shop/three", { hosts: ["b.com"], gateways: ["infra/other"] });
  assert.deepEqual(decided, []);
  registry.open();
  assert.equal(decided.splice(0).length, 5);
  service("shop/one", { hosts: ["a.com"], gateways: ["infra/public"], http: [] });
  gateway("infra/public", [server("a.com")]);
  assert.deepEqual(decided, []);
  service("shop/one", { hosts: ["c.com"], gateways: ["infra/public"] });
  assert.deepEqual(decided.splice(0), ["VirtualService shop/one"]);
  gateway("infra/public", [server("c.com")]);
  const both = ["Gateway infra/public", "VirtualService shop/one", "VirtualService shop/two"];
  assert.deepEqual(decided.splice(0).sort(), both);
  assert.deepEqual(of("VirtualService", "shop/one"), ["c.com"]);
  service("shop/two", { hosts: ["b.com"], gateways: ["infra/other"] });
  registry.setVirtualService("shop/one", undefined);
  decided.splice(0);
  registry.setGateway("infra/public", undefined);
  assert.deepEqual(decided, ["Gateway infra/public"]);
  assert.deepEqual(of("Gateway", "infra/public"), []);
});

test("our annotation excludes the names of an object; on a Gateway also those of its VirtualServices", () => {
  const { registry, gateway, service, of } = rig();
  registry.open();
  const IGNORE = { "switchback.dev/ignore": "true" };
  gateway("infra/public", [server("a.com")], {}, IGNORE);
  service("shop/web", { hosts: ["a.com", "*"], gateways: ["infra/public"] });
  assert.deepEqual(of("Gateway", "infra/public"), ["a.com: ignored"]);
  assert.deepEqual(of("VirtualService", "shop/web"), ["a.com: ignored"]);
  gateway("infra/public", [server("a.com")]);
  assert.deepEqual(of("VirtualService", "shop/web"), ["a.com"]);
  service("shop/web", { hosts: ["a.com", "*"], gateways: ["infra/public"] }, IGNORE);
  assert.deepEqual(of("VirtualService", "shop/web"), ["a.com: ignored"]);
});

test("an object that cannot be evaluated affects only itself, and the others are reported", () => {
  const failed: string[] = [];
  const reported: string[] = [];
  const sink = (key: string) => {
    if (key.endsWith("odd")) throw new Error("odd");
    reported.push(key);
  };
  const registry = new IstioRegistry({ gateways: true, onError: (key) => failed.push(key) }, sink);
  for (const name of ["odd", "fine"]) registry.setGateway(name, viewGateway({ metadata: { name } }));
  registry.open();
  assert.deepEqual([failed, reported], [["Gateway odd"], ["Gateway fine"]]);
});

test("a selector that is not a map of labels, or too large, is no evidence", () => {
  const { registry, gateway, of } = rig();
  registry.open();
  const many = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`l${index}`, "x"]));
  for (const selector of [{ istio: 7 }, many]) {
    gateway("infra/public", [server("a.com")], { selector });
    assert.deepEqual(of("Gateway", "infra/public"), ["a.com: no-gateway-service"]);
  }
});

// Source: istio/istio, pilot/pkg/networking/core/gateway.go, isGatewayMatch; route/route.go, sourceMatchHTTP.
for (const [what, rules, expected] of [
  ["a rule without match", { http: [{ route: [] }] }, ["a.com"]],
  ["an empty match list", { http: [{ match: [] }] }, ["a.com"]],
  ["a match without gateways", { http: [{ match: [{ port: 80 }] }] }, ["a.com"]],
  ["a match with it", { http: [{ match: [{ gateways: ["infra/public"] }] }] }, ["a.com"]],
  ["a match with it, of TLS", { tls: [{ match: [{ gateways: ["infra/public"] }] }] }, ["a.com"]],
  ["a second match, of TCP", { tcp: [{ match: [{ gateways: ["mesh"] }, { gateways: ["infra/public"] }] }] }, ["a.com"]],
  ["a match of the mesh", { http: [{ match: [{ gateways: ["mesh"] }] }] }, ["a.com: no-gateway-rule"]],
  ["a match of another", { http: [{ match: [{ gateways: ["public"] }] }] }, ["a.com: no-gateway-rule"]],
  ["one of the mesh, and one for all", { http: [{ match: [{ gateways: ["mesh"] }] }, {}] }, ["a.com"]],
] as const) {
  test(`a VirtualService with ${what}`, () => {
    const { registry, gateway, service, of } = rig();
    registry.open();
    gateway("infra/public", [server("a.com")]);
    service("shop/web", { hosts: ["a.com"], gateways: ["infra/public", "mesh"], ...rules });
    assert.deepEqual(of("VirtualService", "shop/web"), expected);
  });
}

// Source: istio/istio, pilot/pkg/model/push_context.go, initVirtualServices.
for (const [exportTo, expected] of [
  [undefined, undefined],
  [[], undefined],
  [["*"], undefined],
  [["infra", "*"], undefined],
  [["."], ["shop"]],
  [
    ["infra", ".", "infra"],
    ["infra", "shop"],
  ],
  [["~"], "not-exported"],
] as const) {
  test(`a VirtualService with exportTo ${JSON.stringify(exportTo)}`, () => {
    const { registry, gateway, service, whole } = rig();
    registry.open();
    gateway("infra/public", [server("a.com")]);
    service("shop/web", { hosts: ["a.com"], gateways: ["infra/public"], exportTo });
    const [claim] = whole.get("VirtualService shop/web") ?? [];
    assert.ok(claim !== undefined);
    assert.deepEqual("code" in claim.hints ? claim.hints.code : claim.hints.exportedTo, expected);
  });
}

// Source: istio/istio, pilot/pkg/model/config.go, resolveGatewayName.
test("the current and former forms of a Gateway's name are read", () => {
  const names = ["gw", "./gw", "infra/gw", "gw.infra", "gw.infra.svc.cluster.local"];
  assert.deepEqual(
    names.map((name) => gatewayKey(name, "shop")),
    ["shop/gw", "shop/gw", "infra/gw", "infra/gw", "infra/gw"],
  );
});

test("fields of other types count as missing", () => {
  for (const raw of [{}, { metadata: 7, spec: [] }, { spec: { servers: "x", hosts: {}, gateways: [1, null, {}] } }]) {
    assert.deepEqual(viewGateway(raw).hosts, []);
    assert.deepEqual([viewVirtualService(raw).hosts, viewVirtualService(raw).gateways], [[], []]);
  }
});

test("property: any object is read without an exception", () => {
  const field = fc.jsonValue();
  const spec = fc.record({ selector: field, servers: fc.array(field), hosts: field, gateways: field });
  const property = fc.property(field, spec, (metadata, any) => {
    const { registry } = rig();
    registry.open();
    const raw = { metadata, spec: any };
    registry.setGateway("a/b", viewGateway(raw));
    registry.setVirtualService("a/b", viewVirtualService({ metadata, spec: { ...any, gateways: ["a/b"] } }));
    registry.setVirtualService("a/b", viewVirtualService(raw));
  });
  fc.assert(property);
});

test("hostile: ten thousand hosts, a thousand Gateways or deep wildcards take bounded time", () => {
  const { registry, gateway, service, of, whole } = rig();
  registry.open();
  const deep = "a.".repeat(30);
  const hosts = Array.from({ length: 10_000 }, (_, index) => `${deep}h${index}.com`);
  const gateways = Array.from({ length: 1_000 }, (_, index) => `infra/g${index}`);
  for (const key of gateways.slice(0, 20)) gateway(key, [server(...hosts)]);
  assert.equal(of("Gateway", "infra/g0")?.length, 1_001);
  assert.equal(of("Gateway", "infra/g0")?.at(-1), `${hosts[1_000]}: too-many-names`);
  const begun = process.cpuUsage();
  service("shop/web", { hosts: ["*.x.com", ...hosts], gateways });
  const { user, system } = process.cpuUsage(begun);
  assert.ok((user + system) / 1_000 < 500, `${(user + system) / 1_000} ms`);
  assert.equal(of("VirtualService", "shop/web")?.length, 1_001);
  service("shop/web", { hosts: ["*.none.com"], gateways });
  const [claim] = whole.get("VirtualService shop/web") ?? [];
  assert.ok(claim !== undefined && "code" in claim.hints);
  assert.match(claim.hints.text, /only the first 8 are read/);
  const match = gateways.map((one) => ({ gateways: [one, "x", "y"] }));
  const many = { hosts: ["a.com"], gateways, http: Array.from({ length: 300 }, () => ({ match })), exportTo: gateways };
  const before = process.cpuUsage();
  service("shop/web", many);
  const more = process.cpuUsage(before);
  assert.ok((more.user + more.system) / 1_000 < 1_500, `${(more.user + more.system) / 1_000} ms`);
});
