import assert from "node:assert/strict";
import { test } from "node:test";
import type { DnsDecision, ExpectedClaim } from "./dns-decision.ts";
import { type Decide, NameAnswer } from "./name-answer.ts";

// An answer of these tests is one letter: the decision on it.
const DECISIONS: Readonly<Record<string, DnsDecision>> = {
  v: "verified",
  n: "nowhere",
  // Our own address.
  o: "unknown",
  e: { code: "dns-elsewhere", text: "a CDN" },
  // The same decision with other addresses.
  E: { code: "dns-elsewhere", text: "other addresses of the CDN" },
  i: { code: "dns-other-target", text: "", target: "internal" },
  j: { code: "dns-other-target", text: "", target: "third" },
};
const decide: Decide = (_claim, answers) => DECISIONS[answers?.[0] ?? ""] ?? "unknown";
const EDGE: ExpectedClaim = { target: "edge", publicAddresses: [] };
const INTERNAL: ExpectedClaim = { target: "internal", publicAddresses: [] };

const letterOf = (decision: DnsDecision) => Object.entries(DECISIONS).find(([, each]) => each === decision)?.[0] ?? "?";

/** The decision after each sweep, with `.` once it is settled, and `*` if it was reported as news. */
function after(sweeps: number, answers: string): string {
  const answer = new NameAnswer(sweeps);
  answer.decisionOn("a", EDGE, decide);
  const shown = [...answers].map((letter) => {
    const isNews = answer.learn([letter], decide);
    const { decision, isSettled } = answer.decisionOn("a", EDGE, decide);
    return `${letterOf(decision)}${isSettled ? "." : ""}${isNews ? "*" : ""}`;
  });
  return shown.join(" ");
}

for (const [what, sweeps, answers, expected] of [
  ["the first answer counts, and is settled after three sweeps", 3, "eee", "e* e e.*"],
  ["another one changes it after three equal sweeps", 3, "vvveEe", "v* v v.* v. v. e.*"],
  ["the old answer starts the count again", 3, "vvveeveee", "v* v v.* v. v. v. v. v. e.*"],
  ["another target is another answer", 3, "viijjj", "v* v v v v j.*"],
  ["our own address changes nothing", 3, "vvvooooo", "v* v v.* v. v. v. v. v."],
  ["our own address does not end a series", 3, "viioi", "v* v v v i.*"],
  ["a first answer after our own address counts", 3, "ooi", "o o i*"],
  ["a name without a target loses the one that it got after three sweeps", 3, "innn", "i* i i n*"],
  ["a name without a target gets one at once", 3, "nni", "n* n i*"],
  ["with enforce, one sweep is enough", 1, "vev", "v.* e.* v.*"],
] as const) {
  test(what, () => assert.equal(after(sweeps, answers), expected));
}

test("a decision stays when targets get other addresses, but one that says nothing may change at once", () => {
  const answer = new NameAnswer(3);
  const of = (letter: string) => letterOf(answer.decisionOn("a", EDGE, () => DECISIONS[letter] ?? "unknown").decision);
  assert.deepEqual([of("n"), of("i"), of("e")], ["n", "i", "i"]);
});

test("an object with another target, or that released its claim, is decided again", () => {
  const answer = new NameAnswer(1);
  answer.decisionOn("a", EDGE, decide);
  answer.learn(["v"], decide);
  const now: Decide = () => DECISIONS.e ?? "unknown";
  assert.equal(letterOf(answer.decisionOn("a", EDGE, now).decision), "v");
  assert.equal(letterOf(answer.decisionOn("a", INTERNAL, now).decision), "e");
  answer.decisionOn("b", EDGE, decide);
  answer.release("b");
  assert.equal(letterOf(answer.decisionOn("b", EDGE, now).decision), "e");
});

test("the decisions of 16 objects are kept, and the first 16 addresses", () => {
  const answer = new NameAnswer(3);
  for (let object = 0; object < 40; object += 1) answer.decisionOn(`${object}`, EDGE, decide);
  answer.learn(["v", ...Array.from({ length: 63 }, (_, index) => `${index}`)], decide);
  assert.deepEqual([answer.claims.length, answer.answers?.length], [16, 16]);
});
