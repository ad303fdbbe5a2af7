import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { silentLogger } from "#lib/telemetry/log.ts";
import { replaceTimers } from "#test/fakes/stopped-time.ts";
import { PublisherLoop } from "./loop.ts";
import { NO_ANSWER, NOT_OURS, type Presence, type Publisher, type PublishOutcome } from "./publisher.ts";
import type { PublisherMap } from "./publisher-map.ts";
import type { PublisherState } from "./publisher-state.ts";
import type { StoredPublisherState } from "./publisher-state-store.ts";

const CHECK_MS = 30_000;
const ANSWER_MS = 300_000;

/** A publisher whose place and readers the test simulates, and a clock that jumps to each next step. */
function rig(t: TestContext) {
  let now = 1_000_000;
  let next: { at: number; run: () => void } | undefined;
  const done: string[] = [];
  const there = {
    presence: { kind: "as-written" } as Presence,
    outcome: { names: 1, leftOut: 0 } as PublishOutcome,
    answers: [] as string[],
    stored: undefined as StoredPublisherState | undefined,
    failing: undefined as Error | undefined,
    /** The result of the next write. "lost": the write is done, but its answer does not arrive. */
    fate: (): "taken" | "refused" | "lost" => "taken",
  };
  /** The content of the place. Publishing the same content again is not a write. */
  let content: string | undefined;
  const written = <T>(write: () => T): T => {
    const fate = there.fate();
    if (fate === "refused") throw new Error("500");
    const result = write();
    if (fate === "lost") throw new Error("the connection was reset");
    return result;
  };
  const publisher: Publisher = {
    name: "one",
    place: "here",
    original: async () => "what was there",
    presence: async () => there.presence,
    async publish(map) {
      const isThere = there.presence.kind === "as-written" && content === map.revision;
      return (isThere ? (write: () => PublishOutcome) => write() : written)(() => {
        done.push(`publish ${map.revision}`);
        content = map.revision;
        there.presence = { kind: "as-written" };
        return there.outcome;
      });
    },
    isThere: async () => true,
    async remove() {
      done.push("remove");
    },
    readers: { tagOf: (revision) => `tag-${revision}`, ask: async () => new Set(there.answers) },
  };
  let version = 0;
  const store = {
    async read() {
      if (there.failing !== undefined) throw there.failing;
      return there.stored;
    },
    async write(state: PublisherState, original: string | undefined, before: StoredPublisherState | undefined) {
      assert.equal(before?.resourceVersion, there.stored?.resourceVersion, "a write names what it replaces");
      return written(() => {
        version += 1;
        there.stored = { state: structuredClone(state), original, resourceVersion: String(version) };
        return there.stored;
      });
    },
  };
  replaceTimers(t, {
    now: () => now,
    set: (run, ms) => {
      next = { at: now + ms, run };
      return next;
    },
    clear(timer) {
      if (next === timer) next = undefined;
    },
  });
  const startLoop = () => {
    const loop = new PublisherLoop({
      publisher,
      store,
      settings: { checkMs: CHECK_MS, minIntervalMs: 15_000, answerMs: ANSWER_MS },
      log: silentLogger,
      now: () => now,
    });
    t.after(() => loop.stop());
    return loop;
  };
  /** Runs the next step. @returns how long the loop waited before it, milliseconds. */
  const step = async (): Promise<number> => {
    const due = next;
    assert.ok(due !== undefined, "a step is planned");
    next = undefined;
    const waited = Math.max(0, due.at - now);
    now += waited;
    due.run();
    while (next === undefined) await turn();
    return waited;
  };
  const state = () => {
    const { state: stored } = there.stored ?? {};
    assert.ok(stored !== undefined && !("code" in stored));
    return stored;
  };
  const advance = (ms: number) => {
    now += ms;
  };
  return { startLoop, step, there, done, state, advance, now: () => now };
}

const mapOf = (revision: string): PublisherMap => ({ revision, entries: [["a.test", ["198.51.100.9"]]] });

test("the original is stored before the first write, and readers are asked until they have the map", async (t) => {
  const { startLoop, step, there, done, state, now } = rig(t);
  there.answers = [NOT_OURS];
  startLoop().offer(mapOf("r1"));
  await step();
  assert.deepEqual(done, ["publish r1"]);
  assert.equal(there.stored?.original, "what was there");
  assert.equal(state().revision, "r1");
  const behind = state().behindSince;
  assert.equal(behind, now());
  there.answers = ["tag-r1", NOT_OURS];
  assert.equal(await step(), 2_000);
  assert.equal(state().answered, undefined, "one that asks still lacks it");
  there.answers = ["tag-r1"];
  assert.equal(await step(), 2_000);
  assert.deepEqual(state().answered, { revision: "r1", at: now() });
  assert.equal(state().behindSince, undefined);
  assert.equal(await step(), CHECK_MS);
});

test("what is taken back once is written again; if it is taken back twice within ten minutes, it is not", async (t) => {
  const { startLoop, step, there, done, state } = rig(t);
  there.answers = ["tag-r1"];
  startLoop().offer(mapOf("r1"));
  await step();
  there.presence = { kind: "taken-back", by: "helm" };
  await step();
  assert.deepEqual(done, ["publish r1", "publish r1"]);
  assert.equal(state().stopped, undefined);
  there.presence = { kind: "taken-back", by: "helm" };
  await step();
  assert.equal(done.length, 2, "nothing more is written");
  assert.equal(state().stopped, 1);
  assert.match(state().problem?.text ?? "", /^helm took back what was written to the here, twice within ten minutes/);
  assert.equal(await step(), CHECK_MS);
  const again = startLoop();
  again.offer(mapOf("r2"));
  await step();
  assert.equal(done.length, 2, "nor by the next process");
});

test("what is taken back at intervals of more than ten minutes is written again each time", async (t) => {
  const { startLoop, step, there, done, state, advance } = rig(t);
  there.answers = ["tag-r1"];
  startLoop().offer(mapOf("r1"));
  await step();
  for (let time = 0; time < 3; time += 1) {
    there.presence = { kind: "taken-back" };
    advance(600_001);
    await step();
  }
  assert.equal(done.length, 4);
  assert.equal(state().takenBack.length, 3);
  assert.equal(state().stopped, undefined);
});

for (const silence of [NOT_OURS, NO_ANSWER]) {
  test(`if readers never get it (${silence}), it is taken out after the timeout, and not written again`, async (t) => {
    const { startLoop, step, there, done, state, now } = rig(t);
    there.answers = [silence];
    const loop = startLoop();
    const began = now();
    loop.offer(mapOf("r1"));
    while (!done.includes("remove")) await step();
    assert.ok(now() - began > ANSWER_MS && now() - began < ANSWER_MS + 5_000, `${now() - began} ms`);
    assert.equal(state().problem?.code, "publisher-not-answered");
    assert.equal(state().stopped, 1);
    assert.equal(state().revision, undefined);
    loop.offer(mapOf("r2"));
    const writes = done.length;
    await step();
    assert.equal(done.length, writes);
  });
}

test("if readers had a map and do not get the next, it is taken out, and tried again in an hour", async (t) => {
  const { startLoop, step, there, done, state, advance } = rig(t);
  there.answers = ["tag-r1"];
  const loop = startLoop();
  loop.offer(mapOf("r1"));
  await step();
  advance(20_000);
  loop.offer(mapOf("r2"));
  while (!done.includes("remove")) await step();
  assert.equal(state().stopped, undefined);
  const writes = done.length;
  await step();
  assert.equal(done.length, writes, "not yet");
  advance(3_600_000);
  await step();
  assert.equal(done.at(-1), "publish r2");
});

test("a map that readers have had is not taken out if they get no answer at all later", async (t) => {
  const { startLoop, step, there, done, advance } = rig(t);
  there.answers = ["tag-r1"];
  startLoop().offer(mapOf("r1"));
  await step();
  there.answers = [NO_ANSWER];
  for (let times = 0; times < 5; times += 1) {
    advance(ANSWER_MS);
    await step();
  }
  assert.ok(!done.includes("remove"));
});

test("while the map keeps changing, readers that are some changes behind are only late", async (t) => {
  const { startLoop, step, there, done, advance } = rig(t);
  const loop = startLoop();
  for (let number = 1; number < 60; number += 1) {
    there.answers = [`tag-r${Math.max(1, number - 4)}`];
    loop.offer(mapOf(`r${number}`));
    await step();
    advance(15_000);
  }
  assert.ok(!done.includes("remove"));
  assert.equal(done.at(-1), "publish r59");
});

test("two publications are at least the minimum interval apart", async (t) => {
  const { startLoop, step, there, done } = rig(t);
  there.answers = ["tag-r1"];
  const loop = startLoop();
  loop.offer(mapOf("r1"));
  await step();
  loop.offer(mapOf("r2"));
  await step();
  assert.deepEqual(done, ["publish r1"]);
  assert.equal(await step(), 15_000);
  assert.deepEqual(done, ["publish r1", "publish r2"]);
});

test("a check that has nothing new to write does not delay the next map", async (t) => {
  const { startLoop, step, there, done } = rig(t);
  there.answers = ["tag-r1"];
  const loop = startLoop();
  loop.offer(mapOf("r1"));
  await step();
  assert.ok((await step()) >= 15_000);
  loop.offer(mapOf("r2"));
  await step();
  assert.deepEqual(done, ["publish r1", "publish r1", "publish r2"]);
});

test("nothing is written with a removal mark, or without the document; an expired mark is ignored", async (t) => {
  const { startLoop, step, there, done, state, advance, now } = rig(t);
  there.answers = ["tag-r1"];
  startLoop().offer(mapOf("r1"));
  await step();
  const { resourceVersion = "", original } = there.stored ?? {};
  there.stored = { state: { ...state(), revision: undefined, leaving: now() }, original, resourceVersion };
  await step();
  assert.deepEqual(done, ["publish r1"]);
  advance(3_600_000);
  await step();
  assert.deepEqual(done, ["publish r1", "publish r1"]);
  assert.equal(state().leaving, undefined);
  there.stored = undefined;
  await step();
  assert.equal(done.length, 2, "somebody removed the publisher");
});

test("a refused map leaves the last publication as it is, and the document says why", async (t) => {
  const { startLoop, step, there, state, advance } = rig(t);
  there.answers = ["tag-r1"];
  const loop = startLoop();
  loop.offer(mapOf("r1"));
  await step();
  there.outcome = { names: 0, leftOut: 0, refused: true, problem: { code: "why", text: "because" } };
  advance(15_000);
  loop.offer(mapOf("r2"));
  await step();
  assert.deepEqual([state().revision, state().names, state().problem], ["r1", 1, { code: "why", text: "because" }]);
  there.outcome = { names: 1, leftOut: 0 };
  await step();
  assert.deepEqual([state().revision, state().problem], ["r2", undefined]);
});

test("settings for another place write nothing while the old place has a publication", async (t) => {
  const { startLoop, step, there, done, state } = rig(t);
  there.answers = ["tag-r1"];
  startLoop().offer(mapOf("r1"));
  await step();
  const { resourceVersion = "", original } = there.stored ?? {};
  there.stored = { state: { ...state(), place: "elsewhere" }, original, resourceVersion };
  await step();
  assert.equal(state().problem?.code, "publisher-moved");
  assert.equal(done.length, 1);
});

test("a failed step is retried sooner than the next check", async (t) => {
  const { startLoop, step, there, done } = rig(t);
  const loop = startLoop();
  there.failing = new Error("no API server");
  loop.offer(mapOf("r1"));
  await step();
  assert.equal(loop.failure?.code, "publisher-failed");
  there.failing = undefined;
  assert.ok((await step()) <= 2_000);
  assert.deepEqual([done, loop.failure], [["publish r1"], undefined]);
});

for (const fate of ["refused", "lost"] as const) {
  test(`with half of the writes ${fate}, the newest map is published, the original kept, nobody blamed`, async (t) => {
    const { startLoop, step, there, done, state, advance } = rig(t);
    let writes = 0;
    there.fate = () => (writes++ % 2 === 0 ? fate : "taken");
    const loop = startLoop();
    for (const revision of ["r1", "r2", "r3"]) {
      loop.offer(mapOf(revision));
      advance(15_000);
      there.answers = [`tag-${revision}`];
      for (let steps = 0; steps < 20; steps += 1) await step();
      assert.equal(done.at(-1), `publish ${revision}`);
    }
    const { revision, names, answered, behindSince, takenBack, stopped, problem } = state();
    assert.deepEqual([revision, names, answered?.revision, behindSince], ["r3", 1, "r3", undefined]);
    assert.deepEqual([takenBack, stopped, problem, loop.failure], [[], undefined, undefined, undefined]);
    assert.equal(there.stored?.original, "what was there");
    assert.ok(!done.includes("remove"));
  });
}

test("names that were left out before the publisher got the map are counted, and the document says why", async (t) => {
  const { startLoop, step, there, state } = rig(t);
  there.answers = ["tag-r1"];
  const reason = { code: "search-domain", text: "2 names are left out" };
  startLoop().offer({ ...mapOf("r1"), leftOut: { count: 2, reason } });
  await step();
  assert.deepEqual([state().names, state().leftOut, state().problem], [1, 2, reason]);
  there.outcome = { names: 1, leftOut: 3, problem: { code: "publisher-no-room", text: "full" } };
  await step();
  assert.deepEqual([state().leftOut, state().problem?.code], [5, "publisher-no-room"]);
});
