import assert from "node:assert/strict";
import { test } from "node:test";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import type { Protocol } from "../targets/proxy-protocol-annotations.ts";
import type { Target } from "../targets/target.ts";
import { contradictionOf, decideProtocols, type HeaderFacts } from "./decide-protocols.ts";

type Stated = NonNullable<Target["ports"][number]["stated"]>;
type Port = readonly [port: number, stated: Stated | "never asked", protocol?: Protocol | "auto"];
type Answers = Readonly<Record<number, HeaderAnswer>>;

function target(...ports: readonly Port[]): Target {
  return {
    name: "edge",
    upstream: { service: { namespace: "infra", name: "edge" } },
    upstreamIPs: ["198.51.100.9"],
    classes: [],
    clusterIPs: [],
    ports: ports.map(([port, stated, protocol = "v1"]) => ({
      port,
      protocol,
      ...(stated !== "never asked" && { stated }),
    })),
  };
}

/** The same ports as a configured target, whose Service has this address. */
function configured(...ports: readonly Port[]): Target {
  const { upstreamIPs: serviceIPs = [], ...rest } = target(...ports);
  return { ...rest, serviceIPs };
}

function facts(answers: Answers, more: Partial<HeaderFacts> = {}): HeaderFacts {
  return {
    answerOf: (port) => answers[port],
    publishedAs: () => undefined,
    wanted: new Set(),
    preferred: "v1",
    mapsAlways: false,
    ...more,
  };
}

/** The protocol of each port, or the code of the reason why the names are not mapped. */
function decided(found: Target, given: HeaderFacts): string {
  const { target: result, against } = decideProtocols(found, given);
  const protocols = result.ports.map(({ port, protocol }) => `${port} ${protocol}`).join(", ");
  return against === undefined ? protocols : against.code;
}

const ASKED = target([80, "nobody"], [443, "nobody"]);
const CASES: ReadonlyArray<readonly [what: string, Target, Answers, expected: string, Partial<HeaderFacts>?]> = [
  ["no answer yet", ASKED, {}, "header-unknown"],
  ["both unknown", ASKED, { 80: "unknown", 443: "unknown" }, "header-unknown"],
  ["either version", ASKED, { 80: "demands-either", 443: "demands-either" }, "80 v1, 443 v1"],
  ["either, with TLVs", ASKED, { 80: "demands-either", 443: "optional" }, "80 v2, 443 v2", { preferred: "v2" }],
  ["one version", ASKED, { 80: "demands-v1", 443: "demands-v2" }, "80 v1, 443 v2"],
  ["a port without an answer follows the other", ASKED, { 443: "demands-v2" }, "80 v2, 443 v2"],
  ["no header", ASKED, { 80: "refuses-header", 443: "refuses-header" }, "header-not-expected"],
  ["no header on one port, the other is down", ASKED, { 80: "refuses-header", 443: "unknown" }, "header-not-expected"],
  ["a header on one port only", ASKED, { 80: "refuses-header", 443: "demands-v1" }, "80 none, 443 v1"],
  [
    "no header, map: always",
    ASKED,
    { 80: "refuses-header", 443: "refuses-header" },
    "80 none, 443 none",
    { mapsAlways: true },
  ],
  ["unknown, relayed before", ASKED, { 80: "unknown" }, "header-unknown", { publishedAs: () => "v2" }],
  ["refused, relayed before", ASKED, { 80: "refuses-header" }, "80 none, 443 v1", { publishedAs: () => "v1" }],
  ["a provider's annotation, no answer", target([80, "provider"], [443, "provider", "v2"]), {}, "80 v1, 443 v2"],
  ["a provider's annotation, another answer", target([443, "provider", "none"]), { 443: "demands-v2" }, "443 v2"],
  ["our annotation, another answer", target([443, "annotation", "v1"]), { 443: "refuses-header" }, "443 v1"],
  ["our annotation is invalid", target([443, "invalid"]), { 443: "refuses-header" }, "header-unknown"],
  ["never asked", target([443, "never asked", "none"]), { 443: "demands-v1" }, "443 none"],
  ["further ports follow", target([443, "nobody"], [8443, "nobody"]), { 443: "demands-v2" }, "443 v2, 8443 v2"],
  [
    "a further port as its provider says",
    target([443, "nobody"], [25, "provider", "none"]),
    { 443: "demands-v2" },
    "443 v2, 25 none",
  ],
  [
    "no web port: those that objects want",
    target([25, "nobody"], [9000, "nobody"]),
    { 9000: "optional" },
    "25 v1, 9000 v1",
    { wanted: new Set([9000]) },
  ],
  ["nothing that anybody wants", target([25, "nobody"]), {}, "25 v1"],
  ["configured, no answer yet", configured([443, "nobody", "auto"]), {}, "header-unknown"],
  ["configured, an answer", configured([443, "nobody", "auto"]), { 443: "demands-v2" }, "443 v2"],
  [
    "an explicit protocol beside one without an answer",
    configured([80, "never asked", "v2"], [443, "nobody", "auto"]),
    {},
    "80 v2, 443 v2",
  ],
  [
    "configured without a header on 443, beside automatic ports without an answer",
    configured([443, "never asked", "none"], [80, "nobody", "auto"], [8443, "nobody", "auto"]),
    {},
    "443 none, 80 none, 8443 none",
  ],
  [
    "an explicit protocol beside one that refuses",
    configured([80, "never asked"], [443, "nobody", "auto"]),
    { 443: "refuses-header" },
    "80 v1, 443 none",
  ],
];
for (const [what, found, answers, expected, more] of CASES) {
  test(`${what}: ${expected}`, () => assert.equal(decided(found, facts(answers, more)), expected));
}

test("without a header, names map to the Service itself, unless another Service lends a port", () => {
  const given = facts({ 80: "refuses-header", 443: "refuses-header" }, { mapsAlways: true });
  assert.deepEqual(decideProtocols(ASKED, given).target.clusterIPs, ["198.51.100.9"]);
  const addresses = (protocol: Protocol) =>
    decideProtocols(target([80, "never asked", "none"], [443, "never asked", protocol]), given).target.clusterIPs;
  assert.deepEqual([addresses("none"), addresses("v1")], [["198.51.100.9"], []]);
  const [http, https] = ASKED.ports;
  assert.ok(http && https);
  const lent = { ...ASKED, ports: [http, { ...https, upstreamIPs: ["198.51.100.10"] }] };
  assert.deepEqual(decideProtocols(lent, given).target.clusterIPs, []);
});

test("without an answer, the proxies go on sending the header that they send", () => {
  const { target: relayed } = decideProtocols(
    ASKED,
    facts({}, { publishedAs: (port) => (port === 80 ? "v2" : "none") }),
  );
  assert.deepEqual(
    relayed.ports.map(({ protocol }) => protocol),
    ["v2", "none"],
  );
});

test("configured addresses stay; otherwise a configured target without a header leads to its Service", () => {
  const given = facts({ 443: "refuses-header" }, { mapsAlways: true });
  const auto = configured([443, "nobody", "auto"]);
  assert.deepEqual(decideProtocols(auto, given).target.clusterIPs, ["198.51.100.9"]);
  const set = { ...auto, clusterIPs: ["198.51.100.44"] };
  for (const each of [given, facts({ 443: "demands-v1" })]) {
    assert.deepEqual(decideProtocols(set, each).target.clusterIPs, ["198.51.100.44"]);
  }
});

test("the reason does not reveal the answer, because a Service may lead anywhere", () => {
  const texts = ([{}, { 80: "unknown" }, { 443: "unknown" }] as const).map(
    (answers) => decideProtocols(ASKED, facts(answers)).against?.text,
  );
  assert.equal(new Set(texts).size, 1);
});

/** The text of what contradicts the answer of port 443. `others` are answers of other proxies. */
function contradiction(port: Port, answer: HeaderAnswer, ...others: readonly HeaderAnswer[]): string | undefined {
  const [each] = target(port).ports;
  assert.ok(each);
  const ports = [{ ...each, says: 'switchback.dev/proxy-protocol is "VALUE"' }];
  const seen = new Map([answer, ...others].map((one, index) => [one, [`10.0.0.${7 - index}`]]));
  const reason = contradictionOf({ ...target(port), ports }, 443, answer, seen);
  assert.ok(reason === undefined || reason.code === "header-contradicted");
  return reason?.text;
}

const ANSWERS = ["demands-v1", "demands-v2", "demands-either", "optional", "refuses-header", "unknown"] as const;
for (const [stated, protocol, contradicted] of [
  ["annotation", "v1", ["demands-v2", "refuses-header"]],
  ["annotation", "v2", ["demands-v1", "refuses-header"]],
  ["annotation", "none", ["demands-v1", "demands-v2", "demands-either"]],
  ["provider", "v1", []],
  ["nobody", "v1", []],
  ["never asked", "v1", []],
] as const) {
  test(`a port with ${protocol} by ${stated} is contradicted by: ${contradicted.join(", ")}`, () => {
    const by = ANSWERS.filter((answer) => contradiction([443, stated, protocol], answer) !== undefined);
    assert.deepEqual(by, contradicted);
  });
}
