import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  BACKEND,
  gatewayObject,
  gatewayWorld,
  HTTP,
  INFRA,
  type ListenerParts,
  listenerSetObject,
  routeObject,
} from "#test/fakes/gateway-objects.ts";
import type { Raw } from "../raw-object.ts";
import { type RouteKind, viewGateway, viewListenerSet, viewRoute } from "./view.ts";

// The examples of the specification's conformance suite (kubernetes-sigs/gateway-api,
// conformance/tests/listenerset-*, v1.7), and further rules of GEP-1713. An implementation reports rejections in the
// status.

const ALL = { from: "All" };
const SELECTED = { from: "Selector", selector: { matchLabels: { allowed: "ns" } } };
const ACCEPTED = [{ type: "Accepted", status: "True", reason: "Accepted", message: "" }];
const IGNORE = { "switchback.dev/ignore": "true" };
const NO_STATUS = { conditions: [{ type: "Accepted", status: "Unknown", reason: "Pending", message: "Waiting" }] };

const setRef = (name: string, sectionName?: string, namespace = INFRA): Raw => ({
  group: "gateway.networking.k8s.io",
  kind: "ListenerSet",
  name,
  namespace,
  ...(sectionName && { sectionName }),
});
const gatewayRef = (name: string, sectionName: string): Raw => ({ name, namespace: INFRA, sectionName });

/** The status of a ListenerSet whose listeners `names` conflict with others of the Gateway. */
function conflicted(accepted: string, ...names: string[]): Raw {
  const conditions = [
    { type: "Accepted", status: "False", reason: "PortUnavailable" },
    { type: "Conflicted", status: "True", reason: "HostnameConflict" },
  ];
  return {
    conditions: [{ type: "Accepted", status: accepted, reason: "ListenersNotValid", message: "" }],
    listeners: names.map((name) => ({ name, conditions })),
  };
}

function world(options: { readonly requireAccepted?: boolean; readonly listeners?: boolean } = {}) {
  const { objects, labels, put, outcome, claims } = gatewayWorld(options);
  return {
    objects,
    labels,
    put,
    outcome,
    claims,
    gateway: (
      name: string,
      allowed?: object,
      listeners: ListenerParts[] = [{ name: "own", hostname: "own.com", ...ALL }],
    ) => put(viewGateway(gatewayObject(name, listeners, {}, allowed))),
    set: (raw: Raw) => outcome(put(viewListenerSet(raw))),
    route: (raw: Raw, kind: RouteKind = HTTP) => outcome(put(viewRoute(kind, raw))),
  };
}

describe("the ListenerSets that a Gateway accepts", () => {
  const own = listenerSetObject("set", "gw", [{ hostname: "set.com" }]);
  const other = listenerSetObject("set", "gw", [{ hostname: "set.com" }], { namespace: BACKEND });
  const cases: readonly (readonly [example: string, allowed: object | undefined, own: boolean, other: boolean])[] = [
    ["ListenerSetDefaultNotAllowed", undefined, false, false],
    ["no namespaces", {}, false, false],
    ["ListenerSetAllowedNamespaceNone", { from: "None" }, false, false],
    ["ListenerSetAllowedNamespaceSame", { from: "Same" }, true, false],
    ["ListenerSetAllowedNamespaceSelector", SELECTED, false, true],
    ["ListenerSetHTTPRouting", ALL, true, true],
    ["an unknown word", { from: "Sometimes" }, false, false],
  ];
  for (const [example, allowed, ...taken] of cases) {
    it(example, () => {
      const { labels, gateway, set } = world();
      labels.set(INFRA, {}).set(BACKEND, { allowed: "ns" });
      gateway("gw", allowed);
      const expected = taken.map((is) => [is ? "set.com" : "set.com: listener-set-not-allowed"]);
      assert.deepEqual([set(own), set(other)], expected);
    });
  }
});

describe("ListenerSetHTTPRouting", () => {
  const { gateway, set, route } = world();
  gateway("gw", ALL, [
    { name: "gateway-listener-1", hostname: "gateway-1.com", ...ALL },
    { name: "gateway-listener-2", hostname: "gateway-2.com", ...ALL },
  ]);
  for (const name of ["set-1", "set-2"]) {
    const listeners = [1, 2].map((index) => ({ name: `listener-${index}`, hostname: `${name}-${index}.com`, ...ALL }));
    set(listenerSetObject(name, "gw", listeners));
  }
  const cases: readonly (readonly [name: string, parents: readonly (string | Raw)[], expected: readonly string[]])[] = [
    [
      "attaches-to-all-listeners",
      ["gw", setRef("set-1"), setRef("set-2")],
      ["gateway-1.com", "gateway-2.com", "set-1-1.com", "set-1-2.com", "set-2-1.com", "set-2-2.com"],
    ],
    ["gateway-route", ["gw"], ["gateway-1.com", "gateway-2.com"]],
    ["gateway-section-route", [gatewayRef("gw", "gateway-listener-1")], ["gateway-1.com"]],
    ["listener-set-http-routing-1-route", [setRef("set-1")], ["set-1-1.com", "set-1-2.com"]],
    ["listener-set-http-routing-1-section-route", [setRef("set-1", "listener-1")], ["set-1-1.com"]],
    ["listener-set-http-routing-2-route", [setRef("set-2")], ["set-2-1.com", "set-2-2.com"]],
  ];
  for (const [name, parents, expected] of cases) {
    it(name, () => assert.deepEqual(route(routeObject(name, parents)), expected));
  }
});

describe("a route and its direct parent", () => {
  it("ListenerSetDualParentRefIndependence", () => {
    const { gateway, set, route } = world();
    gateway("gw", { from: "Same" }, [{ name: "gw-listener", hostname: "gw-dual.com", from: "Same" }]);
    set(listenerSetObject("set", "gw", [{ name: "ls-listener", hostname: "ls-dual.com", from: "Same" }]));
    assert.deepEqual(route(routeObject("both", ["gw", setRef("set")])), ["gw-dual.com", "ls-dual.com"]);
    const one = [gatewayRef("gw", "ls-listener"), setRef("set", "ls-listener")];
    assert.deepEqual(route(routeObject("one", one)), ["ls-dual.com"]);
  });

  it("ListenerSetGatewayParentSectionNameNotFound", () => {
    const { gateway, set, route } = world();
    gateway("gw", { from: "Same" });
    set(listenerSetObject("set", "gw", [{ name: "ls-only", hostname: "ls.com" }]));
    assert.deepEqual(route(routeObject("via-set", [setRef("set", "ls-only")], ["ls.com"])), ["ls.com"]);
    const viaGateway = routeObject("via-gateway", [gatewayRef("gw", "ls-only")], ["ls.com"]);
    assert.deepEqual(route(viaGateway), ["ls.com: no-matching-listener"]);
  });

  it("ListenerSetRouteStatusScopedToParentRef: acceptance by the Gateway does not count for its ListenerSet", () => {
    const { gateway, set, route } = world();
    gateway("gw", { from: "Same" });
    set(listenerSetObject("set", "gw", [{ hostname: "*.com" }]));
    const object = routeObject("web", [setRef("set")], ["a.com"]);
    const parents = [{ parentRef: { name: "set", namespace: INFRA }, conditions: ACCEPTED }];
    assert.deepEqual(route({ ...object, status: { parents } }), ["a.com: not-accepted"]);
  });

  it("ListenerSetAllowedRoutesNamespaces, for a set in its Gateway's namespace and for one elsewhere", () => {
    const { labels, gateway, set, route } = world();
    labels.set("allowed", { allowed: "ns" }).set("other", {}).set(INFRA, {}).set("cross", {});
    gateway("gw", ALL);
    const listeners = [
      { hostname: "all.com", ...ALL },
      { hostname: "same.com", from: "Same" },
      { hostname: "selector.com", ...SELECTED },
    ];
    set(listenerSetObject("set", "gw", listeners));
    const from = (namespace: string) => route(routeObject("web", [setRef("set")], undefined, { namespace }));
    assert.deepEqual(from(INFRA), ["all.com", "same.com"]);
    assert.deepEqual(from("allowed"), ["all.com", "selector.com"]);
    assert.deepEqual(from("other"), ["all.com"]);
    set(listenerSetObject("set", "gw", [{ hostname: "cross.com", from: "Same" }], { namespace: "cross" }));
    const cross = (namespace: string) =>
      route(routeObject("x", [setRef("set", undefined, "cross")], ["cross.com"], { namespace }));
    assert.deepEqual([cross("cross"), cross(INFRA)], [["cross.com"], ["cross.com: not-allowed"]]);
  });

  it("ListenerSetAllowedRoutesSupportedKinds", () => {
    const { gateway, set, route } = world();
    gateway("gw", ALL);
    const listener = { port: 443, protocol: "TLS", hostname: "tls.com", ...ALL };
    set(listenerSetObject("none", "gw", [{ ...listener, kinds: [{ kind: "HTTPRoute" }] }]));
    set(listenerSetObject("tls", "gw", [listener]));
    assert.deepEqual(route(routeObject("web", [setRef("none")], ["tls.com"])), ["tls.com: no-matching-listener"]);
    assert.deepEqual(route(routeObject("web", [setRef("tls")], ["tls.com"])), ["tls.com: not-allowed"]);
    assert.deepEqual(route(routeObject("web", [setRef("tls")], ["tls.com"]), "TLSRoute"), ["tls.com"]);
  });
});

describe("ListenerSetHostnameConflict, ListenerSetProtocolConflict, ListenerSetReferenceGrant", () => {
  it("a rejected listener has no names and takes no routes, but the other listeners of its set do", () => {
    const { gateway, set, route } = world();
    gateway("gw", { from: "Same" });
    const listeners = [
      { name: "good", hostname: "good.com" },
      { name: "bad", hostname: "own.com" },
    ];
    assert.deepEqual(set(listenerSetObject("some", "gw", listeners, { status: conflicted("True", "bad") })), [
      "good.com",
      "own.com: listener-refused",
    ]);
    assert.deepEqual(route(routeObject("web", [setRef("some")])), ["good.com"]);
    assert.deepEqual(route(routeObject("web", [setRef("some", "bad")], ["own.com"])), ["own.com: not-allowed"]);
    const [, bad] = listeners;
    const none = listenerSetObject("none", "gw", bad ? [bad] : [], { status: conflicted("False", "bad") });
    assert.deepEqual(set(none), ["own.com: listener-refused"]);
  });

  it("after the conflict has ended, the names of the listener are used", () => {
    const { gateway, set, route, outcome } = world();
    gateway("gw", { from: "Same" });
    const listeners = [{ name: "bad", hostname: "late.com" }];
    set(listenerSetObject("set", "gw", listeners, { status: conflicted("False", "bad") }));
    assert.deepEqual(route(routeObject("web", [setRef("set")], ["late.com"])), ["late.com: not-allowed"]);
    set(listenerSetObject("set", "gw", listeners));
    assert.deepEqual(outcome(`HTTPRoute ${INFRA}/web`), ["late.com"]);
  });
});

describe("a ListenerSet", () => {
  it("has its Gateway's class, addresses and ports; if the Gateway has no listeners, the ports are the set's", () => {
    const { gateway, set, claims } = world();
    const hints = () => claims(`ListenerSet ${INFRA}/set`)[0]?.hints;
    gateway("gw", ALL);
    set(listenerSetObject("set", "gw", [{ hostname: "set.com", port: 8443 }]));
    const own = { className: "example", isGatewayClass: true, addresses: ["192.0.2.1"], admitted: true };
    const common = { ...own, gateway: { namespace: INFRA, name: "gw" } };
    assert.deepEqual(hints(), { ...common, ports: [80] });
    gateway("gw", ALL, []);
    assert.deepEqual(hints(), { ...common, ports: [8443] });
  });

  it("claims no names if the hostnames of listeners are not read", () => {
    const { gateway, set } = world({ listeners: false });
    gateway("gw", ALL);
    assert.deepEqual(set(listenerSetObject("set", "gw", [{ hostname: "set.com" }])), []);
  });

  it("is not used while it, or its Gateway, is not accepted", () => {
    const waiting = listenerSetObject("set", "gw", [{ hostname: "set.com" }], { status: NO_STATUS });
    const { gateway, set, put, outcome } = world();
    gateway("gw", ALL);
    assert.deepEqual(set(waiting), ["set.com: not-accepted"]);
    set(listenerSetObject("set", "gw", [{ hostname: "set.com" }]));
    const unaccepted = { status: { conditions: [{ type: "Accepted", status: "False", reason: "Invalid" }] } };
    put(viewGateway(gatewayObject("gw", [], unaccepted, ALL)));
    assert.deepEqual(outcome(`ListenerSet ${INFRA}/set`), ["set.com: not-accepted"]);
    const lax = world({ requireAccepted: false });
    lax.gateway("gw", ALL);
    assert.deepEqual(lax.set(waiting), ["set.com"]);
  });

  it("has no names if it or its Gateway is ignored, and neither have its routes", () => {
    const { gateway, set, route, put } = world();
    gateway("gw", ALL);
    const listeners = [{ hostname: "*.com" }];
    const web = routeObject("web", [setRef("set")], ["a.com"]);
    assert.deepEqual(set(listenerSetObject("set", "gw", listeners, { annotations: IGNORE })), ["*.com: ignored"]);
    assert.deepEqual(route(web), ["a.com: ignored"]);
    const raw = gatewayObject("gw", [], {}, ALL);
    const metadata = { ...(raw.metadata as Raw), annotations: IGNORE };
    put(viewGateway({ ...raw, metadata }));
    assert.deepEqual(set(listenerSetObject("set", "gw", listeners)), ["*.com: ignored"]);
    assert.deepEqual(route({ ...web }), ["a.com: ignored"]);
  });

  it("has a Gateway of its own namespace by default, and accepts no other kind of parent", () => {
    const { gateway, set, route } = world();
    gateway("gw", ALL);
    const listeners = [{ hostname: "set.com", ...ALL }];
    const code = (parent: Raw, namespace = INFRA) => set(listenerSetObject("set", parent, listeners, { namespace }));
    assert.deepEqual(code({ name: "gw" }), ["set.com"]);
    assert.deepEqual(code({ name: "gw" }, BACKEND), ["set.com: gateway-not-found"]);
    assert.deepEqual(code({ name: "gw", kind: "ListenerSet" }), ["set.com: no-gateway"]);
    assert.deepEqual(code({ name: "gw", kind: "Gateway", group: "networking.istio.io" }), ["set.com: no-gateway"]);
    assert.deepEqual(route(routeObject("web", [setRef("set")], ["set.com"])), ["set.com: no-gateway"]);
    assert.deepEqual(route(routeObject("lost", [setRef("gone")], ["a.com"])), ["a.com: gateway-not-found"]);
  });
});

describe("changes", () => {
  it("of a Gateway affect its ListenerSets and their routes, and so does the end of a set", () => {
    const { objects, gateway, set, route, outcome } = world();
    const [own, web] = [`ListenerSet ${INFRA}/set`, `HTTPRoute ${INFRA}/web`];
    route(routeObject("web", [setRef("set")], ["a.com"]));
    set(listenerSetObject("set", "gw", [{ hostname: "*.com" }]));
    gateway("gw", { from: "Same" });
    assert.deepEqual([outcome(own), outcome(web)], [["*.com"], ["a.com"]]);
    gateway("gw", { from: "None" });
    assert.deepEqual(outcome(own), ["*.com: listener-set-not-allowed"]);
    assert.deepEqual(outcome(web), ["a.com: listener-set-not-allowed"]);
    objects.delete(own);
    assert.deepEqual([outcome(own), outcome(web)], [[], ["a.com: gateway-not-found"]]);
  });

  it("of route counts in a status change nothing that is kept", () => {
    const status = (attachedRoutes: number) => ({
      status: { conditions: ACCEPTED, listeners: [{ name: "listener-1", attachedRoutes, conditions: [] }] },
    });
    const [one, two] = [1, 2].map((count) =>
      viewListenerSet(listenerSetObject("set", "gw", [{ hostname: "a.com" }], status(count))),
    );
    assert.deepEqual(one, two);
  });

  it("of an XListenerSet count like those of a ListenerSet with its name, and both may exist", () => {
    const { objects, put, gateway, set, route, outcome } = world();
    const group = "gateway.networking.x-k8s.io";
    const raw = listenerSetObject("set", "gw", [{ hostname: "x.com", port: 0 }]);
    const experimental = put(viewListenerSet(raw, "XListenerSet"));
    assert.deepEqual(outcome(experimental), ["x.com: gateway-not-found"]);
    gateway("gw", ALL);
    set(listenerSetObject("set", "gw", [{ hostname: "set.com" }]));
    route(routeObject("web", [{ ...setRef("set"), group, kind: "XListenerSet" }, setRef("set")], ["x.com", "set.com"]));
    route(routeObject("bad", [{ ...setRef("set"), kind: "XListenerSet" }], ["x.com"]));
    assert.deepEqual(outcome(experimental), ["x.com"]);
    assert.deepEqual(outcome(`HTTPRoute ${INFRA}/web`), ["x.com", "set.com"]);
    assert.deepEqual(outcome(`HTTPRoute ${INFRA}/bad`), ["x.com: no-gateway"]);
    objects.delete(experimental);
    assert.deepEqual(outcome(`HTTPRoute ${INFRA}/web`), ["x.com: no-matching-hostname", "set.com"]);
  });

  it("of an XListenerSet without a number add no port: its implementation chooses one", () => {
    const { gateway, put, claims } = world();
    const raw = listenerSetObject("set", "gw", [
      { hostname: "a.com", port: 0 },
      { hostname: "b.com", port: 443 },
    ]);
    gateway("gw", ALL, []);
    const ports = claims(put(viewListenerSet(raw, "XListenerSet"))).map(({ hints }) => "ports" in hints && hints.ports);
    assert.deepEqual(ports, [[443], [443]]);
  });

  it("of a namespace's labels affect its sets and their routes", () => {
    const { labels, gateway, set, route } = world();
    gateway("gw", SELECTED);
    const own = listenerSetObject("set", "gw", [{ hostname: "a.com", ...ALL }], { namespace: "team" });
    const web = routeObject("web", [setRef("set", undefined, "team")], ["a.com"], { namespace: "shop" });
    labels.set("team", { allowed: "ns" });
    assert.deepEqual([set(own), route(web)], [["a.com"], ["a.com"]]);
    labels.set("team", { allowed: "no" });
    const refused = ["a.com: listener-set-not-allowed"];
    assert.deepEqual([set(own), route(web)], [refused, refused]);
  });
});
