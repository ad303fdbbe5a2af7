import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { askerRig, question } from "#test/fakes/asker-rig.ts";
import { answerOf } from "./ask.ts";
import type { Header, Outcome } from "./outcome.ts";

// The backends behind one Service differ: some demand a header, the others refuse it. Each connection of a round may
// reach another backend, so a round may have any answer. For example, the answer is `optional` if the connection
// without a header reaches a backend that refuses headers, and the connections with a header reach backends that
// demand one.

const SECOND = 1_000;
const SEEDS = 25;
const BACKENDS = {
  demands: { none: "closed", v1: "answered", v2: "answered" },
  refuses: { none: "answered", v1: "misread", v2: "misread" },
} as const satisfies Readonly<Record<string, Readonly<Record<Header, Outcome["kind"]>>>>;
type Backend = keyof typeof BACKENDS;

/** Numerical Recipes' generator: the same numbers in each run. */
function randomNumbers(seed: number): () => number {
  let state = seed * 7919 + 1;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  for (let skipped = 0; skipped < 5; skipped += 1) next();
  return next;
}

interface Mix {
  readonly from: Backend;
  readonly to: Backend;
  /** The share of new backends at a given second. */
  readonly part: (second: number) => number;
  readonly seconds: number;
}

/** The answers that a proxy publishes, in order, each with its time in seconds. */
async function published(seed: number, { from, to, part, seconds }: Mix) {
  const random = randomNumbers(seed);
  let second = 0;
  const outcome = (header: Header): Outcome => {
    return { kind: BACKENDS[random() < part(second) ? to : from][header], detail: "" };
  };
  const rig = askerRig({
    random,
    ask: async () => {
      const seen = { none: outcome("none"), v1: outcome("v1"), v2: outcome("v2") };
      const reachable = Object.values(seen).some(({ kind }) => kind !== "closed");
      return { answer: answerOf(seen), seen, reachable };
    },
    dial: async (_question, _address, header) => outcome(header),
  });
  rig.asker.setQuestions([question()]);
  const changes: { readonly answer: string; readonly second: number }[] = [];
  for (; second < seconds; second += 1) {
    await rig.clock.pass(SECOND);
    if (rig.answer() !== changes.at(-1)?.answer) changes.push({ answer: rig.answer(), second });
  }
  return changes;
}

const all = (mix: Mix) => Promise.all(Array.from({ length: SEEDS }, (_, seed) => published(seed, mix)));

describe("a rollout of four backends over two minutes", () => {
  const START = 60;
  const END = START + 120;
  const part = (second: number) => Math.floor(Math.min(1, Math.max(0, (second - START) / (END - START))) * 4) / 4;

  for (const [from, to, last] of [
    ["demands", "refuses", ["refuses-header"]],
    // With either answer, rechecks send a header. Only the next round, after half an hour, tells the two apart.
    ["refuses", "demands", ["demands-either", "optional"]],
  ] as const) {
    it(`from one that ${from} to one that ${to} a header: no answer returns, and the last one is right`, async () => {
      for (const changes of await all({ from, to, part, seconds: 400 })) {
        const answers = changes.map(({ answer }) => answer);
        assert.equal(new Set(answers).size, answers.length, answers.join());
        assert.ok((last as readonly string[]).includes(answers.at(-1) ?? ""), answers.join());
        assert.ok((changes.at(-1)?.second ?? 0) < END + 150, `${changes.at(-1)?.second} s`);
      }
    });
  }
});

it("a rollout that stops half way removes no name within an hour, and its answer does not flap", async () => {
  const half = (second: number) => (second < 60 ? 0 : 0.5);
  for (const changes of await all({ from: "demands", to: "refuses", part: half, seconds: 3_660 })) {
    const answers = changes.map(({ answer }) => answer);
    assert.ok(!answers.includes("refuses-header"), answers.join());
    assert.ok(answers.length <= 3, answers.join());
  }
});
