import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES } from "../../test/fakes/rollout-world.ts";
import { budgetReturns, DAY_MS, intervalEnds, pruned, type Restart, spentToday, stamp } from "./restart-history.ts";
import { LOST_MS, outcomeOf } from "./restart-outcome.ts";
import { checkWorkload } from "./restart-preconditions.ts";
import type { WorkloadFacts } from "./workload-facts.ts";

const NOW = 1_700_000_000_000;

function restart(at: number, more: Partial<Restart> = {}): Restart {
  return { at, from: ["old"], to: `new-${at}`, uid: "u", generation: 1, outcome: "done", ...more };
}

const state = {
  uid: "u",
  resourceVersion: "1",
  generation: 1,
  restartedAt: undefined,
  onChange: undefined,
  refusal: undefined,
  unsettled: undefined,
  failed: false,
};

/** A workload that passes every check except those of its history. */
function workload(more: Partial<WorkloadFacts> = {}): WorkloadFacts {
  return {
    key: "shop/Deployment/web",
    namespace: "shop",
    kind: "Deployment",
    unrestartable: undefined,
    permitted: true,
    state,
    mode: "restart",
    agents: undefined,
    stale: [{ revision: "old", restartedAt: undefined }],
    to: "new",
    since: 0,
    changingSince: 0,
    staleSince: 0,
    diff: { missing: 1, extra: 0 },
    notBefore: 0,
    history: [],
    ...more,
  };
}

const codeOf = (more: Partial<WorkloadFacts>, rules = RULES) => checkWorkload(workload(more), rules, NOW)?.code;

test("a restart counts for a day, to the millisecond; the last one is kept however old it is", () => {
  const [old, young] = [restart(NOW - DAY_MS), restart(NOW - DAY_MS + 1)];
  assert.equal(spentToday([old, young], NOW), 1);
  assert.deepEqual(pruned([old, young], NOW), [young]);
  assert.deepEqual(pruned([old, old], NOW), [old]);
  assert.deepEqual(pruned([], NOW), []);
});

test("the interval doubles with each restart of the day, up to the maximum", () => {
  const ends = (count: number) => {
    const history = Array.from({ length: count }, (_, index) => restart(NOW - count + 1 + index));
    return intervalEnds(history, RULES, NOW) - NOW;
  };
  assert.deepEqual([1, 2, 3].map(ends), [30_000, 60_000, 120_000]);
  assert.equal(ends(8), 3_600_000);
  assert.equal(intervalEnds([], RULES, NOW), Number.NEGATIVE_INFINITY);
  assert.equal(intervalEnds([restart(NOW - 2 * DAY_MS)], RULES, NOW), NOW - 2 * DAY_MS + 30_000);
});

test("a spent budget returns when its oldest restart is a day old, a budget of 0 never", () => {
  const history = [restart(NOW - DAY_MS), restart(NOW - 3), restart(NOW - 2), restart(NOW - 1)];
  assert.equal(budgetReturns(history, { ...RULES, dailyBudget: 3 }, NOW), NOW - 3 + DAY_MS);
  assert.equal(budgetReturns(history, { ...RULES, dailyBudget: 2 }, NOW), NOW - 2 + DAY_MS);
  assert.equal(budgetReturns(history, { ...RULES, dailyBudget: 0 }, NOW), Number.POSITIVE_INFINITY);
});

test("nothing is restarted with a budget of 0 or at the budget; below the budget it is", () => {
  const rules = (dailyBudget: number) => ({ ...RULES, dailyBudget, minIntervalMs: 0 });
  const verdict = checkWorkload(workload(), rules(0), NOW);
  assert.deepEqual([verdict?.code, verdict?.text], ["budget-spent", "0 restarts in 24 hours: no further restart ever"]);
  const history = [restart(NOW - 2), restart(NOW - 1)];
  assert.equal(codeOf({ history }, rules(2)), "budget-spent");
  assert.equal(codeOf({ history }, rules(3)), undefined);
});

const LIMITS: ReadonlyArray<readonly [string, number, (at: number) => Partial<WorkloadFacts>, string]> = [
  ["interval", RULES.minIntervalMs, (at) => ({ history: [restart(at)] }), "interval"],
  ["debounce", RULES.debounceMs, (at) => ({ since: at, changingSince: at }), "debouncing"],
  ["longest debounce", RULES.maxDebounceMs, (at) => ({ since: NOW, changingSince: at }), "debouncing"],
  ["refusal", 0, (at) => ({ notBefore: at }), "look-again"],
  [
    "names that vanished",
    RULES.vanishedMs,
    (at) => ({ diff: { missing: 0, extra: 1 }, since: at }),
    "vanished-waiting",
  ],
];

for (const [what, ms, more, code] of LIMITS) {
  test(`the ${what} is over at its end, and not a millisecond before`, () => {
    assert.equal(codeOf(more(NOW - ms + 1)), code);
    assert.equal(codeOf(more(NOW - ms)), undefined);
  });
}

test("a working agent is waited for until agentMs, then the workload is stuck", () => {
  const live = { mode: "live", agents: "keeping" } as const;
  assert.equal(codeOf({ ...live, staleSince: NOW - RULES.agentMs + 1 }), "live");
  assert.equal(codeOf({ ...live, staleSince: NOW - RULES.agentMs }), "agent-behind");
  assert.equal(codeOf({ mode: "live", agents: "silent" }), undefined);
  assert.equal(codeOf({ mode: "restart", agents: "keeping" }), undefined);
});

test("each reason against a restart, by itself", () => {
  const refusal = { code: "paused", text: "" };
  assert.equal(codeOf({ stale: [] }), "in-step");
  assert.equal(codeOf({ mode: "none" }), "on-change-none");
  assert.equal(codeOf({ unrestartable: { code: "job", text: "" } }), "job");
  assert.equal(codeOf({ permitted: false }), "restart-not-permitted");
  assert.equal(codeOf({ state: "unknown" }), "workload-unknown");
  assert.equal(codeOf({ state: "absent" }), "workload-unknown");
  assert.equal(codeOf({ history: { code: "history-unreadable", text: "" } }), "history-unreadable");
  assert.equal(codeOf({ state: { ...state, refusal } }), "paused");
  assert.equal(codeOf({ state: { ...state, unsettled: "0 of 1 available" } }), "not-available");
  assert.equal(codeOf({ diff: { missing: 0, extra: 0 } }), "same-names");
  assert.equal(codeOf({}), undefined);
});

test("the old pods of a restart for these names may terminate for a minute, then it was in vain", () => {
  const at = (ms: number) => ({ history: [restart(NOW - ms, { to: "new" })] });
  assert.equal(codeOf(at(59_999)), "restarted");
  assert.equal(codeOf(at(60_000)), "already-restarted");
});

test("the outcome of a restart, at each limit", () => {
  const of = (ms: number, more: object, last: Partial<Restart> = {}) =>
    outcomeOf(restart(NOW - ms, { outcome: undefined, ...last }), { ...state, ...more }, RULES, NOW);
  const carries = (ms: number) => ({ restartedAt: stamp(NOW - ms) });
  assert.equal(of(LOST_MS - 1, {}), "running");
  assert.equal(of(LOST_MS, {}), "void");
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

test("a restart of an unknown workload runs until its deadline; that of an absent one is done", () => {
  const of = (ms: number, what: "unknown" | "absent") =>
    outcomeOf(restart(NOW - ms, { outcome: undefined }), what, RULES, NOW);
  assert.equal(of(RULES.rolloutMs - 1, "unknown"), "running");
  assert.equal(of(RULES.rolloutMs, "unknown"), "failed");
  assert.equal(of(1, "absent"), "done");
});
