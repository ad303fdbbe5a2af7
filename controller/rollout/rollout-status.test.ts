import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FIRST_PAGE } from "#lib/documents/status-page.ts";
import { NOW, restart } from "#test/fakes/workload-facts.ts";
import type { RolloutCounts } from "./cohorts.ts";
import type { GroupSummary } from "./observe-workloads.ts";
import { DAY_MS, type History, stamp } from "./restart-history.ts";
import { rolloutStatus, selectKeys } from "./rollout-status.ts";
import type { RolloutDecision } from "./workload-facts.ts";

const HOUR_MS = 3_600_000;

/** A workload with three opted-in pods, one of them stale. */
function group(key: string, more: Partial<GroupSummary> = {}): readonly [string, GroupSummary] {
  const summary: GroupSummary = {
    onChange: { mode: "live", from: "namespace", problems: [] },
    pods: 3,
    stale: 1,
    notInjected: 2,
    overCap: undefined,
    warnings: [],
    updaters: undefined,
    to: "new",
    ...more,
  };
  return [key, summary];
}

const NONE: RolloutCounts = { workloads: 0, pods: 0, stale: 0, notInjected: 0, decisions: [] };

const decision = (standing: RolloutDecision["standing"], code: string): RolloutDecision => ({
  standing,
  code,
  text: "why",
});

function statusOf(
  groups: ReadonlyArray<readonly [string, GroupSummary]>,
  decisions: Readonly<Record<string, RolloutDecision>> = {},
  more: Partial<Parameters<typeof rolloutStatus>[0]> = {},
) {
  const known = {
    unknown: undefined,
    notice: undefined,
    dryRun: false,
    underWay: undefined,
    counts: NONE,
    omitted: 0,
    next: undefined,
  };
  const decisionOf = (key: string) => decisions[key];
  const selected = new Map(groups);
  const past = { historyOf: (): History => [], restarts: [], now: NOW };
  return rolloutStatus({ ...known, ...past, selected, decisionOf, ...more });
}

const WEB = "shop/Deployment/web";
/** `group(WEB)` before its first decision. */
const NEW = {
  namespace: "shop",
  kind: "Deployment",
  name: "web",
  pods: 3,
  stale: 1,
  notInjected: 2,
  mode: "live",
  modeFrom: "namespace",
  standing: "waiting",
  code: "not-decided",
  text: "it was just discovered, and nothing is decided about it yet",
  lastRestart: undefined,
  warnings: [],
};

test("without pods, the status shows what is unknown, and all counts are zero", () => {
  assert.deepEqual(statusOf([], {}, { unknown: { code: "no-map", text: "no map yet" }, dryRun: true }), {
    unknown: "no map yet",
    unknownCode: "no-map",
    notice: undefined,
    dryRun: true,
    underWay: undefined,
    waiting: 0,
    restartsLastHour: 0,
    restartsToday: 0,
    counts: NONE,
    workloads: [],
    omitted: 0,
    next: undefined,
  });
});

test("a workload without a decision is shown as waiting for one", () => {
  assert.deepEqual(statusOf([group(WEB)]).workloads, [NEW]);
});

test("a workload is shown with its decision, last restart and warnings; if it is in step, no pod is stale", () => {
  const problem = { code: "on-change-invalid", text: "x" };
  const warned = group(WEB, { warnings: [problem], overCap: { total: 501, cap: 500 } });
  const history = [restart(NOW - DAY_MS), restart(NOW - 9), restart(NOW - 5)];
  const status = statusOf([warned], { [WEB]: decision("stuck", "rollout-failed") }, { historyOf: () => history });
  const overCap = { code: "over-cap", text: "its pods get only the first 500 of 501 mapped names" };
  const stuck = { standing: "stuck", code: "rollout-failed", text: "why" };
  const expected = { ...NEW, ...stuck, lastRestart: stamp(NOW - 5), warnings: [problem, overCap] };
  assert.deepEqual([status.workloads, status.waiting], [[expected], 0]);
  const broken = { historyOf: () => ({ code: "history-unreadable", text: "" }) };
  const inStep = statusOf([group(WEB)], { [WEB]: decision("in-step", "same-names") }, broken);
  assert.deepEqual(inStep.workloads, [{ ...NEW, standing: "in-step", code: "same-names", text: "why", stale: 0 }]);
});

test("workloads are ordered by namespace, name and kind", () => {
  const keys = ["b/Deployment/a", "a/StatefulSet/web", "a/Deployment/web", "a/StatefulSet/api"];
  const status = statusOf(keys.map((key) => group(key, { pods: 1 })));
  assert.deepEqual(
    status.workloads.map(({ namespace, kind, name }) => `${namespace}/${kind}/${name}`),
    ["a/StatefulSet/api", "a/Deployment/web", "a/StatefulSet/web", "b/Deployment/a"],
  );
});

test("every waiting workload counts as waiting for a restart, except those that an agent updates", () => {
  const decisions = [
    { standing: "waiting", code: "live", workloads: 1 },
    { standing: "stuck", code: "agent-behind", workloads: 2 },
    { standing: "waiting", code: "its-turn", workloads: 4 },
    { standing: "waiting", code: "restarting", workloads: 8 },
    { standing: "left", code: "on-change-none", workloads: 16 },
  ] as const;
  assert.equal(statusOf([], {}, { counts: { ...NONE, decisions } }).waiting, 12);
});

describe("the workloads that a status shows", () => {
  const keysOf = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${prefix}/Deployment/${String(index).padStart(5, "0")}`);
  // Shuffle the keys, so that only the tested code can order them. Every position is used, because 7 and the lengths
  // have no common factor.
  const shuffled = (keys: readonly string[]) => keys.map((_, index) => keys[(index * 7) % keys.length] ?? "");
  const [stuck, stale, others] = [keysOf("c", 900), keysOf("b", 90), keysOf("a", 9_000)];
  const lists = [stuck, stale, others].map(shuffled);

  test("without a page, stuck ones come first, then stale ones, each by key; the rest is counted", () => {
    const { keys, omitted, next } = selectKeys(lists, {});
    assert.deepEqual(keys, [...stuck, ...stale, ...others.slice(0, 10)]);
    assert.deepEqual([omitted, next], [8_990, undefined]);
  });

  test("with `stuck`, only stuck ones are shown", () => {
    assert.deepEqual(selectKeys(lists, { stuck: true }), { keys: stuck, omitted: 0, next: undefined });
  });

  test("the pages contain every workload once, ordered by key", () => {
    const found: string[] = [];
    const left: number[] = [];
    for (let after: string | undefined = FIRST_PAGE; after !== undefined; ) {
      const page: ReturnType<typeof selectKeys> = selectKeys(lists, { after });
      found.push(...page.keys);
      left.push(page.omitted);
      after = page.next;
    }
    assert.deepEqual(found, [...others, ...stale, ...stuck]);
    assert.deepEqual(left, [8_990, 7_990, 6_990, 5_990, 4_990, 3_990, 2_990, 1_990, 990, 0]);
  });

  test("even in the worst order, selecting from 150,000 keys takes less than a second of CPU time", () => {
    const descending = keysOf("a", 150_000).reverse();
    const begin = process.threadCpuUsage();
    const { keys } = selectKeys([descending, [], []], {});
    const { user } = process.threadCpuUsage(begin);
    assert.equal(keys.at(-1), "a/Deployment/00999");
    assert.ok(user < 1_000_000, `${user / 1_000} ms`);
  });
});

test("restarts of the last hour and day are counted to the millisecond", () => {
  const restarts = [NOW - DAY_MS, NOW - DAY_MS + 1, NOW - HOUR_MS, NOW - HOUR_MS + 1, NOW];
  const { restartsLastHour, restartsToday } = statusOf([], {}, { restarts });
  assert.deepEqual([restartsLastHour, restartsToday], [2, 4]);
});
