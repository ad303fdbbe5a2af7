import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { narrowerOf } from "./hostname-intersection.ts";

/** The name that both serve. Route attachment takes it from the narrower side. */
function intersect(listener: string | undefined, route: string | undefined): string | undefined {
  const side = narrowerOf(listener, route);
  return side === "listener" ? listener : side && route;
}

// The examples in the documentation of `HTTPRouteSpec.hostnames` and `Listener.hostname`
// (gateway.networking.k8s.io/v1).
const EXAMPLES: ReadonlyArray<
  readonly [listener: string | undefined, route: string | undefined, common: string | undefined]
> = [
  ["test.example.com", "test.example.com", "test.example.com"],
  ["test.example.com", "*.example.com", "test.example.com"],
  ["test.example.com", undefined, "test.example.com"],
  ["test.example.com", "other.example.com", undefined],
  ["*.example.com", "*.example.com", "*.example.com"],
  ["*.example.com", "test.example.com", "test.example.com"],
  ["*.example.com", "foo.test.example.com", "foo.test.example.com"],
  ["*.example.com", "example.com", undefined],
  ["*.example.com", "test.example.net", undefined],
  ["*.example.com", "*.foo.example.com", "*.foo.example.com"],
  ["*.foo.example.com", "*.example.com", "*.foo.example.com"],
  ["*.example.com", "*.example.net", undefined],
  ["*.example.com", undefined, "*.example.com"],
  ["example.com", "*.example.com", undefined],
  ["*.example.com", "notexample.com", undefined],
  ["*.ample.com", "*.example.com", undefined],
  [undefined, "test.example.com", "test.example.com"],
  [undefined, "*.example.com", "*.example.com"],
  [undefined, undefined, undefined],
];
for (const [listener, route, common] of EXAMPLES) {
  test(`${listener ?? "every name"} and ${route ?? "every name"}: ${common ?? "nothing"}`, () => {
    assert.equal(intersect(listener, route), common);
  });
}

test("property: the intersection covers a name if and only if both cover it", () => {
  const label = fc.constantFrom("a", "b", "foo");
  const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => `${labels.join(".")}.com`);
  const pattern = fc.oneof(
    name,
    name.map((text) => `*.${text}`),
    fc.constant(undefined),
  );
  const serves = (wide: string | undefined, asked: string) =>
    wide === undefined || wide === asked || (wide.startsWith("*.") && asked.endsWith(wide.slice(1)));
  fc.assert(
    fc.property(pattern, pattern, name, (listener, route, asked) => {
      const both = serves(listener, asked) && serves(route, asked);
      const common = intersect(listener, route);
      const none = listener === undefined && route === undefined;
      assert.equal(none || (common !== undefined && serves(common, asked)), both);
    }),
    { numRuns: 5_000 },
  );
});
