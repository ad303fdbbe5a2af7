import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  BACKEND,
  CREATED,
  gatewayObject,
  gatewayWorld,
  HTTP,
  INFRA,
  type ListenerParts,
  routeObject,
} from "#test/fakes/gateway-objects.ts";
import { ClaimList } from "../claim-list.ts";
import type { Raw } from "../raw-object.ts";
import type { GatewayOptions, Labels } from "./route-attachment.ts";
import { viewGateway, viewRoute } from "./view.ts";

const NOT_ACCEPTED = [{ type: "Accepted", status: "False", reason: "NotAllowedByListeners", message: "no\u001b[2J" }];
const IGNORE = { "switchback.dev/ignore": "true" };

interface Options {
  readonly namespaces?: ReadonlyMap<string, Labels>;
  readonly requireAccepted?: boolean;
}

function around(gateways: readonly Raw[], { namespaces, ...options }: Options = {}) {
  const world = gatewayWorld(options satisfies Partial<GatewayOptions>);
  for (const raw of gateways) world.put(viewGateway(raw));
  for (const [name, labels] of namespaces ?? []) world.labels.set(name, labels);
  return world;
}
const one = (...listeners: ListenerParts[]) => around([gatewayObject("gw", listeners)]);

function outcome(route: Raw, surroundings: ReturnType<typeof around>): unknown {
  return surroundings.outcome(surroundings.put(viewRoute(HTTP, route)));
}

function reasonOf(route: Raw, surroundings: ReturnType<typeof around>): string {
  const [claim] = surroundings.claims(surroundings.put(viewRoute(HTTP, route)));
  assert.ok(claim !== undefined && "code" in claim.hints, JSON.stringify(claim));
  return `${claim.hints.code}: ${claim.hints.text}`;
}

describe("a route's claims", () => {
  it("are computed once, however many names have no Gateway", (t) => {
    const listed = t.mock.getter(ClaimList.prototype, "all");
    const names = Array.from({ length: 3 }, (_, index) => `${index}.com`);
    outcome(routeObject("web", ["gone"], names), one({}));
    assert.equal(listed.mock.callCount(), 1);
  });

  it("include the route, its creation time, and the routing hints of the Gateway", () => {
    const world = one({});
    assert.deepEqual(world.claims(world.put(viewRoute(HTTP, routeObject("web", ["gw"], ["a.com"])))), [
      {
        hostname: "a.com",
        from: { kind: "HTTPRoute", namespace: INFRA, name: "web" },
        created: CREATED,
        hints: {
          className: "example",
          isGatewayClass: true,
          addresses: ["192.0.2.1"],
          ports: [80],
          admitted: true,
          gateway: { namespace: INFRA, name: "gw" },
        },
      },
    ]);
  });

  it("have each name once, even if several listeners of a Gateway have the name", () => {
    const gateway = one({ hostname: "a.com" }, { hostname: "A.com", port: 443, protocol: "HTTPS" }, {});
    assert.deepEqual(outcome(routeObject("web", ["gw"], ["a.com"]), gateway), ["a.com"]);
    assert.deepEqual(outcome(routeObject("web", ["gw"]), gateway), ["A.com"]);
  });

  it("are found regardless of case, and keep the case of the narrower side", () => {
    const gateway = one({ hostname: "*.Example.COM" }, { hostname: "Test.Example.NET", port: 8080 });
    assert.deepEqual(outcome(routeObject("web", ["gw"], ["TEST.example.com"]), gateway), ["TEST.example.com"]);
    assert.deepEqual(outcome(routeObject("web", ["gw"], ["*.EXAMPLE.net"]), gateway), ["Test.Example.NET"]);
  });

  it("are separate for each Gateway with different hints", () => {
    const both = around([gatewayObject("gw", [{}]), gatewayObject("other", [{}])]);
    assert.deepEqual(outcome(routeObject("web", ["gw", "other"], ["a.com"]), both), ["a.com", "a.com"]);
  });

  it("need one parent that works; then the reasons of other parents are omitted", () => {
    const route = routeObject("web", ["missing", "gw"], ["a.com"]);
    assert.deepEqual(outcome(route, one({})), ["a.com"]);
  });

  it("have the reason of the parent where they got furthest, if no parent accepts them", () => {
    const surroundings = one({ hostname: "b.com" });
    for (const parents of [
      ["gw", "missing"],
      ["missing", "gw"],
    ]) {
      assert.deepEqual(outcome(routeObject("web", parents, ["a.com"]), surroundings), ["a.com: no-matching-listener"]);
    }
  });

  it("are not allowed by any selector if their namespace is unknown", () => {
    const gateway = gatewayObject("gw", [
      { from: "Selector", selector: { matchExpressions: [{ key: "x", operator: "DoesNotExist" }] } },
    ]);
    const route = routeObject("web", ["gw"], ["a.com"]);
    assert.deepEqual(outcome(route, around([gateway])), ["a.com: not-allowed"]);
    assert.deepEqual(outcome(route, around([gateway], { namespaces: new Map([[INFRA, {}]]) })), ["a.com"]);
  });
});

describe("a parent", () => {
  it("is in the route's namespace by default", () => {
    const parent = { name: "gw" };
    assert.deepEqual(outcome(routeObject("web", [parent], ["a.com"]), one({})), ["a.com"]);
    const elsewhere = routeObject("web", [parent], ["a.com"], { namespace: BACKEND });
    assert.match(
      reasonOf(elsewhere, one({ from: "All" })),
      /^gateway-not-found: .*gateway-conformance-web-backend\/gw/,
    );
  });

  for (const parent of [
    { name: "gw", group: "", kind: "Service" },
    { name: "gw", kind: "XListenerSet" },
    { name: "gw", group: "example.com" },
  ]) {
    it(`is no Gateway: ${JSON.stringify(parent)}`, () => {
      assert.match(reasonOf(routeObject("web", [parent], ["a.com"]), one({})), /^gateway-not-found: the HTTPRoute/);
    });
  }

  it("with explicit group and kind is the same one", () => {
    const full = { group: "gateway.networking.k8s.io", kind: "Gateway", namespace: INFRA, name: "gw" };
    assert.deepEqual(outcome(routeObject("web", [full], ["a.com"]), one({})), ["a.com"]);
  });

  it("that does not exist is reported", () => {
    assert.match(
      reasonOf(routeObject("web", ["gone"], ["a.com"]), one({})),
      /^gateway-not-found: .*\/gone" does not|gone/,
    );
  });
});

describe("acceptance", () => {
  const refused = routeObject("web", ["gw"], ["a.com"], { accepted: NOT_ACCEPTED });

  it("is required, and the controller's message is sanitized", () => {
    const text = reasonOf(refused, one({}));
    assert.match(text, /^not-accepted: .*NotAllowedByListeners: no\\u001b\[2J/);
    assert.match(reasonOf(routeObject("web", ["gw"], ["a.com"], { accepted: [] }), one({})), /has written no status/);
  });

  it("is not required if implementations do not report it", () => {
    const gateway = around([gatewayObject("gw", [{}])], { requireAccepted: false });
    assert.deepEqual(outcome(refused, gateway), ["a.com"]);
  });

  it("that is missing is also reported for a route without hostnames, with its listeners' names", () => {
    const hostless = routeObject("web", ["gw"], undefined, { accepted: NOT_ACCEPTED });
    assert.deepEqual(outcome(hostless, one({ hostname: "a.com" })), ["a.com: not-accepted"]);
  });
});

describe("the ignore annotation", () => {
  it("on a route excludes its names, and on a Gateway those of its routes", () => {
    const ignored = routeObject("web", ["gw"], ["a.com"], { annotations: IGNORE });
    assert.match(reasonOf(ignored, one({})), /^ignored: the HTTPRoute gateway-conformance-infra\/web carries/);
    const metadata = { namespace: INFRA, name: "gw", annotations: IGNORE };
    const gateway = around([gatewayObject("gw", [{}], { metadata })]);
    assert.match(reasonOf(routeObject("web", ["gw"], ["a.com"]), gateway), /^ignored: the Gateway gateway-conf/);
  });
});

describe("listeners", () => {
  const kinds = (protocol: string, listed?: readonly object[]) =>
    viewGateway(gatewayObject("gw", [{ protocol, ...(listed && { kinds: listed }) }])).listeners[0]?.kinds ?? [];
  const GROUP = "gateway.networking.k8s.io";

  for (const [protocol, listed, expected] of [
    ["HTTP", undefined, ["HTTPRoute", "GRPCRoute"]],
    ["HTTPS", undefined, ["HTTPRoute", "GRPCRoute"]],
    ["TLS", undefined, ["TLSRoute"]],
    ["TCP", undefined, []],
    ["UDP", [{ kind: "HTTPRoute" }], []],
    ["HTTP", [{ kind: "GRPCRoute" }], ["GRPCRoute"]],
    ["HTTP", [{ kind: "TLSRoute" }], []],
    ["HTTP", [{ group: GROUP, kind: "HTTPRoute" }], ["HTTPRoute"]],
    ["HTTP", [{ group: "example.com", kind: "HTTPRoute" }], []],
    ["example.com/quic", undefined, []],
    ["example.com/quic", [{ kind: "HTTPRoute" }], ["HTTPRoute"]],
    ["constructor", undefined, []],
  ] as const) {
    it(`of ${protocol} with the kinds ${JSON.stringify(listed)} allow ${expected.join(", ") || "none"}`, () => {
      assert.deepEqual(kinds(protocol, listed), expected);
    });
  }

  for (const from of [undefined, "Same", "All", "None", "Later"]) {
    it(`with from: ${from} allows another namespace: ${from === "All"}`, () => {
      const route = routeObject("web", ["gw"], ["a.com"], { namespace: BACKEND });
      const listener = from === undefined ? {} : { from };
      assert.deepEqual(outcome(route, one(listener)), [from === "All" ? "a.com" : "a.com: not-allowed"]);
    });
  }
});

describe("a Gateway's own claims", () => {
  const viewsOf = (raw: Raw, requireAccepted: boolean) =>
    around([raw], { requireAccepted }).claims(`Gateway ${INFRA}/gw`);
  const claims = (raw: Raw, requireAccepted = true) =>
    viewsOf(raw, requireAccepted).map(({ hostname, from, hints }) =>
      [from.kind, hostname, "code" in hints ? hints.code : hints.className].join(" "),
    );
  const LISTENERS = [
    { hostname: "a.com" },
    { hostname: "A.com", protocol: "HTTPS", port: 443 },
    { hostname: "*.b.com", protocol: "TLS", port: 444 },
    { hostname: "tcp.com", protocol: "TCP", port: 1 },
    {},
  ];

  it("are the hostnames of its listeners, if the protocol has hostnames", () => {
    assert.deepEqual(claims(gatewayObject("gw", LISTENERS)), ["Gateway a.com example", "Gateway *.b.com example"]);
  });

  it("wait until a controller has accepted it, unless that is not required", () => {
    const conditions = [{ type: "Accepted", status: "Unknown", reason: "Pending", message: "Waiting for controller" }];
    const pending = gatewayObject("gw", [{ hostname: "a.com" }], { status: { conditions } });
    assert.deepEqual(claims(pending), ["Gateway a.com not-accepted"]);
    assert.deepEqual(claims(pending, false), ["Gateway a.com example"]);
    const [claim] = viewsOf(pending, false);
    assert.deepEqual(claim?.hints, {
      className: "example",
      isGatewayClass: true,
      addresses: [],
      ports: [80],
      admitted: false,
      gateway: { namespace: INFRA, name: "gw" },
    });
  });

  it("of a rejected listener have lower priority than those of another one", () => {
    const status = {
      conditions: [{ type: "Accepted", status: "True" }],
      listeners: [{ name: "listener-1", conditions: [{ type: "Conflicted", status: "True" }] }],
    };
    assert.deepEqual(claims(gatewayObject("gw", LISTENERS.slice(0, 1), { status })), ["Gateway a.com not-accepted"]);
    for (const listeners of [LISTENERS.slice(0, 2), LISTENERS.slice(0, 2).reverse()]) {
      const named = listeners.map((parts) => ({ ...parts, name: parts.port === undefined ? "listener-1" : "other" }));
      assert.deepEqual(claims(gatewayObject("gw", named, { status })), ["Gateway A.com example"]);
    }
  });

  it("are refused with the ignore annotation", () => {
    const metadata = { namespace: INFRA, name: "gw", annotations: IGNORE };
    assert.deepEqual(claims(gatewayObject("gw", [{ hostname: "a.com" }], { metadata })), ["Gateway a.com ignored"]);
  });
});
