import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { answered, dialOf, proxyProtocolSupportOf } from "./proxy-protocol-support.ts";
import type { DialResult, ProbeOutcome } from "./result.ts";

type Kind = ProbeOutcome["kind"];

const PORT = { service: "edge/web", servicePort: 80 };
const dial = (header: DialResult["header"], kind: Kind, change: Partial<DialResult> = {}): DialResult => {
  const to = { via: "service", address: "192.0.2.1", port: 80, speaks: "http", name: "n" } as const;
  return { ...PORT, ...to, header, outcome: { kind, detail: kind }, ...change };
};
const supportOf = (...dials: DialResult[]) => proxyProtocolSupportOf({ dials, lookups: [] }, PORT);
const byKinds = (none: Kind, v1: Kind, v2: Kind) => supportOf(dial("none", none), dial("v1", v1), dial("v2", v2));

describe("the outcomes without a header, with v1 and with v2 decide what a backend accepts:", () => {
  for (const [none, v1, v2, kind, versions] of [
    ["answered", "answered", "answered", "accepts", ["v1", "v2"]],
    ["answered", "closed", "answered", "accepts", ["v2"]],
    ["closed", "answered", "answered", "demands", ["v1", "v2"]],
    ["closed", "answered", "misread", "demands", ["v1"]],
    ["silent", "silent", "answered", "demands", ["v2"]],
    ["answered", "misread", "misread", "refuses", []],
    ["answered", "silent", "misread", "refuses", []],
    ["answered", "silent", "silent", "unclear", []],
    ["closed", "silent", "closed", "unclear", []],
    ["closed", "closed", "closed", "unclear", []],
    ["refused", "refused", "misread", "unclear", []],
    ["refused", "closed", "refused", "unclear", []],
    ["silent", "refused", "refused", "unclear", []],
    ["refused", "refused", "refused", "unreachable", []],
    ["timeout", "unreachable", "refused", "unreachable", []],
  ] as const) {
    test(`${none}, ${v1}, ${v2}: ${kind}`, () => {
      const detail = `without a header: ${none}; with v1: ${v1}; with v2: ${v2}`;
      assert.deepEqual(byKinds(none, v1, v2), { kind, versions, detail });
    });
  }

  test("it is unknown without a dial that has no header", () => {
    assert.equal(supportOf(dial("v1", "answered"), dial("v2", "answered")), undefined);
  });
});

test("only dials to the Service's own address and port count", () => {
  const others = [
    dial("v1", "answered", { via: "front" }),
    dial("v1", "answered", { via: "balancer" }),
    dial("v1", "answered", { service: "edge/other" }),
    dial("v1", "answered", { servicePort: 443 }),
  ];
  assert.deepEqual(supportOf(...others, dial("none", "answered"), dial("v1", "closed")), {
    kind: "refuses",
    versions: [],
    detail: "without a header: answered; with v1: closed",
  });
});

test("the dial by another route is the first of that route for the port", () => {
  const dials = [
    dial("none", "closed"),
    dial("none", "answered", { via: "front", servicePort: 443 }),
    dial("none", "answered", { via: "front" }),
    dial("none", "closed", { via: "balancer" }),
  ];
  const result = { dials, lookups: [] };
  assert.equal(dialOf(result, PORT, "front"), dials[2]);
  assert.equal(dialOf(result, PORT, "balancer"), dials[3]);
  assert.equal(dialOf(result, { ...PORT, service: "edge/other" }, "front"), undefined);
  assert.deepEqual(dials.map(answered), [false, true, true, false]);
});
