import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { answerOf, takenVersions } from "./ask.ts";
import type { Outcome, Seen } from "./outcome.ts";

/** Outcomes by one letter each. Another letter is another answer: A and B are different statuses. */
const KINDS: Readonly<Record<string, Outcome["kind"]>> = {
  M: "misread",
  C: "closed",
  S: "silent",
  R: "refused",
  T: "timeout",
  U: "unreachable",
};

function seenOf(letters: string): Seen {
  const [none, v1, v2] = [...letters].map((letter) => ({ kind: KINDS[letter] ?? "answered", detail: letter }));
  return { none: none!, v1: v1!, v2: v2! };
}

describe("the answer by the outcomes without a header, with v1 and with v2:", () => {
  for (const [answer, ...rounds] of [
    ["demands-either", "CAA", "MAA", "SAA", "CAB"],
    ["demands-v1", "CAC", "CAM", "CAS", "SAM", "MAM", "CAR"],
    ["demands-v2", "CCA", "CMA", "CSA", "MMA", "SSA"],
    ["optional", "AAA", "AAM", "AAC", "AMA", "ASA", "AAU", "AAB"],
    ["refuses-header", "AMM", "ACC", "AMC", "ASM", "ACS", "ARM", "ABM", "ACB"],
    // Nothing was answered without a header: it may be down, slow, or speak another protocol.
    ["unknown", "CCC", "MMM", "SSS", "CMM", "MCC", "RRR", "TTT", "UUU", "SMC"],
    // The backend answers, but it did not say what it does with a header.
    ["unknown", "ASS", "ARR", "ATS", "AUU", "ABB", "ABS"],
    // There was no connection without a header, so nobody knows whether one would be answered.
    ["unknown", "RAA", "TAA", "UAM", "RMM"],
  ] as const) {
    for (const round of rounds) it(`${round}: ${answer}`, () => assert.equal(answerOf(seenOf(round)), answer));
  }

  it("a connection that is missing says nothing", () => {
    const { none, v1, v2 } = seenOf("AMA");
    assert.equal(answerOf({}), "unknown");
    assert.equal(answerOf({ v1, v2 }), "unknown");
    assert.equal(answerOf({ none }), "unknown");
    assert.equal(answerOf({ none, v1 }), "refuses-header");
    assert.equal(answerOf({ none, v2 }), "optional");
  });
});

it("the versions that the port takes", () => {
  assert.deepEqual(takenVersions(seenOf("CAA")), ["v1", "v2"]);
  assert.deepEqual(takenVersions(seenOf("AMA")), ["v2"]);
  assert.deepEqual(takenVersions(seenOf("ACS")), []);
  assert.deepEqual(takenVersions(seenOf("ABA")), ["v2"]);
  assert.deepEqual(takenVersions(seenOf("CAB")), ["v1", "v2"]);
});
