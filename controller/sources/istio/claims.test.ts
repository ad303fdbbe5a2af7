import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import type { View } from "../types.ts";
import { type IstioObject, istioClaims } from "./claims.ts";
import { gatewayKey, viewGateway, viewVirtualService } from "./view.ts";

const SELECTOR = { istio: "ingressgateway" };
const server = (...hosts: string[]) => ({ port: { number: 443 }, hosts });

/** Objects of Istio, and the claims that follow from all of them. */
function rig({ gateways = true } = {}) {
  const objects = new Map<string, IstioObject>();
  const whole = (object: string): readonly View[] => new Map(istioClaims(objects, { gateways })).get(object)?.() ?? [];
  const object = (key: string, spec: object, annotations: object = {}) => {
    const [namespace, name] = key.split("/");
    return { metadata: { namespace, name, annotations, creationTimestamp: "t" }, spec };
  };
  const gateway = (key: string, servers: readonly object[], more: object = {}, annotations: object = {}) =>
    objects.set(`Gateway ${key}`, viewGateway(object(key, { selector: SELECTOR, servers, ...more }, annotations)));
  const service = (key: string, spec: object, annotations: object = {}) =>
    objects.set(`VirtualService ${key}`, viewVirtualService(object(key, spec, annotations)));
  const of = (kind: string, key: string) =>
    whole(`${kind} ${key}`).map(({ hostname, hints }) => ("code" in hints ? `${hostname}: ${hints.code}` : hostname));
  return { objects, whole, gateway, service, of };
}

test("a Gateway claims its servers' hosts, with its selector; wildcards cover any number of labels", () => {
  const { gateway, whole, of } = rig();
  gateway("infra/public", [
    server("a.com", "shop/b.com", "./c.com", "*/*.d.com", "*", "ns/*"),
    { hosts: ["portless.com"] },
    { ...server("*.local"), tls: { mode: "AUTO_PASSTHROUGH" } },
    { ...server("tls.com"), tls: { mode: "PASSTHROUGH" } },
  ]);
  assert.deepEqual(of("Gateway", "infra/public"), ["a.com", "b.com", "c.com", "*.d.com", "tls.com"]);
  assert.deepEqual(whole("Gateway infra/public")[3], {
    hostname: "*.d.com",
    from: { kind: "Gateway", namespace: "infra", name: "public" },
    created: "t",
    hints: { className: "istio", addresses: [], admitted: true, selector: SELECTOR },
    anyDepth: true,
  });
});

test("a VirtualService claims the names that it shares with its Gateways; the mesh adds none", () => {
  const { gateway, service, of } = rig({ gateways: false });
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
  assert.deepEqual(of("Gateway", "infra/public"), []);
});

test("Gateways with equal selectors yield one claim, and another selector a second one", () => {
  const { gateway, service, whole } = rig();
  gateway("infra/one", [server("a.com")], { selector: { a: "1", b: "2" } });
  gateway("infra/two", [server("a.com")], { selector: { b: "2", a: "1" } });
  gateway("infra/three", [server("a.com")], { selector: { a: "1" } });
  service("shop/web", { hosts: ["a.com"], gateways: ["infra/one", "infra/two", "infra/three"] });
  const claims = whole("VirtualService shop/web");
  assert.deepEqual(
    claims.map(({ hints }) => ("code" in hints ? hints.code : hints.selector)),
    [{ a: "1", b: "2" }, { a: "1" }],
  );
});

test("our annotation excludes the names of an object; on a Gateway also those of its VirtualServices", () => {
  const { gateway, service, of } = rig();
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

test("a selector that is not a map of labels, or too large, is no evidence", () => {
  const { gateway, of } = rig();
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
  ["a match of the mesh", { http: [{ match: [{ gateways: ["mesh"] }] }] }, ["a.com: no-matching-listener"]],
  ["a match of another", { http: [{ match: [{ gateways: ["public"] }] }] }, ["a.com: no-matching-listener"]],
  ["one of the mesh, and one for all", { http: [{ match: [{ gateways: ["mesh"] }] }, {}] }, ["a.com"]],
] as const) {
  test(`a VirtualService with ${what}`, () => {
    const { gateway, service, of } = rig();
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
  [["~"], "not-allowed"],
] as const) {
  test(`a VirtualService with exportTo ${JSON.stringify(exportTo)}`, () => {
    const { gateway, service, whole } = rig();
    gateway("infra/public", [server("a.com")]);
    service("shop/web", { hosts: ["a.com"], gateways: ["infra/public"], exportTo });
    const [claim] = whole("VirtualService shop/web");
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
    const raw = { metadata, spec: any };
    const named = { metadata, spec: { ...any, gateways: ["a/b"] } };
    const objects = new Map<string, IstioObject>([
      ["Gateway a/b", viewGateway(raw)],
      ["VirtualService a/b", viewVirtualService(named)],
      ["VirtualService a/c", viewVirtualService(raw)],
    ]);
    for (const [, claimsOf] of istioClaims(objects, { gateways: true })) claimsOf();
  });
  fc.assert(property);
});

test("hostile: ten thousand hosts, a thousand Gateways or deep wildcards take bounded time", () => {
  const { gateway, service, of, whole } = rig();
  const deep = "a.".repeat(30);
  const hosts = Array.from({ length: 10_000 }, (_, index) => `${deep}h${index}.com`);
  const gateways = Array.from({ length: 1_000 }, (_, index) => `infra/g${index}`);
  for (const key of gateways.slice(0, 20)) gateway(key, [server(...hosts)]);
  assert.equal(of("Gateway", "infra/g0")?.length, 1_001);
  assert.equal(of("Gateway", "infra/g0")?.at(-1), `${hosts[1_000]}: too-many-names`);
  const begun = process.cpuUsage();
  service("shop/web", { hosts: ["*.x.com", ...hosts], gateways });
  whole("VirtualService shop/web");
  const { user, system } = process.cpuUsage(begun);
  assert.ok((user + system) / 1_000 < 500, `${(user + system) / 1_000} ms`);
  assert.equal(of("VirtualService", "shop/web")?.length, 1_001);
  service("shop/web", { hosts: ["*.none.com"], gateways });
  const [claim] = whole("VirtualService shop/web");
  assert.ok(claim !== undefined && "code" in claim.hints);
  assert.match(claim.hints.text, /only the first 8 are read/);
  const match = gateways.map((one) => ({ gateways: [one, "x", "y"] }));
  const many = { hosts: ["a.com"], gateways, http: Array.from({ length: 300 }, () => ({ match })), exportTo: gateways };
  const before = process.cpuUsage();
  service("shop/web", many);
  whole("VirtualService shop/web");
  const more = process.cpuUsage(before);
  assert.ok((more.user + more.system) / 1_000 < 1_500, `${(more.user + more.system) / 1_000} ms`);
});
