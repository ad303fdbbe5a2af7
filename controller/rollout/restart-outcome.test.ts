import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES } from "#test/fakes/rollout-world.ts";
import { NOW, restart, state } from "#test/fakes/workload-facts.ts";
import { type Restart, stamp } from "./restart-history.ts";
import { hasFailed, isSuperseded, outcomeOf } from "./restart-outcome.ts";

test("the outcome of a restart, at each limit", () => {
  const of = (ms: number, more: object, last: Partial<Restart> = {}) =>
    outcomeOf(restart(NOW - ms, { outcome: undefined, ...last }), { ...state, ...more }, RULES, NOW);
  const carries = (ms: number) => ({ restartedAt: stamp(NOW - ms) });
  assert.equal(of(14_999, {}), "running");
  assert.equal(of(15_000, {}), "void");
  assert.equal(of(1_000, { generation: 2 }), "running");
  assert.equal(of(RULES.revertMs - 1, { generation: 3 }), "reverted");
  assert.equal(of(RULES.revertMs, { generation: 3 }), "done");
  assert.equal(of(1_000, carries(1_000)), "done");
  const rolling = (ms: number) => of(ms, { ...carries(ms), unsettled: "0 of 1" });
  assert.equal(rolling(RULES.rolloutMs - 1), "running");
  assert.equal(rolling(RULES.rolloutMs), "failed");
  assert.equal(of(1_000, { ...carries(1_000), unsettled: "0 of 1", failed: true }), "failed");
  assert.equal(of(1_000, carries(999)), "done", "restarted by hand since");
  assert.equal(of(1_000, { restartedAt: "no time", generation: 3 }), "reverted");
  assert.equal(of(1_000, { uid: "another" }), "done");
  assert.equal(of(1_000, carries(999), { outcome: "failed" }), "failed", "what was remembered stays");
});

test("a restart of an unknown workload runs until its deadline; one of an absent workload is done", () => {
  const of = (ms: number, what: "unknown" | "absent") =>
    outcomeOf(restart(NOW - ms, { outcome: undefined }), what, RULES, NOW);
  assert.equal(of(RULES.rolloutMs - 1, "unknown"), "running");
  assert.equal(of(RULES.rolloutMs, "unknown"), "failed");
  assert.equal(of(1, "absent"), "done");
});

test("a recorded outcome stays, except that a done restart may still be reverted", () => {
  const of = (outcome: Restart["outcome"], what: Parameters<typeof outcomeOf>[1], ms = 1_000) =>
    outcomeOf(restart(NOW - ms, { outcome }), what, RULES, NOW);
  const reverted = { ...state, generation: 3 };
  const moving = { ...state, restartedAt: stamp(NOW - 1_000), unsettled: "0 of 1" };
  for (const outcome of ["failed", "reverted"] as const) {
    const all = [reverted, state, moving, "unknown", "absent"] as const;
    assert.deepEqual(
      all.map((what) => of(outcome, what)),
      all.map(() => outcome),
    );
  }
  assert.equal(of("done", reverted), "reverted");
  assert.equal(of("done", reverted, RULES.revertMs), "done");
  assert.equal(of("done", moving), "done");
  assert.equal(of("done", "unknown", RULES.rolloutMs), "done");
  assert.equal(of("done", state, 15_000), "done");
});

test("stamps are compared as times, in any time zone; a missing or malformed one is never later", () => {
  const of = (restartedAt: string | undefined) =>
    isSuperseded(restart(Date.parse("2026-01-01T12:00:00.000Z")), { ...state, restartedAt });
  assert.equal(of("2026-01-01T13:00:00.000+01:00"), false);
  assert.equal(of("2026-01-01T12:00:01+00:00"), true);
  assert.equal(of("2026-01-01T11:59:59Z"), false);
  assert.deepEqual([of(undefined), of("tomorrow")], [false, false]);
});

test("another object, a later restart or a deletion supersedes a restart, but an unknown state does not", () => {
  const last = restart(NOW);
  const all = { ...state, restartedAt: stamp(NOW) };
  const of = (what: Parameters<typeof isSuperseded>[1]) => isSuperseded(last, what);
  assert.deepEqual([of("absent"), of("unknown"), of(all)], [true, false, false]);
  assert.deepEqual([of({ ...all, uid: "v" }), of({ ...all, restartedAt: stamp(NOW + 1) })], [true, true]);
});

test("a failed rollout counts until the workload is changed, restarted, recreated, deleted or unknown", () => {
  const last = restart(NOW - 1_000, { outcome: "failed" });
  const of = (what: Parameters<typeof hasFailed>[1], how = last) => hasFailed(how, what, RULES, NOW);
  const failed = { ...state, generation: 2, restartedAt: stamp(NOW - 1_000) };
  assert.deepEqual([of(state), of(failed)], [true, true]);
  assert.deepEqual([of({ ...failed, generation: 3 }), of({ ...failed, uid: "v" })], [false, false]);
  assert.deepEqual([of({ ...failed, restartedAt: stamp(NOW) }), of("absent"), of("unknown")], [false, false, false]);
  assert.equal(of(failed, restart(NOW - 1_000)), false);
});
