import assert from "node:assert/strict";
import { test } from "node:test";
import { gatewayObject, gatewayWorld, HTTP, routeObject } from "#test/fakes/gateway-objects.ts";
import { fc } from "#test/property.ts";
import { MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import type { Raw } from "../raw-object.ts";
import { matchesSelector } from "./route-attachment.ts";
import { viewGateway, viewListenerSet, viewRoute } from "./view.ts";

const LABELS = { app: "web", empty: "", tier: "front" };
for (const [selector, expected] of [
  [undefined, true],
  [{}, true],
  [{ matchLabels: { app: "web" } }, true],
  [{ matchLabels: { app: "web", tier: "back" } }, false],
  [{ matchLabels: { missing: "" } }, false],
  [{ matchLabels: { constructor: "x" } }, false],
  [{ matchExpressions: [{ key: "app", operator: "In", values: ["api", "web"] }] }, true],
  [{ matchExpressions: [{ key: "missing", operator: "In", values: ["web"] }] }, false],
  [{ matchExpressions: [{ key: "empty", operator: "In", values: [""] }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "NotIn", values: ["web"] }] }, false],
  [{ matchExpressions: [{ key: "missing", operator: "NotIn", values: ["web"] }] }, true],
  [{ matchExpressions: [{ key: "empty", operator: "Exists" }] }, true],
  [{ matchExpressions: [{ key: "missing", operator: "Exists" }] }, false],
  [{ matchExpressions: [{ key: "missing", operator: "DoesNotExist" }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "DoesNotExist" }] }, false],
  [{ matchExpressions: [{ key: "app", operator: "Later" }] }, false],
  [
    {
      matchLabels: { app: "web" },
      matchExpressions: [
        { key: "tier", operator: "Exists" },
        { key: "x", operator: "Exists" },
      ],
    },
    false,
  ],
] as const) {
  test(`the selector ${JSON.stringify(selector)} ${expected ? "fits" : "does not fit"}`, () => {
    assert.equal(matchesSelector(selector, LABELS), expected);
  });
}

test("a Gateway's count of routes is not kept, so that a change of it does not evaluate routes again", () => {
  const status = (attachedRoutes: number) => ({
    conditions: [{ type: "Accepted", status: "True", lastTransitionTime: `2026-01-01T00:00:0${attachedRoutes}Z` }],
    listeners: [{ name: "listener-1", attachedRoutes, conditions: [] }],
  });
  const before = viewGateway(gatewayObject("gw", [{}], { status: status(1) }));
  assert.deepEqual(viewGateway(gatewayObject("gw", [{}], { status: status(2) })), before);
});

test("the names of one object are limited, and the rest is reported", () => {
  const hostnames = Array.from({ length: MAX_NAMES_PER_OBJECT + 5 }, (_, index) => `h${index}.com`);
  const world = gatewayWorld();
  world.put(viewGateway(gatewayObject("gw", [{}])));
  const claims = world.claims(world.put(viewRoute(HTTP, routeObject("web", ["gw"], hostnames))));
  assert.equal(claims.length, MAX_NAMES_PER_OBJECT + 1);
  const last = claims.at(-1);
  assert.equal(last?.hostname, `h${MAX_NAMES_PER_OBJECT}.com`);
  assert.deepEqual(last.hints, {
    code: "too-many-names",
    text: `the HTTPRoute has more than ${MAX_NAMES_PER_OBJECT} names; 5 are ignored`,
  });
});

test("a name longer than any hostname is truncated to a length that is rejected", () => {
  const world = gatewayWorld();
  world.put(viewGateway(gatewayObject("gw", [{}])));
  const route = routeObject("web", ["gw"], ["x".repeat(1_000_000)]);
  const [claim] = world.claims(world.put(viewRoute(HTTP, route)));
  assert.equal(claim?.hostname.length, 254);
});

test("property: for fields of any type, an object has claims with string hostnames, or none", () => {
  const part = fc.anything({ maxDepth: 2, values: [fc.string(), fc.integer(), fc.constant(null), fc.boolean()] });
  const some = (shape: Record<string, fc.Arbitrary<unknown>>) => fc.oneof(part, fc.record(shape, { requiredKeys: [] }));
  const many = (shape: Record<string, fc.Arbitrary<unknown>>) => fc.oneof(part, fc.array(some(shape)));
  const condition = many({
    type: fc.constantFrom("Accepted", "Conflicted"),
    status: part,
    reason: part,
    message: part,
  });
  const parentRef = some({ name: part, namespace: part, group: part, kind: part, sectionName: part, port: part });
  const parts = {
    metadata: some({ name: part, namespace: part, annotations: part, creationTimestamp: part }),
    spec: some({
      hostnames: part,
      allowedListeners: some({ namespaces: some({ from: part, selector: part }) }),
      parentRef,
      gatewayClassName: part,
      parentRefs: fc.oneof(part, fc.array(parentRef)),
      listeners: many({
        name: part,
        hostname: part,
        port: part,
        protocol: fc.constantFrom("HTTP", "TLS", 1),
        allowedRoutes: some({ kinds: part, namespaces: some({ from: part, selector: part }) }),
      }),
    }),
    status: some({
      addresses: many({ type: part, value: part }),
      conditions: condition,
      parents: many({ parentRef, conditions: condition }),
      listeners: many({ name: part, conditions: condition }),
    }),
  };
  const raw = fc.record(parts, { requiredKeys: [] });
  fc.assert(
    fc.property(raw, raw, (first, second) => {
      const world = gatewayWorld({ requireAccepted: false });
      world.labels.set("default", {});
      const views = [viewGateway(first as Raw), viewListenerSet(second as Raw), viewRoute(HTTP, second as Raw)];
      const claims = views.map((view) => world.put(view)).flatMap((object) => world.claims(object));
      for (const { hostname } of claims) assert.equal(typeof hostname, "string");
    }),
    { numRuns: 1_000 },
  );
});

test("a route with 3,000 parents and statuses is viewed in linear time; equal parents are merged", () => {
  const refs = Array.from({ length: 3_000 }, (_, index) => ({ name: `gateway-${index}` }));
  const conditions = [{ type: "Accepted", status: "True" }];
  const object = (parentRefs: object[]) => ({
    metadata: { namespace: "shop", name: "route" },
    spec: { parentRefs },
    status: { parents: parentRefs.map((parentRef) => ({ parentRef, conditions })) },
  });
  const { parents } = viewRoute(HTTP, object(refs));
  assert.deepEqual([parents.length, parents.every(({ accepted }) => accepted)], [3_000, true]);
  const equal = Array.from({ length: 3_000 }, () => ({ name: "gateway" }));
  let reads = 0;
  const counted = equal.map((ref) => ({
    get parentRef() {
      reads += 1;
      return ref;
    },
    conditions,
  }));
  const twice = { ...object(equal), status: { parents: counted } };
  assert.deepEqual(
    viewRoute(HTTP, twice).parents.map(({ key, accepted }) => [key, accepted]),
    [["shop/gateway", true]],
  );
  assert.ok(reads <= 2 * equal.length, `each status is read once or twice: ${reads} reads`);
});
