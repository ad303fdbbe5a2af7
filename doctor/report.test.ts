import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Finding, findingsOf } from "./findings.ts";
import { reportDocument, verdictOf } from "./report.ts";

const reach = findingsOf("reach");
const { ok, warning, broken, unknown } = findingsOf("install");
const A = "Service edge/a";
const B = "Service edge/b";
const named = (finding: Finding, names: number): Finding => ({ ...finding, names });
const cutOff = (subject: string, ...cures: string[]) => reach.broken(subject, "pods-cut-off", "e", ...cures);
const GOOD = reach.ok(A, "pods-reach-it", "e");
const ABSENT = ok("namespace", "not-installed", "e");

test("the document counts the findings and has their worst status", () => {
  const findings = [GOOD, unknown("u", "u", "e"), warning("w", "w", "e", "c"), ABSENT];
  const counts = { ok: 2, unknown: 1, warning: 1, broken: 0 };
  const headline = "Pods reach the cluster's names, with 1 warning";
  assert.deepEqual(reportDocument(findings), { headline, status: "warning", counts, findings });
});

/** Findings, the headline, and how many findings it is about. */
const HEADLINES: readonly [what: string, findings: Finding[], headline: string, about: number][] = [
  [
    "pods that are cut off come before faults of the installation",
    [broken("d", "deployment-missing", "e"), named(cutOff(A), 3)],
    "Pods cannot reach 3 names: the ingress controller demands a PROXY header",
    1,
  ],
  [
    "the names of several ports of a Service count once, those of several Services add up",
    [
      named(reach.broken(`${A} port 80`, "relay-refused", "e"), 1),
      named(reach.broken(`${A} port 443`, "relay-refused", "e"), 1),
      named(cutOff(B), 1),
    ],
    "Pods cannot reach 2 names: the ingress controller refuses what the proxies send",
    3,
  ],
  [
    "without names, it is about the Service",
    [cutOff(A)],
    `Pods cannot reach ${A}: the ingress controller demands a PROXY header`,
    1,
  ],
  [
    "without names, several Services are counted",
    [cutOff(A), cutOff(B)],
    "Pods cannot reach 2 Services: the ingress controller demands a PROXY header",
    2,
  ],
  [
    "faults of an installation of which a part runs",
    [GOOD, ok("a", "deployment-ready", "e"), broken("a", "x", "e"), broken("b", "y", "e")],
    "Switchback has 2 faults",
    2,
  ],
  [
    "an installation of which no part runs",
    [GOOD, broken("a", "x", "e")],
    "Switchback is installed but does not run",
    1,
  ],
  [
    "what only a probe shows",
    [named(reach.unknown(A, "need-unseen", "e"), 1), unknown("d", "not-read", "e")],
    "It is not known whether pods reach 1 name: they bypass the load balancer",
    1,
  ],
  [
    "nothing could be read",
    [reach.unknown("load balancers", "right-missing", "e")],
    "It is not known whether pods reach the cluster's names",
    1,
  ],
  [
    "a file without kinds that a cluster may lack",
    [GOOD, reach.ok("file", "dump-incomplete", "e", "c"), ABSENT],
    "Pods reach the names that could be examined",
    2,
  ],
  ["a warning", [GOOD, warning("a", "x", "e")], "Pods reach the cluster's names, with 1 warning", 1],
  [
    "all is well, without Switchback",
    [GOOD, ABSENT],
    "Pods reach the ingress controllers: this cluster needs no mapping",
    1,
  ],
  ["all is well, with Switchback", [GOOD], "Switchback works: pods reach the cluster's names", 1],
];

describe("the headline:", () => {
  for (const [what, findings, headline, about] of HEADLINES) {
    test(what, () => {
      const verdict = verdictOf(findings);
      assert.deepEqual([verdict.headline, verdict.about.length], [headline, about]);
    });
  }
});

test("each cure comes once; the last resort of the first finding comes last", () => {
  const findings = [cutOff(A, "wait", "provider a", "install"), cutOff(B, "wait", "provider b", "install")];
  assert.deepEqual(verdictOf(findings).cures, ["wait", "provider a", "provider b", "install"]);
  const faults = [broken("a", "x", "e", "first cure"), broken("b", "x", "e", "second cure")];
  assert.deepEqual(verdictOf(faults).cures, ["first cure", "second cure"]);
  assert.deepEqual(verdictOf([GOOD]).cures, []);
});

test("the other findings that are not ok follow, the worst first", () => {
  const others = [unknown("u", "u", "e"), warning("w", "w", "e"), broken("b", "b", "e")];
  assert.deepEqual(
    verdictOf([cutOff(A), ABSENT, ...others]).others.map(({ subject }) => subject),
    ["b", "w", "u"],
  );
});
