import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import {
  commonNames,
  gatewayKey,
  type IstioObject,
  istioClaims,
  serverHost,
  serverHosts,
  viewGateway,
  viewVirtualService,
} from "./istio.ts";
import type { View } from "./types.ts";

const SELECTOR = { istio: "ingressgateway" };
const IGNORE = { "switchback.dev/ignore": "true" };
const server = (...hosts: string[]) => ({ port: { number: 443 }, hosts });

/** Objects of Istio, and the claims that follow from all of them. */
function rig({ gateways = true } = {}) {
  const objects = new Map<string, IstioObject>();
  const whole = (object: string): readonly View[] => {
    const view = objects.get(object);
    return view === undefined ? [] : istioClaims(objects, { gateways })(view, object);
  };
  const object = (key: string, spec: object, annotations: object = {}) => {
    const [namespace, name] = key.split("/");
    return { metadata: { namespace, name, annotations, creationTimestamp: "t" }, spec };
  };
  const gateway = (key: string, servers: readonly object[], more: object = {}, annotations: object = {}) =>
    objects.set(`Gateway ${key}`, viewGateway(object(key, { selector: SELECTOR, servers, ...more }, annotations)));
  const service = (key: string, spec: object, annotations: object = {}) =>
    objects.set(`VirtualService ${key}`, viewVirtualService(object(key, spec, annotations)));
  const of = (one: string) =>
    whole(one).map(({ hostname, hints }) => ("code" in hints ? `${hostname}: ${hints.code}` : hostname));
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
  assert.deepEqual(of("Gateway infra/public"), ["a.com", "b.com", "c.com", "*.d.com", "tls.com"]);
  assert.deepEqual(whole("Gateway infra/public")[3], {
    hostname: "*.d.com",
    from: { kind: "Gateway", namespace: "infra", name: "public" },
    created: "t",
    hints: { className: "istio", addresses: [], admitted: true, selector: SELECTOR },
    anyDepth: true,
  });
  const many = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`l${index}`, "x"]));
  gateway("infra/public", [server("a.com")], { selector: many });
  assert.deepEqual(of("Gateway infra/public"), ["a.com: no-gateway-service"]);
});

const PUBLIC = { hosts: ["a.com"], gateways: ["infra/public", "mesh"] };
const SERVICES: readonly (readonly [what: string, spec: object, expected: readonly string[], annotations?: object])[] =
  [
    [
      "what it shares with its Gateway",
      { hosts: ["x.b.com", "c.com", "*", "reviews"], gateways: ["infra/public"] },
      ["x.b.com", "a.com", "*.b.com", "c.com: no-matching-listener", "reviews: no-matching-listener"],
    ],
    ["nothing at the mesh", { hosts: ["a.com"], gateways: ["mesh"] }, []],
    ["nothing without a Gateway", { hosts: ["a.com"] }, []],
    ["nothing if its Gateway does not exist", { hosts: ["a.com"], gateways: ["public"] }, ["a.com: gateway-not-found"]],
    ["nothing with our annotation", { ...PUBLIC, hosts: ["a.com", "*"] }, ["a.com: ignored"], IGNORE],
    ["nothing at a Gateway with our annotation", { hosts: ["a.com"], gateways: ["infra/off"] }, ["a.com: ignored"]],
    // Source: istio/istio, pilot/pkg/networking/core/gateway.go, isGatewayMatch; route/route.go, sourceMatchHTTP.
    ["its names with a rule without match", { ...PUBLIC, http: [{ route: [] }] }, ["a.com"]],
    ["its names with an empty match list", { ...PUBLIC, http: [{ match: [] }] }, ["a.com"]],
    ["its names with a match without gateways", { ...PUBLIC, http: [{ match: [{ port: 80 }] }] }, ["a.com"]],
    ["its names with a match of it", { ...PUBLIC, tls: [{ match: [{ gateways: ["infra/public"] }] }] }, ["a.com"]],
    [
      "its names with a second match of it",
      { ...PUBLIC, tcp: [{ match: [{ gateways: ["mesh"] }, { gateways: ["infra/public"] }] }] },
      ["a.com"],
    ],
    ["nothing with a match of the mesh", { ...PUBLIC, http: [{ match: [{ gateways: ["mesh"] }] }] }, []],
    ["nothing with a match of another", { ...PUBLIC, http: [{ match: [{ gateways: ["public"] }] }] }, []],
    ["its names with a rule for all", { ...PUBLIC, http: [{ match: [{ gateways: ["mesh"] }] }, {}] }, ["a.com"]],
  ];
for (const [what, spec, expected, annotations = {}] of SERVICES) {
  test(`a VirtualService claims ${what}`, () => {
    const { gateway, service, of } = rig();
    gateway("infra/public", [server("a.com", "*.b.com", "other/c.com")]);
    gateway("infra/off", [server("a.com")], {}, IGNORE);
    service("shop/web", spec, annotations);
    assert.deepEqual(of("VirtualService shop/web"), expected);
  });
}

test("Gateways without a preset claim nothing; ignored ones have a reason", () => {
  const { gateway, of } = rig({ gateways: false });
  gateway("infra/public", [server("a.com")]);
  assert.deepEqual(of("Gateway infra/public"), []);
  const other = rig();
  other.gateway("infra/public", [server("a.com")], {}, IGNORE);
  assert.deepEqual(other.of("Gateway infra/public"), ["a.com: ignored"]);
});

test("Gateways with equal selectors yield one claim, and another selector a second one", () => {
  const { gateway, service, whole } = rig();
  gateway("infra/one", [server("a.com")], { selector: { a: "1", b: "2" } });
  gateway("infra/two", [server("a.com")], { selector: { b: "2", a: "1" } });
  gateway("infra/three", [server("a.com")], { selector: { a: "1" } });
  service("shop/web", { hosts: ["a.com"], gateways: ["infra/one", "infra/two", "infra/three"] });
  assert.deepEqual(
    whole("VirtualService shop/web").map(({ hints }) => ("code" in hints ? hints.code : hints.selector)),
    [{ a: "1", b: "2" }, { a: "1" }],
  );
});

// Source: istio/istio, pilot/pkg/model/push_context.go, initVirtualServices.
test("a VirtualService is for the namespaces of exportTo, and chooses a target before its Gateway", () => {
  const { gateway, service, whole } = rig();
  const choose = (target: string) => ({ "switchback.dev/target": target });
  gateway("infra/public", [server("a.com")], {}, choose("edge"));
  for (const [exportTo, expected] of [
    [undefined, undefined],
    [[], undefined],
    [["infra", "*"], undefined],
    [["."], ["shop"]],
    [
      ["infra", ".", "infra"],
      ["infra", "shop"],
    ],
    [["~"], ["~"]],
  ] as const) {
    for (const own of [undefined, "vip"]) {
      service("shop/web", { ...PUBLIC, exportTo }, own === undefined ? {} : choose(own));
      const [claim] = whole("VirtualService shop/web");
      assert.ok(claim !== undefined && !("code" in claim.hints));
      assert.deepEqual(claim.hints.exportedTo, expected);
      assert.deepEqual(claim.hints.chosen?.target, own ?? "edge");
    }
  }
});

// Source: istio/istio, pilot/pkg/model/config.go, resolveGatewayName.
test("the current and former forms of a Gateway's name are read", () => {
  const names = ["gw", "./gw", "infra/gw", "gw.infra", "gw.infra.svc.cluster.local"];
  assert.deepEqual(
    names.map((name) => gatewayKey(name, "shop")),
    ["shop/gw", "shop/gw", "infra/gw", "infra/gw", "infra/gw"],
  );
});

test("hostile: ten thousand hosts, a thousand Gateways or deep wildcards take bounded time", () => {
  const { gateway, service, of, whole } = rig();
  const deep = "a.".repeat(30);
  const hosts = Array.from({ length: 10_000 }, (_, index) => `${deep}h${index}.com`);
  const gateways = Array.from({ length: 1_000 }, (_, index) => `infra/g${index}`);
  for (const key of gateways.slice(0, 20)) gateway(key, [server(...hosts)]);
  assert.equal(of("Gateway infra/g0").at(-1), `${hosts[1_000]}: too-many-names`);
  const begun = process.cpuUsage();
  service("shop/web", { hosts: ["*.x.com", ...hosts], gateways });
  whole("VirtualService shop/web");
  const { user, system } = process.cpuUsage(begun);
  assert.ok((user + system) / 1_000 < 500, `${(user + system) / 1_000} ms`);
  assert.equal(of("VirtualService shop/web").length, 1_001);
  const match = gateways.map((one) => ({ gateways: [one, "x", "y"] }));
  const many = { hosts: ["a.com"], gateways, http: Array.from({ length: 300 }, () => ({ match })), exportTo: gateways };
  const before = process.cpuUsage();
  service("shop/web", many);
  whole("VirtualService shop/web");
  const more = process.cpuUsage(before);
  assert.ok((more.user + more.system) / 1_000 < 1_500, `${(more.user + more.system) / 1_000} ms`);
});

/** The names that hosts of a Gateway in `infra` and of a VirtualService in `shop` have in common. */
function common(gateway: readonly string[], hosts: readonly string[], namespace = "shop"): string[] {
  const servers = serverHosts(gateway.map((text) => serverHost(text, "infra")));
  return [...new Set([...commonNames(servers, new Set(hosts), namespace)].map(([, name]) => name))].sort();
}

test("the namespace before a slash limits which VirtualServices may use a host", () => {
  const CASES: ReadonlyArray<readonly [server: string, inShop: boolean, inInfra: boolean]> = [
    ["a.com", true, true],
    ["*/a.com", true, true],
    ["*/*", true, true],
    ["./a.com", false, true],
    ["shop/a.com", true, false],
    ["shop/*", true, false],
    ["shop/*.com", true, false],
    ["~/a.com", false, false],
    ["other/a.com", false, false],
    ["shop/", false, false],
  ];
  for (const [server, inShop, inInfra] of CASES) {
    const found = ["shop", "infra"].map((namespace) => common([server], ["a.com"], namespace).length > 0);
    assert.deepEqual(found, [inShop, inInfra], server);
  }
  assert.deepEqual(common(["other/a.com", "shop/a.com"], ["a.com"]), ["a.com"]);
});

/** Copied from istio/istio, pkg/config/host/name.go, SubsetOf. `Intersection` in names.go compares every pair by it. */
function isSubset(n: string, o: string): boolean {
  if (n.startsWith("*")) {
    return o.startsWith("*") && n.length >= o.length && n.slice(1).endsWith(o.slice(1));
  }
  return o.startsWith("*") ? n.endsWith(o.slice(1)) : n === o;
}

test("property: the result is the same as that of comparing every pair", () => {
  const label = fc.constantFrom("a", "b", "A");
  const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."));
  const host = fc.oneof(
    name,
    name.map((text) => `*.${text}`),
    fc.constant("*"),
  );
  const hosts = fc.array(host, { maxLength: 8 });
  const property = fc.property(hosts, hosts, (gateway, service) => {
    const pairs = gateway.flatMap((one) => service.map((other) => [one, other] as const));
    const expected = pairs.flatMap(([one, other]) => {
      if (isSubset(other, one)) return [other];
      return isSubset(one, other) ? [one] : [];
    });
    assert.deepEqual(common(gateway, service), [...new Set(expected)].sort());
  });
  fc.assert(property);
});

test("names that are too long or too deep to be mapped match nothing", () => {
  assert.deepEqual(common(["*.com"], [`${"a.".repeat(200_000)}com`, `${"a.".repeat(40)}com`]), []);
});
