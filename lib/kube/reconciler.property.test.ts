import assert from "node:assert/strict";
import { test } from "node:test";
import { replaceTimers } from "#test/fakes/stopped-time.ts";
import { fc } from "#test/property.ts";
import { createBackoff } from "./backoff.ts";
import { type ReconcileResult, Reconciler } from "./reconciler.ts";

const BASE_MS = 40;
const CAP_MS = 200;

/** Timers that fire in order, each at its time, when the test advances time. */
function fakeTimers() {
  const timers = new Set<{ readonly at: number; readonly callback: () => void }>();
  const fake = { now: 0 };
  const set = (callback: () => void, ms: number) => {
    const timer = { at: fake.now + ms, callback };
    timers.add(timer);
    return timer;
  };
  const clear = (timer: object | undefined) => void timers.delete(timer as { at: number; callback: () => void });
  const pass = (ms: number): void => {
    const until = fake.now + ms;
    for (;;) {
      const [next] = [...timers].filter(({ at }) => at <= until).sort((one, other) => one.at - other.at);
      if (next === undefined) break;
      timers.delete(next);
      fake.now = next.at;
      next.callback();
    }
    fake.now = until;
  };
  return { fake, timers: { now: () => fake.now, set, clear }, pass, pending: () => timers.size };
}

/** The specified behavior of a reconciler: when the next run is due, and until when no run may begin. */
function model(rules: { readonly hold: boolean; readonly pauseMs: number }) {
  const never = Number.POSITIVE_INFINITY;
  const state = { dueAt: never, blockedUntil: 0, running: false, stopped: false, backoffMs: BASE_MS };
  return {
    state,
    /** The time of the next run, unless something happens first. */
    nextRun: () => (state.running || state.stopped ? never : Math.max(state.dueAt, state.blockedUntil)),
    isIdle: () => !state.running && (state.stopped || state.dueAt === never),
    enqueue(now: number, afterMs: number): void {
      if (!state.stopped) state.dueAt = Math.min(state.dueAt, now + afterMs);
    },
    begin(): void {
      Object.assign(state, { running: true, dueAt: never });
    },
    end(now: number, outcome: Outcome): void {
      const { backoffMs } = state;
      const failed = outcome === "fails";
      state.running = false;
      state.backoffMs = failed ? Math.min(backoffMs * 2, CAP_MS) : BASE_MS;
      state.blockedUntil = now + Math.max(rules.pauseMs, failed && rules.hold ? backoffMs : 0);
      if (failed) this.enqueue(now, backoffMs);
      else if (outcome !== undefined) this.enqueue(now, outcome);
    },
  };
}

/** The end of a run: it fails, asks to run again after some milliseconds, or does neither. */
type Outcome = "fails" | number | undefined;

const delay = fc.constantFrom(0, 1, 5, 20, 50, 300);
const outcome: fc.Arbitrary<Outcome> = fc.oneof(fc.constant("fails" as const), delay, fc.constant(undefined));
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("enqueue" as const), ms: delay }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: delay }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("end" as const), outcome }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("idle" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("stop" as const) }) },
);
const setting = fc.record({
  hold: fc.boolean(),
  pauseMs: fc.constantFrom(0, 0, 10, 100),
  /** The outcomes of runs that end when they return. When these are used up, runs last until a step ends them. */
  synchronous: fc.array(outcome, { maxLength: 4 }),
  steps: fc.array(step, { maxLength: 40 }),
});

/** A reconciler beside its model. `faults` lists their differences. */
function rig({ hold, pauseMs, synchronous }: { hold: boolean; pauseMs: number; synchronous: readonly Outcome[] }) {
  const { fake, timers, pass, pending } = fakeTimers();
  const wanted = model({ hold, pauseMs });
  const left = [...synchronous];
  const begun: number[] = [];
  const faults: string[] = [];
  let gate: PromiseWithResolvers<ReconcileResult | undefined> | undefined;
  const finish = (how: Outcome): ReconcileResult | undefined => {
    if (how === "fails") throw new Error("refused");
    return how === undefined ? undefined : { requeueAfter: how };
  };
  const reconciler = new Reconciler({
    reconcile: () => {
      // An error thrown here would count as a failure of the run.
      if (wanted.state.running) faults.push("two runs at once");
      if (wanted.state.stopped) faults.push("a run after stop");
      if (wanted.nextRun() !== fake.now) faults.push(`a run at ${fake.now} instead of ${wanted.nextRun()}`);
      begun.push(fake.now);
      wanted.begin();
      if (left.length > 0) {
        const how = left.shift();
        wanted.end(fake.now, how);
        return finish(how);
      }
      gate = Promise.withResolvers();
      return gate.promise;
    },
    retry: { backoff: createBackoff(BASE_MS, CAP_MS), onError: () => {}, hold },
    pauseMs: () => pauseMs,
  });
  const end = async (how: Outcome): Promise<void> => {
    if (gate === undefined) return;
    const { resolve, reject } = gate;
    gate = undefined;
    wanted.end(fake.now, how);
    if (how === "fails") reject(new Error("refused"));
    else resolve(finish(how));
    await settle();
  };
  return { fake, timers, pass, pending, wanted, begun, faults, reconciler, end };
}

/** Waits until promises have settled. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
}

test("property: runs begin when due and allowed, one at a time; idle and stop wait, stop ends timers", async (t) => {
  await fc.assert(
    fc.asyncProperty(setting, async ({ steps, ...rules }) => {
      const { fake, timers, pass, pending, wanted, begun, faults, reconciler, end } = rig(rules);
      replaceTimers(t, timers);
      const stops: boolean[] = [];
      const idles: { settled: boolean; expected: boolean }[] = [];
      for (const next of steps) {
        if (next.do === "enqueue") {
          wanted.enqueue(fake.now, next.ms);
          reconciler.enqueue(next.ms);
        } else if (next.do === "pass") pass(next.ms);
        else if (next.do === "end") await end(next.outcome);
        else if (next.do === "idle") {
          const waiting = { settled: false, expected: false };
          idles.push(waiting);
          void reconciler.idle().then(() => {
            waiting.settled = true;
          });
        } else {
          wanted.state.stopped = true;
          const index = stops.push(false) - 1;
          void reconciler.stop().then(() => {
            stops[index] = true;
          });
        }
        if (wanted.state.stopped) assert.equal(pending(), 0, "no timer is left, and none is started");
        await settle();
        assert.deepEqual(faults, []);
        assert.ok(wanted.nextRun() >= fake.now, "a run that was due has begun");
        assert.ok(
          stops.every((settled) => settled === !wanted.state.running),
          "stop waits for the run in progress",
        );
        for (const waiting of idles) {
          waiting.expected ||= wanted.isIdle();
          assert.equal(waiting.settled, waiting.expected, "idle waits until nothing is left to run, and no longer");
        }
      }
      if (wanted.state.stopped) return;
      // After any steps, one more enqueue leads to one more run.
      while (wanted.state.running) await end(undefined);
      const runs = begun.length;
      wanted.enqueue(fake.now, 0);
      reconciler.enqueue();
      pass(CAP_MS);
      assert.ok(begun.length > runs, "no wake-up is lost");
      assert.deepEqual(faults, []);
    }),
    { numRuns: 1_000 },
  );
});
