import assert from "node:assert/strict";
import { test } from "node:test";
import { type Finding, findingsOf } from "#doctor/findings.ts";
import { doctorText } from "./doctor-text.ts";

const reach = findingsOf("reach");
const { unknown, warning, broken } = findingsOf("x");
const GOOD = reach.ok("Service a/b", "pods-reach-it", "it answers");
const linesOf = (findings: readonly Finding[]) => doctorText(findings).split("\n").length - 1;

test("prints one headline, the evidence, each cure once, then what else is wrong", () => {
  const cut = (subject: string) => reach.broken(subject, "pods-cut-off", "it was reset", "rest:\na: 1\n  b: 2", "tea");
  const text = doctorText([
    cut("Service a/b"),
    cut("Service a/c"),
    GOOD,
    warning("a Job", "late", "it is late", "wait"),
  ]);
  assert.equal(
    text,
    `Pods cannot reach 2 Services: the ingress controller demands a PROXY header.
  Service a/b: it was reset
  Service a/c: it was reset
Cures, the best first:
  1. rest:
      a: 1
        b: 2
  2. tea
Also:
  warning: a Job: it is late; wait
`,
  );
});

test("of what only a probe shows, the only cure is the probe", () => {
  const unseen = reach.unknown("Service a/b", "need-unseen", "pods bypass it", "switchback doctor --probe", "tea");
  assert.match(doctorText([unseen]), /\nFind out:\n {2}switchback doctor --probe\n$/);
});

test("what a healthy file lacks is no cure", () => {
  const text = doctorText([GOOD, reach.ok("file", "dump-incomplete", "it has no gateways", "kubectl get gateways")]);
  assert.match(text, /\nFind out:\n {2}kubectl get gateways\n$/);
});

test("a healthy cluster with many load balancers has four lines, and a broken one a limited number", () => {
  const many = Array.from({ length: 20 }, (_, index) => index);
  assert.equal(linesOf(many.map((index) => ({ ...GOOD, subject: `Service a/${index}` }))), 4);
  const faults = many.map((index) => broken(`Pod a/${index}`, "x", "it is gone"));
  assert.equal(linesOf([...faults, ...many.map((index) => unknown(`u${index}`, "y", "it hides"))]), 12);
});

test("escapes control characters and line breaks in text from tenants", () => {
  const text = doctorText([broken("\u001b[2Jpod", "c", "a\nok \u202e x\u2028y")]);
  assert.ok(text.includes(String.raw`\u001b[2Jpod: a\u000aok \u202e x\u2028y`), text);
});
