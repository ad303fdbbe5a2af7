import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import { type Case, checkFacts, checkNeed, checkState, type Difference, isInVain } from "./may-restart.ts";
import { DAY_MS, type Restart, stamp } from "./restart-record.ts";
import { Workload } from "./workload.ts";

// Each check by itself, and the order of those that hold at the same time. restarter.test.ts has whole restarts.

const NOW = 1_700_000_000_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const RULES = parseConfig({}).restart;

const pod = (restartedAt?: string, created = NOW) => ({ ...podFacts({}), revision: "old", restartedAt, created });

function workload(more: Partial<Workload> = {}): Workload {
  const owner = {
    namespace: "shop",
    kind: "Deployment",
    name: "web",
    key: "shop/Deployment/web",
    unrestartable: undefined,
  };
  return {
    ...new Workload(owner, true),
    stale: [pod()],
    to: "new",
    since: NOW - DAY_MS,
    staleSince: NOW - DAY_MS,
    ...more,
  };
}

const STATE: WorkloadState = {
  uid: "u",
  resourceVersion: "1",
  generation: 1,
  restartedAt: undefined,
  restarts: undefined,
  onChange: undefined,
  refusal: undefined,
  unsettled: undefined,
  failed: false,
};

const restart = (ago: number, ...by: string[]): Restart => ({ at: NOW - ago, begun: NOW - ago, by, to: "new" });

function subject(more: Partial<Case> = {}): Case {
  return { workload: workload(), rules: RULES, now: NOW, state: STATE, restarts: [], ...more };
}

describe("what is known without reading the workload", () => {
  const reason = { code: "not-restartable", text: "" };
  const { owner } = workload();
  for (const [code, more] of [
    ["in-step", { stale: [] }],
    ["not-restartable", { stale: [], unfollowed: { code: "not-restartable", text: "" } }],
    ["on-change-none", { onChange: { mode: "none", from: "pod", problems: [] }, listed: false }],
    ["not-restartable", { owner: { ...owner, unrestartable: reason }, listed: false }],
    ["restart-not-permitted", { listed: false }],
    [undefined, {}],
  ] as const) {
    test(`${JSON.stringify(more)} is ${code ?? "a reason to look"}`, () => {
      assert.equal(checkFacts(workload(more))?.code, code);
    });
  }
});

describe("the state of the workload", () => {
  const last = restart(10 * MINUTE, "shop");
  const restartedAt = stamp(last.at);
  const refusal = { code: "not-restartable", text: "" };
  const proof = workload({ stale: [pod(restartedAt, last.at + MINUTE)] });
  for (const [what, code, more] of [
    ["nothing against a restart", undefined, {}],
    ["paused, and not available", "not-restartable", { state: { ...STATE, refusal, unsettled: "x" } }],
    ["not available", "not-available", { state: { ...STATE, unsettled: "x" } }],
    [
      "our restart, in progress",
      "not-available",
      { restarts: [restart(MINUTE, "shop")], state: { ...STATE, restartedAt: stamp(NOW - MINUTE), unsettled: "x" } },
    ],
    [
      "our restart, after its time",
      "rollout-failed",
      { restarts: [last], state: { ...STATE, restartedAt, unsettled: "x" } },
    ],
    [
      "our restart, given up",
      "rollout-failed",
      {
        restarts: [restart(MINUTE, "shop")],
        state: { ...STATE, restartedAt: stamp(NOW - MINUTE), unsettled: "x", failed: true },
      },
    ],
    [
      "somebody's restart",
      "not-available",
      { restarts: [restart(MINUTE)], state: { ...STATE, restartedAt: stamp(NOW - MINUTE), unsettled: "x" } },
    ],
    [
      "a pod that proves that it does not help",
      "did-not-converge",
      { workload: proof, restarts: [last], state: { ...STATE, restartedAt } },
    ],
  ] as const satisfies ReadonlyArray<readonly [string, string | undefined, Partial<Case>]>) {
    test(`${what}: ${code ?? "none"}`, () => {
      assert.equal(checkState(subject(more))?.code, code);
    });
  }
});

test("the text of a restart in vain has its time, not what the owner wrote", () => {
  const last = restart(MINUTE, "shop");
  const stale = [pod(stamp(last.at), last.at)];
  const state = { ...STATE, restartedAt: "\u001b[31m" };
  const decision = checkState(subject({ workload: workload({ stale }), restarts: [last], state }));
  assert.equal(decision?.text, `restarted at ${stamp(last.at)}, and its new pods still lack the names`);
});

test("only a stale pod of the last restart, within ten minutes of it, proves something about the same names", () => {
  const last = restart(HOUR, "shop");
  const proven = (of: string | undefined, createdMs: number, to: string | undefined = "new") =>
    isInVain(workload({ stale: [pod(of, last.at + createdMs)] }), { ...last, to });
  const own = stamp(last.at);
  assert.equal(proven(own, 1_000), true);
  assert.equal(proven(own, 1_000, "old"), undefined, "its names have changed since");
  assert.equal(isInVain(workload({ stale: [pod(own, last.at)] }), { ...last, to: undefined }), undefined);
  assert.equal(proven(own, 10 * MINUTE), true);
  assert.equal(proven(own, 10 * MINUTE + 1), false, "somebody changed the workload, or the node was lost");
  assert.equal(proven(own, -HOUR), false, "clocks differ");
  assert.equal(proven(stamp(last.at - 1), 1_000), false);
  assert.equal(proven(undefined, 1_000), false, "it started while the webhook was away");
});

describe("the need", () => {
  const MISSING: Difference = { missing: ["shop"], extra: [], shared: false };
  const need = (difference: Partial<Difference>, more: Partial<Case> = {}) => {
    const found = checkNeed(subject(more), { ...MISSING, ...difference });
    return Array.isArray(found) ? found : [found.code, (found.until ?? NOW) - NOW];
  };

  test("is none if no line differs, and waits ten minutes if lines are only superfluous", () => {
    assert.deepEqual(need({ missing: [] }), ["in-step", MINUTE]);
    const removed = { missing: [], extra: ["shop"] };
    const after = (sinceMs: number, staleMs: number) =>
      need(removed, { workload: workload({ since: NOW - sinceMs, staleSince: NOW - staleMs }) });
    assert.deepEqual(after(9 * MINUTE, 9 * MINUTE), ["delayed", MINUTE]);
    assert.deepEqual(need(removed), ["shop"]);
    assert.deepEqual(after(MINUTE, 99 * MINUTE), ["delayed", MINUTE], "others change names all the time");
    assert.deepEqual(after(MINUTE, 100 * MINUTE), ["shop"]);
  });

  test("is also a name that was removed, although a missing one of another namespace has no restart left", () => {
    const restarts = [20, 10, 8, 6].map((hour) => restart(hour * HOUR, "shop"));
    const both = { extra: ["blog", "shop"], shared: true };
    assert.deepEqual(need(both, { restarts }), ["blog"]);
    const since = NOW - 9 * MINUTE;
    const recent = { restarts, workload: workload({ since, staleSince: since }) };
    assert.deepEqual(need(both, recent), ["budget-spent", MINUTE]);
  });

  test("waits for stable names, at most 20 s", () => {
    const after = (sinceMs: number, staleMs: number) =>
      need({}, { workload: workload({ since: NOW - sinceMs, staleSince: NOW - staleMs }) });
    assert.deepEqual(after(500, 5_000), ["delayed", 1_500]);
    assert.deepEqual(after(500, 19_000), ["delayed", 1_000]);
    assert.deepEqual([after(2_000, 5_000), after(500, 20_000)], [["shop"], ["shop"]]);
  });

  test("waits for the interval of its cause, which doubles up to an hour with each restart that it caused", () => {
    for (const [restarts, waits] of [
      [[restart(10_000, "shop")], 20_000],
      [[restart(30_000, "shop")], undefined],
      [[restart(HOUR, "shop"), restart(30_000, "shop")], 30_000],
      [[restart(2 * HOUR, "shop"), restart(HOUR, "shop"), restart(30_000, "shop")], 90_000],
      [[restart(2 * HOUR, "shop"), restart(30_000, "other")], undefined],
      [[restart(2 * HOUR, "shop"), restart(10_000, "other")], 20_000],
      [[restart(2 * HOUR, "shop"), restart(10_000)], 20_000],
    ] as const) {
      const expected = waits === undefined ? ["shop"] : ["delayed", waits];
      assert.deepEqual(need({}, { restarts }), expected, JSON.stringify(restarts));
    }
    const rules = { ...RULES, dailyBudget: 20 };
    const many = Array.from({ length: 12 }, (_, index) => restart(HOUR * (13 - index), "shop")).concat(
      restart(0, "shop"),
    );
    assert.deepEqual(need({}, { restarts: many, rules }), ["delayed", HOUR]);
  });

  test("is caused by the namespaces that may restart it now; the others ride along", () => {
    const restarts = [restart(20 * MINUTE, "a"), restart(10 * MINUTE, "a"), restart(45_000, "a")];
    assert.deepEqual(need({ missing: ["a", "b", "c"], shared: true }, { restarts }), ["b", "c"]);
  });

  test("ends with six restarts of a day, and returns when the oldest is a day old", () => {
    const hours = (...ago: readonly number[]) => ago.map((hour) => restart(hour * HOUR, "shop"));
    assert.deepEqual(need({}, { restarts: hours(20, 10, 8, 6, 4, 2) }), ["budget-spent", 4 * HOUR]);
    assert.deepEqual(need({}, { restarts: hours(10, 8, 6, 4, 2) }), ["shop"]);
    assert.deepEqual(need({}, { rules: { ...RULES, dailyBudget: 0 } }), ["budget-spent", DAY_MS]);
  });

  test("keeps the last two restarts of a day for namespaces that caused none, if several hold names", () => {
    const restarts = [20, 10, 8, 6].map((hour) => restart(hour * HOUR, "a"));
    assert.deepEqual(need({ missing: ["a"], shared: false }, { restarts }), ["a"]);
    assert.deepEqual(need({ missing: ["a"], shared: true }, { restarts }), ["budget-spent", 4 * HOUR]);
    assert.deepEqual(need({ missing: ["a", "b"], shared: true }, { restarts }), ["b"]);
    const after = [...restarts, restart(HOUR, "b")];
    assert.deepEqual(need({ missing: ["b"], shared: true }, { restarts: after }), ["budget-spent", 4 * HOUR]);
    assert.deepEqual(need({ missing: ["c"], shared: true }, { restarts: after }), ["c"]);
  });
});
