import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES } from "#test/fakes/rollout-world.ts";
import { NOW, restart, state, workload } from "#test/fakes/workload-facts.ts";
import { DAY_MS, type Restart, stamp } from "./restart-history.ts";
import { checkWorkload } from "./restart-preconditions.ts";
import type { RolloutDecision, WorkloadFacts } from "./workload-facts.ts";

const codeOf = (more: Partial<WorkloadFacts>, rules = RULES) => checkWorkload(workload(more), rules, NOW)?.code;

test("no restart with a budget of 0 or a spent budget, but one below the budget", () => {
  const rules = (dailyBudget: number) => ({ ...RULES, dailyBudget, minIntervalMs: 0 });
  const decision = checkWorkload(workload(), rules(0), NOW);
  assert.deepEqual(
    [decision?.code, decision?.text],
    ["budget-spent", "0 restarts in 24 hours: no further restart ever"],
  );
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

test("a working agent is waited for until updaterMs; then the workload is stuck", () => {
  const live = { mode: "live", updaters: "keeping" } as const;
  assert.equal(codeOf({ ...live, staleSince: NOW - RULES.updaterMs + 1 }), "live");
  assert.equal(codeOf({ ...live, staleSince: NOW - RULES.updaterMs }), "agent-behind");
  assert.equal(codeOf({ mode: "live", updaters: "silent" }), undefined);
  assert.equal(codeOf({ mode: "restart", updaters: "keeping" }), undefined);
});

const refusal = { code: "paused", text: "it is paused" };
const young = restart(NOW - 1_000, { to: "new" });
const stamped = (at: number) => ({ ...state, generation: 2, restartedAt: stamp(at) });
const unsettled = "0 of 1 available";

/** Each decision in full. The workload differs only by these facts from one that waits for its turn. */
const DECISIONS: ReadonlyArray<readonly [string, Partial<WorkloadFacts>, RolloutDecision]> = [
  ["no stale pod", { stale: [] }, { standing: "in-step", code: "in-step", text: "every pod has the current names" }],
  [
    "a working agent",
    { mode: "live", updaters: "keeping", staleSince: NOW - 1 },
    {
      standing: "waiting",
      code: "live",
      text: "the agent on the node has not yet applied the current names",
      until: NOW - 1 + RULES.updaterMs,
    },
  ],
  [
    "an agent that stays behind",
    { mode: "live", updaters: "keeping" },
    {
      standing: "stuck",
      code: "agent-behind",
      text: "the agent on the node is alive but still has not applied the current names",
    },
  ],
  [
    "on-change none",
    { mode: "none" },
    { standing: "left", code: "on-change-none", text: "on-change is none: stale pods are only reported" },
  ],
  [
    "an owner that cannot be restarted",
    { unrestartable: { code: "job", text: "a Job's pod" } },
    { standing: "stuck", code: "job", text: "a Job's pod" },
  ],
  [
    "a namespace that is not listed",
    { permitted: false },
    {
      standing: "stuck",
      code: "restart-not-permitted",
      text: "shop is not in restart.namespaces or optIn.namespaces; restart the workload by hand",
    },
  ],
  ...(["unknown", "absent"] as const).map((unread): [string, Partial<WorkloadFacts>, RolloutDecision] => [
    `a workload that is ${unread}`,
    { state: unread },
    {
      standing: "waiting",
      code: "workload-unknown",
      text: "the workload has not been read yet",
    },
  ]),
  [
    "a workload that the controller may not read",
    { state: "forbidden" },
    {
      standing: "stuck",
      code: "restart-rights-missing",
      text:
        "workloads of shop may be restarted, but the controller has no Role there: run helm upgrade now that the " +
        "namespace exists",
    },
  ],
  [
    "an unreadable record",
    { history: { code: "history-unreadable", text: "not written by Switchback" } },
    { standing: "stuck", code: "history-unreadable", text: "not written by Switchback" },
  ],
  ["a workload that refuses", { state: { ...state, refusal } }, { standing: "stuck", ...refusal }],
  [
    "a restart in progress",
    { history: [restart(NOW - 1_000, { outcome: undefined })], state: { ...stamped(NOW - 1_000), unsettled } },
    {
      standing: "waiting",
      code: "restarting",
      text: `a restart has been in progress since ${stamp(NOW - 1_000)}`,
      until: NOW - 1_000 + RULES.rolloutMs,
    },
  ],
  [
    "a reverted restart",
    { history: [restart(NOW - 1_000, { outcome: "reverted" })] },
    {
      standing: "stuck",
      code: "reverted-by-owner",
      text: "its owner reverted the restart: restart it with the tool that manages it",
    },
  ],
  [
    "a failed rollout",
    { history: [restart(NOW - 1_000, { outcome: "failed" })] },
    {
      standing: "stuck",
      code: "rollout-failed",
      text: `the rollout of ${stamp(NOW - 1_000)} failed: there is no further restart until the workload is changed`,
    },
  ],
  [
    "new pods that are still stale",
    { history: [young], state: stamped(NOW - 1_000), stale: [{ revision: "x", restartedAt: stamp(NOW - 1_000) }] },
    {
      standing: "stuck",
      code: "did-not-converge",
      text: `restarted at ${stamp(NOW - 1_000)}, and its new pods still do not have the current names`,
    },
  ],
  [
    "old pods that terminate",
    { history: [young] },
    {
      standing: "waiting",
      code: "restarted",
      text: `restarted for these names at ${stamp(NOW - 1_000)}; its old pods are terminating`,
      until: NOW - 1_000 + 60_000,
    },
  ],
  [
    "a restart for these names, in vain",
    { history: [restart(NOW - 60_000, { to: "new" })] },
    {
      standing: "stuck",
      code: "already-restarted",
      text: `restarted for these names at ${stamp(NOW - 60_000)}; it is not restarted for them again`,
    },
  ],
  [
    "a workload that is not fully available",
    { state: { ...state, unsettled } },
    { standing: "waiting", code: "not-available", text: "not fully available: 0 of 1 available" },
  ],
  [
    "a spent budget",
    { history: Array.from({ length: 6 }, (_, index) => restart(NOW - 100_000 + index)) },
    {
      standing: "waiting",
      code: "budget-spent",
      text: `6 restarts in 24 hours: no further restart until ${stamp(NOW - 100_000 + DAY_MS)}`,
      until: NOW - 100_000 + DAY_MS,
    },
  ],
  [
    "a restart a moment ago",
    { history: [restart(NOW - 1_000)] },
    {
      standing: "waiting",
      code: "interval",
      text: `restarted recently: not again until ${stamp(NOW + 29_000)}`,
      until: NOW + 29_000,
    },
  ],
  [
    "names that changed a moment ago",
    { since: NOW - 1, changingSince: NOW - 1 },
    { standing: "waiting", code: "debouncing", text: "its names changed recently", until: NOW - 1 + RULES.debounceMs },
  ],
  [
    "names that have been changing for long",
    { since: NOW - 1, changingSince: NOW - RULES.maxDebounceMs + 5 },
    { standing: "waiting", code: "debouncing", text: "its names changed recently", until: NOW + 5 },
  ],
  [
    "a refusal",
    { notBefore: NOW + 1 },
    {
      standing: "waiting",
      code: "look-again",
      text: "another client changed it, or it could not be read or patched",
      until: NOW + 1,
    },
  ],
  [
    "pods with the same lines",
    { diff: { missing: 0, extra: 0 } },
    { standing: "in-step", code: "same-names", text: "the pods already have what new pods would get" },
  ],
  [
    "names that were only removed",
    { diff: { missing: 0, extra: 1 }, since: NOW - RULES.debounceMs },
    {
      standing: "waiting",
      code: "vanished-waiting",
      text: "names were only removed: the restart is delayed",
      until: NOW - RULES.debounceMs + RULES.vanishedMs,
    },
  ],
];

for (const [what, more, decision] of DECISIONS) {
  test(`the decision on ${what}: ${decision.code}`, () => {
    assert.deepEqual(checkWorkload(workload(more), RULES, NOW), decision);
  });
}

test("if there are several reasons, the most lasting one is given", () => {
  const reasons: ReadonlyArray<readonly [string, Partial<WorkloadFacts>]> = [
    ["in-step", { stale: [] }],
    ["on-change-none", { mode: "none" }],
    ["job", { unrestartable: { code: "job", text: "" } }],
    ["restart-not-permitted", { permitted: false }],
    ["paused", { state: { ...state, refusal, unsettled } }],
    ["not-available", { state: { ...state, unsettled } }],
    ["interval", { history: [restart(NOW)] }],
    ["debouncing", { since: NOW, changingSince: NOW }],
    ["look-again", { notBefore: NOW + 1 }],
    ["same-names", { diff: { missing: 0, extra: 0 } }],
  ];
  const together = reasons.map((_, index) =>
    Object.assign(
      {},
      ...reasons
        .slice(index)
        .toReversed()
        .map(([, more]) => more),
    ),
  );
  assert.deepEqual(
    together.map((more) => codeOf(more)),
    reasons.map(([code]) => code),
  );
});

test("a restart by hand, a replaced object, or its deletion clears an earlier failure", () => {
  const last = (outcome: "failed" | "reverted" | "done") => [restart(NOW - DAY_MS, { outcome, generation: 5 })];
  const now = { ...state, generation: 6, restartedAt: stamp(NOW - DAY_MS) };
  for (const outcome of ["failed", "reverted"] as const) {
    assert.notEqual(codeOf({ history: last(outcome), state: now }), undefined, outcome);
    assert.equal(codeOf({ history: last(outcome), state: { ...now, restartedAt: stamp(NOW - 1) } }), undefined);
    assert.equal(codeOf({ history: last(outcome), state: { ...now, uid: "another" } }), undefined);
  }
  assert.equal(codeOf({ history: last("failed"), state: { ...now, generation: 7 } }), undefined, "changed since");
  const stale = [{ revision: "old", restartedAt: stamp(NOW - DAY_MS) }];
  assert.equal(codeOf({ history: last("done"), state: now, stale }), "did-not-converge");
  assert.equal(codeOf({ history: last("done"), state: { ...now, uid: "another" }, stale }), undefined);
});

test("new pods did not converge if the names are the same, or if they have a revision from before the restart", () => {
  const at = NOW - DAY_MS;
  const of = (last: Partial<Restart>, ...revisions: (string | undefined)[]) => {
    const stale = revisions.map((revision) => ({ revision, restartedAt: stamp(at) }));
    return codeOf({
      history: [restart(at, last)],
      state: stamped(at),
      stale: [...stale, { revision: "old", restartedAt: undefined }],
    });
  };
  assert.equal(of({ to: "new" }, "x"), "did-not-converge");
  assert.equal(of({ from: ["old"] }, "x"), undefined, "names changed since");
  assert.equal(of({ from: ["old", "x"] }, "y", "x"), "did-not-converge");
  assert.equal(of({ from: [""] }, undefined), "did-not-converge");
  assert.equal(of({ from: ["old"] }), undefined, "only pods that are not of the restart");
  assert.equal(of({ to: "other" }, undefined), undefined);
});

test("a workload is restarted again for the same names only if its pods had them and then others", () => {
  const day = (n: number, from: string, to: string) => restart(NOW - DAY_MS + n, { from: [from], to });
  assert.equal(codeOf({ history: [day(-3, "a", "new"), day(-2, "new", "b")] }), undefined);
  assert.equal(codeOf({ history: [day(-3, "a", "new"), day(-2, "c", "b")] }), "already-restarted");
  assert.equal(
    codeOf({ history: [day(-4, "a", "new"), day(-3, "new", "b"), day(-2, "b", "new")] }),
    "already-restarted",
  );
  assert.equal(codeOf({ history: [day(-3, "a", "b")] }), undefined);
});

test("after a restart for these names, old pods may terminate for a minute; then it counts as unsuccessful", () => {
  const at = (ms: number) => ({ history: [restart(NOW - ms, { to: "new" })] });
  assert.equal(codeOf(at(59_999)), "restarted");
  assert.equal(codeOf(at(60_000)), "already-restarted");
});
