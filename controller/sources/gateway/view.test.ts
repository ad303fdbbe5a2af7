import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { gatewayObject, listenerSetObject } from "#test/fakes/gateway-objects.ts";
import { matchesSelector } from "../gateway.ts";
import type { Raw } from "../raw-object.ts";
import { viewGateway, viewListenerSet, viewRoute } from "./view.ts";

// What is kept of the objects of Gateway API.

const GROUP = "gateway.networking.k8s.io";
const METADATA = { namespace: "infra", name: "gw", annotations: { "switchback.dev/ignore": "true" } };
const PARENT = { name: "gw", namespace: "infra", sectionName: "web", port: 443 };
const accepted = (status: string, more: object = {}) => [{ type: "Other" }, { type: "Accepted", status, ...more }];
/** A Gateway with these parts of its spec and status. */
const gateway = (spec: Raw, status: Raw = {}, annotations: Raw = {}) =>
  viewGateway({ metadata: { ...METADATA, annotations }, spec, status });
const route = (spec: Raw, parents: readonly Raw[] = []) => viewRoute({ metadata: METADATA, spec, status: { parents } });

describe("a listener", () => {
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
    it(`of ${protocol} with the kinds ${JSON.stringify(listed)} takes ${expected.join(", ") || "none"}`, () => {
      const [found] = gateway({ listeners: [{ protocol, allowedRoutes: { kinds: listed } }] }).listeners;
      assert.deepEqual(found?.kinds ?? [], expected);
    });
  }

  it("is refused if its controller does not accept it, or reports a conflict", () => {
    const refused = (name: string, ...conditions: Raw[]) => {
      const listeners = [
        { name: "other", conditions: [] },
        { name, conditions },
      ];
      return gateway({ listeners: [{ name: "web", protocol: "HTTP" }] }, { listeners }).listeners[0]?.refused;
    };
    assert.equal(refused("web", { type: "Accepted", status: "False" }), true);
    assert.equal(refused("web", { type: "Conflicted", status: "True" }), true);
    assert.equal(refused("web", { type: "Accepted", status: "True" }, { type: "Conflicted", status: "False" }), false);
    assert.equal(refused("web", { type: "Accepted", status: "Unknown" }), false);
    assert.equal(refused("web", { type: "Programmed", status: "False" }), false);
    assert.equal(refused("elsewhere", { type: "Accepted", status: "False" }), false);
  });
});

test("addresses of a Gateway are unique IP addresses and host names; a Gateway with one is admitted", () => {
  const known = [
    { value: "192.0.2.1" },
    { type: "IPAddress", value: "192.0.2.2" },
    { type: "Hostname", value: "lb.com" },
    { type: "example.com/named", value: "x" },
    { type: "IPAddress", value: 5 },
    { value: "192.0.2.1" },
  ];
  const { addresses, admitted } = gateway({}, { addresses: known }).hints;
  assert.deepEqual([addresses, admitted], [["192.0.2.1", "192.0.2.2", "lb.com"], true]);
  const isAdmitted = (status: string) => gateway({}, { conditions: accepted(status) }).hints.admitted;
  assert.deepEqual(["True", "False"].map(isAdmitted), [true, false]);
});

test("a Gateway may ask Istio for a ClusterIP Service", () => {
  const asks = (type: string) =>
    gateway({}, {}, { "networking.istio.io/service-type": type }).hints.gateway?.asksInside;
  assert.deepEqual(["ClusterIP", "LoadBalancer"].map(asks), [true, undefined]);
});

test("a refusal is the controller's reason and message, unless the condition is True", () => {
  for (const [status, more, expected] of [
    ["False", { reason: "Invalid", message: "no such class" }, [false, "Invalid: no such class"]],
    ["False", { message: "no such class" }, [false, "no such class"]],
    ["Unknown", { reason: "Pending", message: "" }, [false, "Pending"]],
    ["False", {}, [false, undefined]],
    ["True", { reason: "Accepted" }, [true, undefined]],
  ] as const) {
    const { accepted: is, refusal } = gateway({}, { conditions: accepted(status, more) });
    assert.deepEqual([is, refusal], expected);
  }
});

test("a Gateway allows ListenerSets from nowhere by default, and a listener routes from its own namespace", () => {
  const selector = { matchLabels: { a: "1" } };
  const none = { from: "None", selector: undefined };
  for (const [namespaces, expected] of [
    [{ from: "Same" }, { from: "Same", selector: undefined }],
    [
      { from: "All", selector: {} },
      { from: "All", selector: undefined },
    ],
    [
      { from: "Selector", selector: { ...selector, other: 1 } },
      { from: "Selector", selector },
    ],
    [{ from: "Selector", selector: { matchLabels: { a: "x".repeat(20_000) } } }, none],
    [{ from: "Sometimes" }, none],
    [{}, none],
    [5, none],
  ] as const)
    assert.deepEqual(gateway({ allowedListeners: { namespaces } }).allowedSets, expected);
  assert.equal(gateway({ listeners: [{ protocol: "HTTP" }] }).listeners[0]?.from, "Same");
});

test("a route has unique hostnames, and parents that are Gateways or ListenerSets by group and kind", () => {
  const parentRefs = [
    { name: "a" },
    { name: "b", group: GROUP, kind: "Gateway", namespace: "x" },
    { name: "c", kind: "Service" },
    { name: "s", kind: "ListenerSet" },
    { name: "t", kind: "ListenerSet", group: "gateway.networking.x-k8s.io" },
    { name: "u", kind: "XListenerSet", group: "gateway.networking.x-k8s.io" },
    { name: "d", group: "" },
    {},
  ];
  const { hostnames, parents } = route({ hostnames: ["a.com", "", 5, "b.com", "a.com"], parentRefs });
  assert.deepEqual(hostnames, ["a.com", "b.com"]);
  assert.deepEqual(
    parents.map(({ kind, key }) => `${kind} ${key}`),
    ["Gateway infra/a", "Gateway x/b", "ListenerSet infra/s", "XListenerSet infra/u", "Gateway infra/"],
  );
});

test("a status belongs to the same parent, listener and port; acceptance by one controller is enough", () => {
  const { namespace: _, ...own } = PARENT;
  const others = [{ name: "x" }, { namespace: "x" }, { sectionName: "x" }, { port: 80 }, { kind: "ListenerSet" }];
  const CASES: readonly (readonly [
    expected: readonly unknown[],
    ...statuses: (readonly [ref: Raw, status: string, reason?: string])[],
  ])[] = [
    [
      [true, undefined],
      [own, "True"],
    ],
    [
      [true, undefined],
      [PARENT, "False", "No"],
      [PARENT, "True"],
    ],
    [
      [false, "No"],
      [PARENT, "False"],
      [PARENT, "False", "No"],
    ],
    ...others.map(
      (other) =>
        [
          [false, undefined],
          [{ ...PARENT, ...other }, "True"],
        ] as const,
    ),
  ];
  for (const [expected, ...statuses] of CASES) {
    const parents = statuses.map(([parentRef, status, reason]) => ({
      parentRef,
      conditions: accepted(status, { reason }),
    }));
    const [parent] = route({ parentRefs: [PARENT] }, parents).parents;
    assert.deepEqual([parent?.accepted, parent?.refusal], expected, JSON.stringify(statuses));
  }
});

test("a count of routes is not kept, so that a change of it does not evaluate routes again", () => {
  const views = [1, 2].map((attachedRoutes) => {
    const conditions = [
      { type: "Accepted", status: "True", lastTransitionTime: `2026-01-01T00:00:0${attachedRoutes}Z` },
    ];
    const status = { conditions, listeners: [{ name: "listener-1", attachedRoutes, conditions: [] }] };
    return [
      viewGateway(gatewayObject("gw", [{}], { status })),
      viewListenerSet(listenerSetObject("set", "gw", [{ hostname: "a.com" }], { status })),
    ];
  });
  assert.deepEqual(views[0], views[1]);
});

const LABELS = { app: "web", empty: "", tier: "front" };
const expression = (key: string, operator: string, ...values: string[]) => ({ key, operator, values });
for (const [selector, expected] of [
  [undefined, true],
  [{}, true],
  [{ matchLabels: { app: "web" } }, true],
  [{ matchLabels: { app: "web", tier: "back" } }, false],
  [{ matchLabels: { missing: "" } }, false],
  [{ matchLabels: { constructor: "x" } }, false],
  [{ matchExpressions: [expression("app", "In", "api", "web")] }, true],
  [{ matchExpressions: [expression("missing", "In", "web")] }, false],
  [{ matchExpressions: [expression("empty", "In", "")] }, true],
  [{ matchExpressions: [expression("app", "NotIn", "web")] }, false],
  [{ matchExpressions: [expression("missing", "NotIn", "web")] }, true],
  [{ matchExpressions: [expression("empty", "Exists")] }, true],
  [{ matchExpressions: [expression("missing", "Exists")] }, false],
  [{ matchExpressions: [expression("missing", "DoesNotExist")] }, true],
  [{ matchExpressions: [expression("app", "DoesNotExist")] }, false],
  [{ matchExpressions: [expression("app", "Later")] }, false],
  [{ matchLabels: { app: "web" }, matchExpressions: [expression("tier", "Exists"), expression("x", "Exists")] }, false],
] as const) {
  test(`the selector ${JSON.stringify(selector)} ${expected ? "fits" : "does not fit"}`, () => {
    assert.equal(matchesSelector(selector, LABELS), expected);
  });
}

test("a route with 3,000 parents and statuses is viewed in linear time; equal parents are merged", () => {
  const conditions = [{ type: "Accepted", status: "True" }];
  const refs = Array.from({ length: 3_000 }, (_, index) => ({ name: `gateway-${index}` }));
  const { parents } = route(
    { parentRefs: refs },
    refs.map((parentRef) => ({ parentRef, conditions })),
  );
  assert.deepEqual([parents.length, parents.every((parent) => parent.accepted)], [3_000, true]);
  let reads = 0;
  const equal = refs.map(() => ({ name: "gateway" }));
  const counted = equal.map((ref) => ({
    get parentRef() {
      reads += 1;
      return ref;
    },
    conditions,
  }));
  assert.deepEqual(
    route({ parentRefs: equal }, counted).parents.map(({ key, accepted: is }) => [key, is]),
    [["infra/gateway", true]],
  );
  assert.ok(reads <= 2 * equal.length, `each status is read once or twice: ${reads} reads`);
});
