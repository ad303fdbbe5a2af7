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
  listenerSetObject,
  routeObject,
} from "#test/fakes/gateway-objects.ts";
import { MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import type { Raw } from "../raw-object.ts";
import { viewClass, viewGateway, viewListenerSet, viewRoute } from "./view.ts";

// Which names Gateways, ListenerSets and routes claim, beyond the specification's own examples for routes
// (conformance.test.ts). Rows with a name like `ListenerSetHTTPRouting` are its examples for ListenerSets
// (kubernetes-sigs/gateway-api, conformance/tests/listenerset-*, v1.7).

const ALL = { from: "All" };
const SELECTED = { from: "Selector", selector: { matchLabels: { allowed: "ns" } } };
const ACCEPTED = [{ type: "Accepted", status: "True", reason: "Accepted", message: "" }];
const NOT_ACCEPTED = [{ type: "Accepted", status: "False", reason: "NotAllowedByListeners", message: "no\u001b[2J" }];
const PENDING = { conditions: [{ type: "Accepted", status: "Unknown", reason: "Pending", message: "Waiting" }] };
const IGNORE = { "switchback.dev/ignore": "true" };
/** A namespace that does not exist. */
const LOST = { namespace: "unknown" };
const SET = `ListenerSet ${INFRA}/set`;

/** The status of an object whose listener `name` conflicts with another one. */
function conflicted(accepted: string, name: string): Raw {
  const conditions = [{ type: "Conflicted", status: "True", reason: "HostnameConflict" }];
  return { conditions: [{ type: "Accepted", status: accepted }], listeners: [{ name, conditions }] };
}

/** A Gateway `gw` and a ListenerSet `set` of it, where all namespaces are known. */
function world(options: { readonly requireAccepted?: boolean; readonly listeners?: boolean } = {}) {
  const of = gatewayWorld(options);
  const { labels, put, outcome, claims } = of;
  labels.set(INFRA, {}).set(BACKEND, { allowed: "ns" });
  return {
    ...of,
    gateway: (listeners: readonly ListenerParts[], more: Raw = {}, allowed: object = ALL) =>
      outcome(put(viewGateway(gatewayObject("gw", listeners, more, allowed)))),
    set: (
      listeners: readonly ListenerParts[],
      parts: Parameters<typeof listenerSetObject>[3] = {},
      parent: string | Raw = "gw",
    ) => outcome(put(viewListenerSet(listenerSetObject("set", parent, listeners, parts)))),
    /** The outcome of a route with these parents. */
    route: (
      parents: readonly (string | Raw)[],
      hostnames?: readonly string[],
      parts: Parameters<typeof routeObject>[3] = {},
      kind: string = HTTP,
    ) => outcome(put(viewRoute(routeObject("web", parents, hostnames, parts), kind))),
    reason: (object: string) =>
      claims(object).flatMap(({ hints }) => ("code" in hints ? `${hints.code}: ${hints.text}` : []))[0],
  };
}
type RouteParts = Readonly<Parameters<ReturnType<typeof world>["route"]>>;
const toSet = (sectionName?: string, namespace = INFRA): Raw => ({
  group: "gateway.networking.k8s.io",
  kind: "ListenerSet",
  name: "set",
  namespace,
  ...(sectionName && { sectionName }),
});
const toGateway = (sectionName: string): Raw => ({ name: "gw", namespace: INFRA, sectionName });
const metadata = (annotations: Raw) => ({
  metadata: { namespace: INFRA, name: "gw", creationTimestamp: CREATED, annotations },
});

describe("a route at one Gateway", () => {
  const CASES: readonly (readonly [
    what: string,
    listeners: readonly ListenerParts[],
    route: RouteParts,
    expected: readonly string[],
  ])[] = [
    [
      "has a name of two listeners once",
      [{ hostname: "a.com" }, { hostname: "A.com", port: 443 }],
      [["gw"]],
      ["A.com"],
    ],
    ["keeps the case of a narrower route", [{ hostname: "*.A.COM" }], [["gw"], ["B.a.com"]], ["B.a.com"]],
    ["keeps the case of a narrower listener", [{ hostname: "B.A.com" }], [["gw"], ["*.a.com"]], ["B.A.com"]],
    ["needs one parent that works", [{}], [["missing", "gw"], ["a.com"]], ["a.com"]],
    [
      "has the reason of its first parent",
      [{ hostname: "b.com" }],
      [["gw", "no"], ["a.com"]],
      ["a.com: no-matching-listener"],
    ],
    ["finds its parent in its own namespace", [{}], [[{ name: "gw" }], ["a.com"]], ["a.com"]],
    [
      "finds it nowhere else",
      [ALL],
      [[{ name: "gw" }], ["a.com"], { namespace: BACKEND }],
      ["a.com: gateway-not-found"],
    ],
    [
      "is not for a Service",
      [{}],
      [[{ name: "gw", group: "", kind: "Service" }], ["a.com"]],
      ["a.com: gateway-not-found"],
    ],
    ["must be accepted", [{}], [["gw"], ["a.com"], { accepted: NOT_ACCEPTED }], ["a.com: not-accepted"]],
    [
      "must be accepted without hostnames",
      [{ hostname: "a.com" }],
      [["gw"], undefined, { accepted: [] }],
      ["a.com: not-accepted"],
    ],
    ["may be ignored", [{}], [["gw"], ["a.com"], { annotations: IGNORE }], ["a.com: ignored"]],
    ["is not allowed by an unknown word", [{ from: "Later" }], [["gw"], ["a.com"]], ["a.com: not-allowed"]],
    ["is not allowed from an unknown namespace", [SELECTED], [["gw"], ["a.com"], LOST], ["a.com: not-allowed"]],
  ];
  for (const [what, listeners, route, expected] of CASES) {
    it(what, () => {
      const { gateway, route: outcome } = world();
      gateway(listeners);
      assert.deepEqual(outcome(...route), expected);
    });
  }

  it("claims with the hints of its Gateway, and of its class; separately for each Gateway", () => {
    const { gateway, put, route, claims } = world();
    gateway([{}]);
    put(viewGateway(gatewayObject("other", [{}])));
    const spec = { controllerName: "example.com/c", parametersRef: { namespace: "system" } };
    put(viewClass({ metadata: { name: "example" }, spec }));
    assert.deepEqual(route(["gw", "other"], ["a.com"]), ["a.com", "a.com"]);
    const hints = {
      className: "example",
      isGatewayClass: true,
      controller: "example.com/c",
      addresses: ["192.0.2.1"],
      ports: [80],
      admitted: true,
    };
    assert.deepEqual(claims(`HTTPRoute ${INFRA}/web`)[0], {
      hostname: "a.com",
      from: { kind: "HTTPRoute", namespace: INFRA, name: "web" },
      created: CREATED,
      hints: { ...hints, gateway: { namespace: INFRA, name: "gw", classNamespace: "system" } },
    });
  });

  it("shows why it is refused, sanitized for a terminal", () => {
    const { gateway, route, reason } = world();
    const web = `HTTPRoute ${INFRA}/web`;
    gateway([{}]);
    route(["gw"], ["a.com"], { accepted: NOT_ACCEPTED });
    assert.match(reason(web) ?? "", /^not-accepted: .*NotAllowedByListeners: no\\u001b\[2J/);
    route(["gw"], ["a.com"], { accepted: [] });
    assert.match(reason(web) ?? "", /has written no status/);
    gateway([{}], metadata(IGNORE));
    route(["gw"], ["a.com"]);
    assert.match(reason(web) ?? "", /^ignored: the Gateway gateway-conf/);
    const lax = world({ requireAccepted: false });
    lax.gateway([{}]);
    assert.deepEqual(lax.route(["gw"], ["a.com"], { accepted: NOT_ACCEPTED }), ["a.com"]);
  });

  it("has a limited number of names, each of limited length", () => {
    const { gateway, route, claims } = world();
    gateway([{}]);
    route(
      ["gw"],
      ["x".repeat(1_000_000), ...Array.from({ length: MAX_NAMES_PER_OBJECT + 4 }, (_, index) => `h${index}.com`)],
    );
    const all = claims(`HTTPRoute ${INFRA}/web`);
    assert.deepEqual([all.length, all[0]?.hostname.length], [MAX_NAMES_PER_OBJECT + 1, 254]);
    const text = `the HTTPRoute has more than ${MAX_NAMES_PER_OBJECT} names; 5 are ignored`;
    assert.deepEqual(all.at(-1)?.hints, { code: "too-many-names", text });
  });
});

describe("a Gateway's own claims", () => {
  const TWO: readonly ListenerParts[] = [{ hostname: "a.com" }, { hostname: "A.com", protocol: "HTTPS", port: 443 }];
  const OTHERS: readonly ListenerParts[] = [
    { hostname: "*.b.com", protocol: "TLS" },
    { hostname: "t.com", protocol: "TCP" },
    {},
  ];

  it("are the hostnames of its listeners, once, if the protocol has hostnames and listeners are read", () => {
    assert.deepEqual(world().gateway([...TWO, ...OTHERS]), ["a.com", "*.b.com"]);
    assert.deepEqual(world({ listeners: false }).gateway(TWO), []);
  });

  it("wait until a controller has accepted it, unless that is not required", () => {
    assert.deepEqual(world().gateway(TWO, { status: PENDING }), ["a.com: not-accepted"]);
    assert.deepEqual(world({ requireAccepted: false }).gateway(TWO, { status: PENDING }), ["a.com"]);
  });

  it("of a rejected listener have lower priority than those of another one", () => {
    const status = conflicted("True", "listener-1");
    assert.deepEqual(world().gateway(TWO.slice(0, 1), { status }), ["a.com: not-accepted"]);
    assert.deepEqual(world().gateway(TWO, { status }), ["A.com"]);
    assert.deepEqual(world().gateway(TWO.toReversed(), { status }), ["a.com"]);
  });

  it("are refused with the ignore annotation", () => {
    assert.deepEqual(world().gateway(TWO, metadata(IGNORE)), ["a.com: ignored"]);
  });
});

describe("the ListenerSets that a Gateway accepts", () => {
  for (const [example, allowed, own, other] of [
    ["ListenerSetDefaultNotAllowed", undefined, false, false],
    ["no namespaces", {}, false, false],
    ["ListenerSetAllowedNamespaceNone", { from: "None" }, false, false],
    ["ListenerSetAllowedNamespaceSame", { from: "Same" }, true, false],
    ["ListenerSetAllowedNamespaceSelector", SELECTED, false, true],
    ["ListenerSetHTTPRouting", ALL, true, true],
  ] as const) {
    it(example, () => {
      const { put, set } = world();
      put(viewGateway(gatewayObject("gw", [], {}, allowed)));
      const outcomes = [set([{ hostname: "a.com" }]), set([{ hostname: "a.com" }], { namespace: BACKEND })];
      assert.deepEqual(
        outcomes,
        [own, other].map((is) => [is ? "a.com" : "a.com: not-allowed"]),
      );
    });
  }

  it("are those of its own namespace by default, and have no other kind of parent", () => {
    const { gateway, set, route } = world();
    gateway([]);
    const of = (parent: Raw, namespace = INFRA) => set([{ hostname: "a.com", ...ALL }], { namespace }, parent);
    assert.deepEqual(of({ name: "gw" }), ["a.com"]);
    assert.deepEqual(of({ name: "gw" }, BACKEND), ["a.com: gateway-not-found"]);
    assert.deepEqual(of({ name: "gw", group: "networking.istio.io" }), ["a.com: gateway-not-found"]);
    assert.deepEqual(of({ name: "gw", kind: "ListenerSet" }), ["a.com: gateway-not-found"]);
    assert.deepEqual(route([toSet()], ["a.com"]), ["a.com: gateway-not-found"]);
  });
});

describe("a route at a ListenerSet", () => {
  const one = [{ name: "one", hostname: "one.com", ...ALL }];
  const both = [...one, { name: "two", hostname: "two.com", ...ALL }];
  const CASES: readonly (readonly [
    example: string,
    listeners: readonly ListenerParts[],
    route: RouteParts,
    expected: readonly string[],
    parts?: Parameters<typeof listenerSetObject>[3],
  ])[] = [
    ["ListenerSetHTTPRouting, all", both, [["gw", toSet()]], ["gw.com", "one.com", "two.com"]],
    ["ListenerSetHTTPRouting, a section", both, [[toSet("one")]], ["one.com"]],
    ["ListenerSetDualParentRefIndependence", one, [[toGateway("one"), toSet("one")]], ["one.com"]],
    [
      "ListenerSetGatewayParentSectionNameNotFound",
      one,
      [[toGateway("one")], ["a.com"]],
      ["a.com: no-matching-listener"],
    ],
    [
      "ListenerSetAllowedRoutesNamespaces, another one",
      [{ hostname: "a.com", from: "Same" }],
      [[toSet()], ["a.com"], { namespace: BACKEND }],
      ["a.com: not-allowed"],
    ],
    [
      "ListenerSetAllowedRoutesNamespaces, of another namespace than its Gateway",
      [{ hostname: "a.com", from: "Same" }],
      [[toSet(undefined, BACKEND)], ["a.com"], { namespace: BACKEND }],
      ["a.com"],
      { namespace: BACKEND },
    ],
    [
      "ListenerSetAllowedRoutesSupportedKinds, none",
      [{ protocol: "TLS", hostname: "a.com", kinds: [{ kind: "HTTPRoute" }] }],
      [[toSet()], ["a.com"]],
      ["a.com: no-matching-listener"],
    ],
    [
      "ListenerSetAllowedRoutesSupportedKinds, other",
      [{ protocol: "TLS" }],
      [[toSet()], ["a.com"]],
      ["a.com: not-allowed"],
    ],
    [
      "ListenerSetAllowedRoutesSupportedKinds",
      [{ protocol: "TLS" }],
      [[toSet()], ["a.com"], {}, "TLSRoute"],
      ["a.com"],
    ],
    ["ListenerSetHostnameConflict", both, [[toSet()]], ["two.com"], { status: conflicted("True", "one") }],
    [
      "ListenerSetProtocolConflict",
      one,
      [[toSet("one")], ["one.com"]],
      ["one.com: not-allowed"],
      { status: conflicted("False", "one") },
    ],
    ["of an ignored set", one, [[toSet()]], ["one.com: ignored"], { annotations: IGNORE }],
  ];
  for (const [example, listeners, route, expected, parts] of CASES) {
    it(example, () => {
      const { gateway, set, route: outcome } = world();
      gateway([{ name: "gw", hostname: "gw.com" }]);
      set(listeners, parts);
      assert.deepEqual(outcome(...route), expected);
    });
  }

  it("ListenerSetRouteStatusScopedToParentRef: acceptance by the Gateway does not count for its ListenerSet", () => {
    const { gateway, set, put, outcome } = world();
    gateway([]);
    set([{ hostname: "*.com" }]);
    const parents = [{ parentRef: { name: "set", namespace: INFRA }, conditions: ACCEPTED }];
    const web = viewRoute({ ...routeObject("web", [toSet()], ["a.com"]), status: { parents } });
    assert.deepEqual(outcome(put(web)), ["a.com: not-accepted"]);
  });
});

describe("a ListenerSet", () => {
  it("has its Gateway's hints; if the Gateway has no listeners, the ports are the set's, without 0", () => {
    const { gateway, set, claims } = world();
    const ports = () => claims(SET).map(({ hints }) => "ports" in hints && hints.ports);
    const listeners = [
      { hostname: "a.com", port: 0 },
      { hostname: "b.com", port: 8443 },
    ];
    gateway([{}]);
    set(listeners);
    assert.deepEqual(ports(), [[80], [80]]);
    gateway([]);
    assert.deepEqual(ports(), [[8443], [8443]]);
  });

  it("is not used while it, or its Gateway, is not accepted or is ignored", () => {
    const { gateway, set, outcome, route } = world();
    const listeners = [{ hostname: "a.com" }];
    gateway([]);
    assert.deepEqual(set(listeners, { status: PENDING }), ["a.com: not-accepted"]);
    assert.deepEqual(set(listeners), ["a.com"]);
    gateway([], { status: PENDING });
    assert.deepEqual(outcome(SET), ["a.com: not-accepted"]);
    gateway([], metadata(IGNORE));
    assert.deepEqual([outcome(SET), route([toSet()])], [["a.com: ignored"], ["a.com: ignored"]]);
    const lax = world({ requireAccepted: false });
    lax.gateway([]);
    assert.deepEqual(lax.set(listeners, { status: PENDING }), ["a.com"]);
  });

  it("and its routes follow changes of the Gateway and of labels, and the end of the set", () => {
    const { objects, labels, gateway, set, route, outcome } = world();
    const [own, web] = [`ListenerSet ${BACKEND}/set`, `HTTPRoute ${INFRA}/web`];
    route([toSet(undefined, BACKEND)], ["a.com"]);
    set([{ hostname: "*.com", ...ALL }], { namespace: BACKEND });
    gateway([], {}, SELECTED);
    assert.deepEqual([outcome(own), outcome(web)], [["*.com"], ["a.com"]]);
    labels.set(BACKEND, {});
    assert.deepEqual([outcome(own), outcome(web)], [["*.com: not-allowed"], ["a.com: not-allowed"]]);
    objects.delete(own);
    assert.deepEqual([outcome(own), outcome(web)], [[], ["a.com: gateway-not-found"]]);
  });

  it("may have the name of an XListenerSet; each counts for itself", () => {
    const { put, gateway, set, route, outcome } = world();
    const experimental = put(viewListenerSet(listenerSetObject("set", "gw", [{ hostname: "x.com" }]), "XListenerSet"));
    gateway([]);
    set([{ hostname: "set.com" }]);
    const toExperimental = { ...toSet(), group: "gateway.networking.x-k8s.io", kind: "XListenerSet" };
    assert.deepEqual(outcome(experimental), ["x.com"]);
    assert.deepEqual(route([toExperimental, toSet()], ["x.com", "set.com"]), ["x.com", "set.com"]);
    assert.deepEqual(route([toSet()], ["x.com"]), ["x.com: no-matching-listener"]);
  });
});
