import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PublishedAsk } from "#lib/documents/targets-format.ts";
import { answerOf } from "#proxy/detection/ask.ts";
import type { Header, Outcome } from "#proxy/detection/dial.ts";
import { askerRig, question } from "#test/fakes/asker-rig.ts";
import { FakeClock } from "#test/fakes/clock.ts";
import { HeaderAnswers } from "./header-answers.ts";

// The proxies of a cluster and the leader that reads their pages, on one clock: what the limits and the rule for a
// change are together. Times are in seconds.

const SECOND = 1_000;
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

interface Setting {
  readonly seed?: number;
  readonly proxies: number;
  /** The backend that a connection of a proxy reaches. */
  readonly backend: (second: number, proxy: number, random: () => number) => Backend;
  readonly seconds: number;
  /** The number of targets, each with one port. Default: 1. */
  readonly targets?: number;
}

/** Runs a cluster. Returns the published answers of the first port with their times, and the times of all rounds. */
async function run({ seed = 1, proxies, backend, seconds, targets = 1 }: Setting) {
  const clock = new FakeClock();
  const random = randomNumbers(seed);
  const answers = new HeaderAnswers();
  const from = clock.now();
  const now = () => (clock.now() - from) / SECOND;
  const rounds: number[] = [];
  const rechecks: number[] = [];
  const rigs = Array.from({ length: proxies }, (_, proxy) => {
    const outcome = (header: Header): Outcome => {
      return { kind: BACKENDS[backend(now(), proxy, random)][header], detail: "" };
    };
    const rig = askerRig({
      clock,
      random,
      ask: async () => {
        rounds.push(now());
        const seen = { none: outcome("none"), v1: outcome("v1"), v2: outcome("v2") };
        return { answer: answerOf(seen), seen };
      },
      dial: async (_question, header) => {
        rechecks.push(now());
        return outcome(header);
      },
    });
    Object.assign(rig, { proxies, place: proxy });
    return rig;
  });
  const names = Array.from({ length: targets }, (_, index) => `t${index}`);
  const publish = () => {
    const questions = names.map((target) => {
      const answer = answers.answerOf(target, 443);
      return question({ target, ...(answer && { answer }) });
    });
    const published = names.map((name, index) => ({
      ...{ name, upstream: "", ports: [], clusterIPs: [] },
      ask: [questions[index] as PublishedAsk],
    }));
    answers.learn(published);
    for (const rig of rigs) rig.setQuestions(questions);
  };
  const changes: { readonly answer: string; readonly second: number }[] = [];
  publish();
  let pollAt = 0;
  while (now() < seconds) {
    await clock.pass(500);
    if (now() < pollAt) continue;
    const pages = new Map(rigs.map(({ asker }, index) => [`proxy ${index}`, asker.answers()]));
    const hasChanged = answers.take(pages, clock.now());
    pollAt = now() + (answers.isWaiting ? 0 : 5);
    if (!hasChanged) continue;
    publish();
    const answer = answers.answerOf("t0", 443) ?? "";
    if (answer !== changes.at(-1)?.answer) changes.push({ answer, second: now() });
  }
  for (const rig of rigs) rig.asker.stop();
  return { changes, rounds, rechecks, answers };
}

const SEEDS = Array.from({ length: 8 }, (_, seed) => seed);

/** The largest number of times within a minute. */
function perMinute(times: readonly number[]): number {
  const near = (from: number) => times.filter((at) => at >= from && at < from + 59.999);
  return Math.max(0, ...times.map((from) => near(from).length));
}

for (const [proxies, withinS] of [
  [1, 70],
  [2, 70],
  // Each of 20 proxies may make one round a minute.
  [20, 90],
] as const) {
  describe(`with ${proxies} proxies`, () => {
    it("a new port has an answer after a second", async () => {
      const { changes } = await run({ proxies, backend: () => "demands", seconds: 5 });
      assert.deepEqual(
        changes.map(({ answer, second }) => [answer, second <= 1.5]),
        [["demands-either", true]],
      );
    });

    for (const [from, to, answer] of [
      ["demands", "refuses", "refuses-header"],
      ["refuses", "demands", "demands-either"],
    ] as const) {
      it(`a change from one that ${from} to one that ${to} a header counts after 30 s to ${withinS} s`, async () => {
        for (const seed of SEEDS) {
          const start = 300 + seed;
          const backend = (second: number): Backend => (second < start ? from : to);
          const { changes } = await run({ seed, proxies, backend, seconds: start + withinS });
          assert.equal(changes.length, 2, `seed ${seed}`);
          assert.equal(changes[1]?.answer, answer);
          assert.ok((changes[1]?.second ?? 0) - start >= 30);
        }
      });
    }

    it("a namespace gets 20 rounds a minute in the cluster, however many targets it has", async () => {
      const { rounds } = await run({ proxies, backend: () => "demands", seconds: 300, targets: 200 });
      assert.ok(perMinute(rounds) <= 20, `${perMinute(rounds)}`);
      assert.ok(rounds.length >= 80, `${rounds.length}`);
    });

    it("a port gets one recheck in 25 s in the cluster", async () => {
      const { rechecks } = await run({ proxies, backend: () => "demands", seconds: 2_500 });
      assert.ok(rechecks.length > 80 && rechecks.length <= 105, `${rechecks.length}`);
    });

    it("a port that changes its answer every second moves its names at most five times in an hour", async () => {
      for (const seed of SEEDS) {
        const backend = (second: number): Backend => (Math.floor(second) % 2 === 0 ? "demands" : "refuses");
        const { changes } = await run({ seed, proxies, backend, seconds: 3_600 });
        assert.ok(changes.length <= 6, changes.map(({ answer, second }) => `${answer} ${second}`).join(", "));
      }
    });
  });
}

describe("proxies that differ", () => {
  for (const proxies of [2, 20]) {
    it(`half of ${proxies} are not trusted: names move at most five times in an hour`, async () => {
      for (const seed of SEEDS) {
        const backend = (_second: number, proxy: number): Backend => (proxy % 2 === 0 ? "demands" : "refuses");
        const { changes, answers, rounds } = await run({ seed, proxies, backend, seconds: 3_600 });
        assert.ok(changes.length <= 6, changes.map(({ answer, second }) => `${answer} ${second}`).join(", "));
        assert.deepEqual([...answers.seenAt("t0", 443).keys()], ["demands-either", "refuses-header"]);
        assert.ok(rounds.length < 600, `${rounds.length}`);
      }
    });
  }
});

describe("backends of one Service that differ, so that each connection may reach another one", () => {
  for (const [from, to, last] of [
    ["demands", "refuses", ["refuses-header"]],
    // With either answer, rechecks send a header. Only the next round, after half an hour, can distinguish them.
    ["refuses", "demands", ["demands-either", "optional"]],
  ] as const) {
    it(`a rollout from one that ${from} to one that ${to} a header: the last answer is right`, async () => {
      const [start, end] = [60, 180];
      for (const seed of SEEDS) {
        const part = (second: number) => Math.floor(Math.min(1, Math.max(0, (second - start) / (end - start))) * 4) / 4;
        const { changes } = await run({
          ...{ seed, proxies: 2, seconds: 500 },
          backend: (second, _proxy, random) => (random() < part(second) ? to : from),
        });
        const text = changes.map(({ answer, second }) => `${answer} ${second}`).join(", ");
        assert.ok(changes.length <= 3, text);
        assert.ok((last as readonly string[]).includes(changes.at(-1)?.answer ?? ""), text);
      }
    });
  }

  it("a rollout that stops half way removes no name within an hour, and its answer does not flap", async () => {
    for (const seed of SEEDS) {
      const { changes } = await run({
        ...{ seed, proxies: 2, seconds: 3_660 },
        backend: (second, _proxy, random) => (second >= 60 && random() < 0.5 ? "refuses" : "demands"),
      });
      const text = changes.map(({ answer, second }) => `${answer} ${second}`).join(", ");
      assert.ok(!text.includes("refuses-header"), text);
      assert.ok(changes.length <= 3, text);
    }
  });
});
