import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { answerOf, takenVersions } from "./ask.ts";
import type { Outcome, Seen } from "./dial.ts";

/** One letter for each outcome. Any other letter is an answer: A and B are answers with different statuses. */
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

describe("the answer for the outcomes without a header, with v1 and with v2:", () => {
  for (const [answer, ...rounds] of [
    ["demands-either", "CAA", "MAA", "SAA", "CAB"],
    ["demands-v1", "CAC", "CAM", "CAS", "SAM", "MAM", "CAR"],
    ["demands-v2", "CCA", "CMA", "CSA", "MMA", "SSA"],
    ["optional", "AAA", "AAM", "AAC", "AMA", "ASA", "AAU", "AAB"],
    ["refuses-header", "AMM", "ACC", "AMC", "ASM", "ACS", "ARM", "ABM", "ACB"],
    // No connection got a valid answer: the backend may be down, be slow, or speak another protocol.
    ["unknown", "CCC", "MMM", "SSS", "CMM", "MCC", "RRR", "TTT", "UUU", "SMC"],
    // The backend answered without a header, but it did not show what it does with one.
    ["unknown", "ASS", "ARR", "ATS", "AUU", "ABB", "ABS"],
    // The connection without a header failed, so it is unknown whether the backend would answer it.
    ["unknown", "RAA", "TAA", "UAM", "RMM"],
  ] as const) {
    for (const round of rounds) it(`${round}: ${answer}`, () => assert.equal(answerOf(seenOf(round)), answer));
  }

  it("a missing connection gives no information", () => {
    const { none, v1, v2 } = seenOf("AMA");
    assert.equal(answerOf({}), "unknown");
    assert.equal(answerOf({ v1, v2 }), "unknown");
    assert.equal(answerOf({ none }), "unknown");
    assert.equal(answerOf({ none, v1 }), "refuses-header");
    assert.equal(answerOf({ none, v2 }), "optional");
  });
});

it("takenVersions lists the header versions that the port accepts", () => {
  assert.deepEqual(takenVersions(seenOf("CAA")), ["v1", "v2"]);
  assert.deepEqual(takenVersions(seenOf("AMA")), ["v2"]);
  assert.deepEqual(takenVersions(seenOf("ACS")), []);
  assert.deepEqual(takenVersions(seenOf("ABA")), ["v2"]);
  assert.deepEqual(takenVersions(seenOf("CAB")), ["v1", "v2"]);
});
