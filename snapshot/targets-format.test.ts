import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { listenersOfPublished, type PublishedTarget, parseTargets, renderTargets } from "./targets-format.ts";

const TARGET: PublishedTarget = {
  name: "edge-lb",
  upstream: "lb.edge.svc.cluster.local.",
  ports: [
    { port: 80, listenPort: 15_001, upstreamPort: 8080, protocol: "v1" },
    { port: 443, listenPort: 15_002, upstreamPort: 443, protocol: "v2" },
  ],
  clusterIPs: ["10.96.0.9", "fd00::9"],
};
const OTHER: PublishedTarget = {
  ...TARGET,
  name: "other",
  ports: [{ port: 80, listenPort: 15_003, upstreamPort: 80, protocol: "none" }],
  clusterIPs: [],
  unusedSince: "2026-01-01T00:00:00.000Z",
};

test("what is rendered is read back, and equal targets give equal texts", () => {
  const { text, targetsRevision } = renderTargets([TARGET, OTHER]);
  assert.deepEqual(parseTargets(text), { version: 1, revision: targetsRevision, targets: [TARGET, OTHER] });
  assert.equal(renderTargets([TARGET, OTHER]).text, text);
  assert.notEqual(renderTargets([OTHER]).targetsRevision, targetsRevision);
});

test("listeners are what the ports say", () => {
  assert.deepEqual(listenersOfPublished({ targets: [OTHER] }), [
    { target: "other", upstream: TARGET.upstream, port: 80, listenPort: 15_003, upstreamPort: 80, protocol: "none" },
  ]);
});

const document = (change: object, target: object = TARGET) =>
  JSON.stringify({ version: 1, revision: "r", targets: [target], ...change });
const BAD: ReadonlyArray<readonly [what: string, text: string, said: RegExp]> = [
  ["no JSON", "{", /does not parse/],
  ["no object", "null", /\(top\)/],
  ["another version", document({ version: 2 }), /version/],
  ["a name that no target can have", document({}, { ...TARGET, name: "A b" }), /targets\.0\.name/],
  ["an upstream with a space", document({}, { ...TARGET, upstream: "a b" }), /targets\.0\.upstream/],
  ["no port", document({}, { ...TARGET, ports: [] }), /targets\.0\.ports/],
  ["a port that is none", document({}, { ...TARGET, ports: [{ ...TARGET.ports[0], listenPort: 0 }] }), /listenPort/],
  ["an address that is none", document({}, { ...TARGET, clusterIPs: ["x"] }), /clusterIPs/],
  ["one listen port twice", document({ targets: [TARGET, { ...TARGET, name: "b" }] }), /two listeners have one port/],
  ["one name twice", document({ targets: [TARGET, { ...OTHER, name: TARGET.name }] }), /two targets have one name/],
  ["too much of it", " ".repeat(1_000_001), /bytes/],
];
for (const [what, text, said] of BAD) {
  test(`refused: ${what}`, () => {
    const parsed = parseTargets(text);
    assert.ok("code" in parsed && parsed.code === "targets-malformed");
    assert.match(parsed.text, said);
  });
}

test("property: no text makes the reader throw", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      parseTargets(text);
    }),
    { numRuns: 500 },
  );
});
