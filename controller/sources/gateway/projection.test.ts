import assert from "node:assert/strict";
import { test } from "node:test";
import type { Raw } from "../raw-object.ts";
import { viewGateway, viewListenerSet, viewRoute } from "./view.ts";

const METADATA = {
  namespace: "infra",
  name: "gw",
  creationTimestamp: "2026-01-01T00:00:00Z",
  annotations: { "switchback.dev/ignore": "true" },
};
const accepted = (status: string, more: object = {}) => [{ type: "Other" }, { type: "Accepted", status, ...more }];

/** A Gateway with these parts of its spec and status. */
const gateway = (spec: Raw, status: Raw = {}) => viewGateway({ metadata: METADATA, spec, status });
const listener = (parts: Raw, status: Raw = {}) =>
  gateway({ listeners: [{ name: "web", protocol: "HTTP", ...parts }] }, status).listeners[0];

test("all fields of a Gateway, and of an empty one", () => {
  const spec = {
    gatewayClassName: "edge",
    listeners: [
      {
        name: "web",
        protocol: "HTTPS",
        port: 443,
        hostname: "*.Example.com",
        allowedRoutes: { namespaces: { from: "Selector", selector: { matchLabels: {} } }, kinds: [] },
      },
      { name: "tcp", protocol: "TCP", port: 1 },
    ],
  };
  const status = { addresses: [{ value: "192.0.2.1" }], conditions: accepted("True", { reason: "r", message: "m" }) };
  const expected = {
    ref: { kind: "Gateway", namespace: "infra", name: "gw" },
    created: "2026-01-01T00:00:00Z",
    ignored: true,
    accepted: true,
    refusal: undefined,
    hints: {
      className: "edge",
      isGatewayClass: true,
      addresses: ["192.0.2.1"],
      ports: [443],
      admitted: true,
      gateway: { namespace: "infra", name: "gw" },
    },
    listeners: [
      {
        name: "web",
        port: 443,
        hostname: "*.Example.com",
        folded: "*.example.com",
        kinds: ["HTTPRoute", "GRPCRoute"],
        from: "Selector",
        selector: { matchLabels: {} },
        refused: false,
      },
    ],
    allowedSets: { from: "None", selector: undefined },
  };
  assert.deepEqual(gateway(spec, status), expected);
  assert.deepEqual(viewGateway({}), {
    ref: { kind: "Gateway", namespace: "default", name: "" },
    created: "",
    ignored: false,
    accepted: false,
    refusal: undefined,
    hints: {
      className: undefined,
      isGatewayClass: true,
      addresses: [],
      admitted: false,
      gateway: { namespace: "default", name: "" },
    },
    listeners: [],
    allowedSets: { from: "None", selector: undefined },
  });
});

test("a Gateway allows no ListenerSets by default; all fields of a ListenerSet, and of an empty one", () => {
  const allowed = (namespaces: unknown) => gateway({ allowedListeners: { namespaces } }, {}).allowedSets;
  assert.deepEqual(
    [{ from: "Same" }, { from: "All", selector: {} }, { from: "Selector", selector: { a: 1 } }, {}, 5].map(allowed),
    [
      { from: "Same", selector: undefined },
      { from: "All", selector: undefined },
      { from: "Selector", selector: { a: 1 } },
      { from: "None", selector: undefined },
      { from: "None", selector: undefined },
    ],
  );
  const spec = {
    parentRef: { name: "gw", namespace: "edge" },
    listeners: [{ name: "web", protocol: "HTTP", port: 80 }],
  };
  const set = viewListenerSet({ metadata: METADATA, spec, status: { conditions: accepted("True") } });
  const { listeners, ...rest } = set;
  assert.deepEqual(rest, {
    ref: { kind: "ListenerSet", namespace: "infra", name: "gw" },
    created: "2026-01-01T00:00:00Z",
    ignored: true,
    accepted: true,
    refusal: undefined,
    gateway: "edge/gw",
  });
  assert.deepEqual(
    listeners.map(({ name, port, from }) => [name, port, from]),
    [["web", 80, "Same"]],
  );
  assert.deepEqual(viewListenerSet({}), {
    ref: { kind: "ListenerSet", namespace: "default", name: "" },
    created: "",
    ignored: false,
    accepted: false,
    refusal: undefined,
    gateway: "default/",
    listeners: [],
  });
});

test("a listener is refused if its controller does not accept it, or reports a conflict", () => {
  const refused = (name: string, ...conditions: Raw[]) =>
    listener(
      {},
      {
        listeners: [
          { name: "other", conditions: [] },
          { name, conditions },
        ],
      },
    )?.refused;
  assert.equal(refused("web", { type: "Accepted", status: "False" }), true);
  assert.equal(refused("web", { type: "Conflicted", status: "True" }), true);
  assert.equal(refused("web", { type: "Accepted", status: "True" }, { type: "Conflicted", status: "False" }), false);
  assert.equal(refused("web", { type: "Accepted", status: "Unknown" }), false);
  assert.equal(refused("web", { type: "Programmed", status: "False" }), false);
  assert.equal(refused("elsewhere", { type: "Accepted", status: "False" }), false);
});

test("addresses of a Gateway are unique IP addresses and host names; a Gateway with one is admitted", () => {
  const hints = (addresses: unknown, conditions: unknown = []) => {
    const found = gateway({}, { addresses, conditions }).hints;
    assert.ok("addresses" in found);
    return found;
  };
  const known = [
    { value: "192.0.2.1" },
    { type: "IPAddress", value: "192.0.2.2" },
    { type: "Hostname", value: "lb.com" },
    { type: "example.com/named", value: "x" },
    { type: "IPAddress", value: 5 },
    { value: "192.0.2.1" },
  ];
  const addresses = ["192.0.2.1", "192.0.2.2", "lb.com"];
  const { gateway: _own, ...rest } = hints(known);
  assert.deepEqual(rest, { className: undefined, isGatewayClass: true, addresses, admitted: true });
  assert.equal(hints([]).admitted, false);
  assert.equal(hints([], accepted("True")).admitted, true);
  assert.equal(hints([], accepted("False")).admitted, false);
});

test("a refusal is the controller's reason and message, unless the condition is True", () => {
  const refusal = (status: string, more: object) => {
    const { accepted: is, refusal: words } = gateway({}, { conditions: accepted(status, more) });
    return [is, words];
  };
  assert.deepEqual(refusal("False", { reason: "Invalid", message: "no such class" }), [
    false,
    "Invalid: no such class",
  ]);
  assert.deepEqual(refusal("False", { message: "no such class" }), [false, "no such class"]);
  assert.deepEqual(refusal("Unknown", { reason: "Pending", message: "" }), [false, "Pending"]);
  assert.deepEqual(refusal("False", {}), [false, undefined]);
  assert.deepEqual(refusal("True", { reason: "Accepted" }), [true, undefined]);
});

const PARENT = { name: "gw", namespace: "infra", sectionName: "web", port: 443 };

function route(spec: Raw, parents: readonly Raw[] = []) {
  return viewRoute("HTTPRoute", { metadata: { ...METADATA, name: "r", annotations: {} }, spec, status: { parents } });
}

test("all fields of a route, and of an empty one", () => {
  const spec = { hostnames: ["a.com", "", 5, "b.com", "a.com"], parentRefs: [PARENT] };
  assert.deepEqual(route(spec, [{ parentRef: PARENT, conditions: accepted("True") }]), {
    kind: "HTTPRoute",
    ref: { kind: "HTTPRoute", namespace: "infra", name: "r" },
    created: "2026-01-01T00:00:00Z",
    ignored: false,
    hostnames: ["a.com", "b.com"],
    parents: [{ kind: "Gateway", key: "infra/gw", sectionName: "web", port: 443, accepted: true, refusal: undefined }],
  });
  assert.deepEqual(viewRoute("TLSRoute", {}), {
    kind: "TLSRoute",
    ref: { kind: "TLSRoute", namespace: "default", name: "" },
    created: "",
    ignored: false,
    hostnames: [],
    parents: [],
  });
});

test("a parent is a Gateway or a ListenerSet by group and kind; its default namespace is the route's", () => {
  const parentRefs = [
    { name: "a" },
    { name: "b", group: "gateway.networking.k8s.io", kind: "Gateway", namespace: "x" },
    { name: "c", kind: "Service" },
    { name: "s", kind: "ListenerSet" },
    { name: "t", kind: "ListenerSet", group: "gateway.networking.x-k8s.io" },
    { name: "d", group: "" },
    {},
  ];
  const parents = route({ parentRefs }).parents;
  assert.deepEqual(
    parents.map(({ kind, key }) => `${kind} ${key}`),
    ["Gateway infra/a", "Gateway x/b", "ListenerSet infra/s", "Gateway infra/"],
  );
});

test("a status belongs to the same parent, listener and port; acceptance by one controller is enough", () => {
  const state = (...statuses: readonly (readonly [parentRef: Raw, status: string, reason?: string])[]) => {
    const parents = statuses.map(([parentRef, status, reason]) => ({
      parentRef,
      conditions: accepted(status, { reason }),
    }));
    const [parent] = route({ parentRefs: [PARENT] }, parents).parents;
    return [parent?.accepted, parent?.refusal];
  };
  const { namespace: _, ...own } = PARENT;
  assert.deepEqual(state([own, "True"]), [true, undefined]);
  assert.deepEqual(state([PARENT, "False", "No"], [PARENT, "True"]), [true, undefined]);
  assert.deepEqual(state([PARENT, "False"], [PARENT, "False", "No"]), [false, "No"]);
  for (const other of [
    { name: "x" },
    { namespace: "x" },
    { sectionName: "x" },
    { port: 80 },
    { kind: "Service" },
    { kind: "ListenerSet" },
  ]) {
    assert.deepEqual(state([{ ...PARENT, ...other }, "True"]), [false, undefined], JSON.stringify(other));
  }
  const whole = route({ parentRefs: [{ name: "gw" }] }, [{ parentRef: PARENT, conditions: accepted("True") }]);
  assert.equal(whole.parents[0]?.accepted, false);
});
