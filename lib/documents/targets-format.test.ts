import assert from "node:assert/strict";
import { test } from "node:test";
import { OTHER, TARGET } from "#test/fakes/published-targets.ts";
import { fc } from "#test/property.ts";
import { listenersOfPublished, parseTargets, questionsOfPublished, renderTargets } from "./targets-format.ts";

test("rendered targets are parsed back, and equal targets give equal texts", () => {
  const { text, targetsRevision } = renderTargets([TARGET, OTHER]);
  assert.deepEqual(parseTargets(text), { version: 1, revision: targetsRevision, targets: [TARGET, OTHER] });
  assert.equal(renderTargets([TARGET, OTHER]).text, text);
  assert.notEqual(renderTargets([OTHER]).targetsRevision, targetsRevision);
});

test("listeners match the published ports", () => {
  assert.deepEqual(listenersOfPublished({ targets: [OTHER] }), [
    { target: "other", upstream: TARGET.upstream, port: 80, listenPort: 15_003, upstreamPort: 80, protocol: "none" },
  ]);
});

const ASK = { port: 443, speaks: "tls", name: "shop.example.com", upstreamPort: 443, answer: "optional" } as const;

test("the ports to ask are those of relayed and other targets, at their own or a lent address", () => {
  const lent = { ...ASK, port: 80, speaks: "http", upstreamIPs: ["198.51.100.5"] } as const;
  const found = { ...TARGET, namespace: "edge", upstreamIPs: ["198.51.100.4"], ask: [ASK, lent] };
  const undecided = { name: "new", upstream: "lb.example.net", ports: [], clusterIPs: [], ask: [ASK] };
  const gone = { ...OTHER, upstreamIPs: [], ask: [ASK] };
  const proxies = ["10.0.0.1", "10.0.0.2"];
  const parsed = parseTargets(renderTargets([found, undecided, gone], proxies).text);
  assert.ok(!("code" in parsed));
  assert.deepEqual([parsed.targets, parsed.proxies], [[found, undecided, gone], proxies]);
  const at = { target: "edge-lb", namespace: "edge", upstream: TARGET.upstream };
  assert.deepEqual(questionsOfPublished(parsed), [
    { ...ASK, ...at, upstreamIPs: ["198.51.100.4"] },
    { ...lent, ...at },
    { ...ASK, target: "new", namespace: "", upstream: "lb.example.net" },
  ]);
});

test("optional fields may be missing, and unknown fields of a later release are ignored", () => {
  const least = `{"version":1,"revision":"r","targets":[{"name":"edge-lb-0123456789ab","upstream":"lb.edge.svc",
    "ports":[{"port":443,"listenPort":15002,"upstreamPort":443,"protocol":"none"}],"clusterIPs":[]}]}`;
  const parsed = parseTargets(least);
  assert.ok(!("code" in parsed));
  assert.deepEqual(
    listenersOfPublished(parsed).map(({ upstream, upstreamIPs }) => [upstream, upstreamIPs]),
    [["lb.edge.svc", undefined]],
  );
  const later = parseTargets(document({ more: 1 }, { ...TARGET, more: 1 }));
  assert.ok(!("code" in later));
  assert.deepEqual(later.targets, [TARGET]);
});

test("a discovered target is relayed to its Service's ClusterIPs; without any, it has no listener", () => {
  const found = { ...OTHER, upstreamIPs: ["198.51.100.4", "2001:db8::4"] };
  const gone = { ...TARGET, upstreamIPs: [] };
  const { text } = renderTargets([gone, found]);
  const parsed = parseTargets(text);
  assert.ok(!("code" in parsed));
  assert.deepEqual(parsed.targets, [gone, found]);
  assert.deepEqual(
    listenersOfPublished(parsed).map(({ target, upstreamIPs }) => [target, upstreamIPs]),
    [["other", found.upstreamIPs]],
  );
});

const document = (change: object, target: object = TARGET) =>
  JSON.stringify({ version: 1, revision: "r", targets: [target], ...change });
const BAD: ReadonlyArray<readonly [what: string, text: string, said: RegExp]> = [
  ["no JSON", "{", /is not JSON/],
  ["no object", "null", /\(top\)/],
  ["another version", document({ version: 2 }), /version/],
  ["no list of targets", document({ targets: {} }), /targets/],
  ["a name that no target can have", document({}, { ...TARGET, name: "A b" }), /targets\[0\]\.name/],
  ["an upstream with a space", document({}, { ...TARGET, upstream: "a b" }), /targets\[0\]\.upstream/],
  ["a port that is none", document({}, { ...TARGET, ports: [{ ...TARGET.ports[0], listenPort: 0 }] }), /listenPort/],
  ["a server name with a space", document({}, { ...TARGET, ask: [{ ...ASK, name: "a b" }] }), /ask\[0\]\.name/],
  ["an answer that is none", document({}, { ...TARGET, ask: [{ ...ASK, answer: "yes" }] }), /ask\[0\]\.answer/],
  ["an address that is none", document({}, { ...TARGET, clusterIPs: ["x"] }), /clusterIPs/],
  ["an upstream address that is a name", document({}, { ...TARGET, upstreamIPs: ["lb.edge"] }), /upstreamIPs/],
  ["no object among the targets", document({ targets: [TARGET, null] }), /targets\[1\]/],
  ["201 ports", document({}, { ...TARGET, ports: Array(201).fill(TARGET.ports[0]) }), /targets\[0\]\.ports/],
  ["2,001 targets", document({ targets: Array(2_001).fill(TARGET) }), /at most 2000 items/],
  ["one name twice", document({ targets: [TARGET, { ...OTHER, name: TARGET.name }] }), /two targets have one name/],
  ["one listen port twice", document({ targets: [TARGET, { ...TARGET, name: "b" }] }), /two listeners have one port/],
  ["too much of it", " ".repeat(1_000_001), /at most 1000000 characters/],
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
