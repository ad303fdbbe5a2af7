import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { probedPorts } from "./probed-ports.ts";
import type { DialResult, ProbeOutcome } from "./result.ts";

type Kind = ProbeOutcome["kind"];
const outcome = (kind: Kind): ProbeOutcome => ({ kind, detail: kind });

const PORT = { service: "edge/web", servicePort: 80 };
const dial = (header: DialResult["header"], kind: Kind, change: Partial<DialResult> = {}): DialResult => {
  const to = { via: "service", address: "192.0.2.1", port: 80, speaks: "http", name: "n" } as const;
  return { ...PORT, ...to, header, outcome: outcome(kind), ...change };
};
const SERVICE = { namespace: "edge", name: "web", ports: [{ port: 80 }] };
const seenBy = (...dials: DialResult[]) => probedPorts(SERVICE, { dials, lookups: [] })[0];
const byKinds = (none: Kind, v1: Kind, v2: Kind) => seenBy(dial("none", none), dial("v1", v1), dial("v2", v2));

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
      const unseen = { direct: undefined, directWithHeader: undefined, front: undefined };
      assert.deepEqual(byKinds(none, v1, v2), { port: 80, kind, versions, detail, ...unseen });
    });
  }

  test("it is unknown without a dial that has no header", () => {
    assert.equal(seenBy(dial("v1", "answered"), dial("v2", "answered")), undefined);
  });
});

test("each route counts for itself, and only dials to the port count", () => {
  const others = [
    dial("v1", "answered", { service: "edge/other" }),
    dial("v1", "answered", { servicePort: 443 }),
    dial("none", "misread", { via: "front" }),
    dial("none", "timeout", { via: "balancer" }),
    dial("v1", "answered", { via: "balancer" }),
  ];
  const found = seenBy(...others, dial("none", "answered"), dial("v1", "closed"));
  assert.deepEqual(found, {
    ...{ port: 80, kind: "refuses", versions: [], detail: "without a header: answered; with v1: closed" },
    ...{ direct: outcome("timeout"), directWithHeader: outcome("answered"), front: outcome("misread") },
  });
});
