import assert from "node:assert/strict";
import { test } from "node:test";
import { Cohorts, type Member, standingOf } from "./cohorts.ts";
import type { GroupSummary } from "./observe-workloads.ts";

const AGENT_MS = 60_000;
const LIVE: GroupSummary = {
  onChange: { mode: "live", from: "install", problems: [] },
  pods: 2,
  stale: 1,
  notInjected: 0,
  overCap: undefined,
  warnings: [],
  updaters: "keeping",
  to: "new",
};

function rig(summary: Partial<GroupSummary> = {}) {
  const clock = { now: 1_000 };
  let summaries = 0;
  const summarize = () => {
    summaries += 1;
    return { ...LIVE, ...summary };
  };
  const cohorts = new Cohorts({ summarize, rules: { updaterMs: AGENT_MS }, now: () => clock.now });
  const facts = () => ({ classes: [], permitted: true, unrestartable: undefined });
  const join = (key: string, signature = "same"): Member => {
    const member: Member = { key, cohort: undefined, staleSince: 0, stalePeriod: 0 };
    cohorts.move(member, signature, facts);
    return member;
  };
  const codes = () =>
    Object.fromEntries(cohorts.counts(new Map()).decisions.map(({ code, workloads }) => [code, workloads]));
  return { clock, cohorts, join, codes, summaries: () => summaries };
}

test("a thousand workloads with equal pods are evaluated once, and once more per new map", () => {
  const { cohorts, join, summaries } = rig();
  for (let index = 0; index < 1_000; index++) join(`w${index}`);
  assert.equal(summaries(), 1);
  cohorts.outdate();
  for (const cohort of cohorts.outdated) cohorts.evaluate(cohort);
  assert.deepEqual([summaries(), cohorts.outdated.size], [2, 0]);
  const { workloads, pods, stale } = cohorts.counts(new Map());
  assert.deepEqual([workloads, pods, stale], [1_000, 2_000, 1_000]);
});

test("workloads whose agent is behind for too long are counted, each by its own time, until they leave", () => {
  const { clock, cohorts, join, codes } = rig();
  const first = join("first");
  clock.now += 10;
  const second = join("second");
  join("third");
  clock.now += AGENT_MS - 10;
  cohorts.expire();
  assert.deepEqual(codes(), { live: 2, "agent-behind": 1 });
  assert.deepEqual([standingOf(first, new Map()), standingOf(second, new Map())], ["stuck", "waiting"]);
  assert.equal(cohorts.nextDue, clock.now + 10);
  cohorts.remove(first);
  assert.deepEqual(codes(), { live: 2 });
  clock.now += 10;
  cohorts.expire();
  assert.deepEqual(codes(), { "agent-behind": 2 });
  cohorts.remove(second);
  assert.deepEqual(codes(), { "agent-behind": 1 });
});

test("workloads with individual decisions are counted by these decisions", () => {
  const { cohorts, join } = rig({ updaters: "silent" });
  for (const key of ["a", "b", "c"]) join(key);
  const decisions = new Map([
    ["a", { standing: "in-step", code: "same-names", text: "" } as const],
    ["b", { standing: "stuck", code: "paused", text: "" } as const],
  ]);
  const { stale, decisions: counted } = cohorts.counts(decisions);
  assert.equal(stale, 2);
  assert.deepEqual(counted, [
    { standing: "in-step", code: "same-names", workloads: 1 },
    { standing: "stuck", code: "paused", workloads: 1 },
    { standing: "waiting", code: "not-decided", workloads: 1 },
  ]);
});

test("a cohort ends when its last workload leaves", () => {
  const { cohorts, join } = rig();
  const [one, other] = [join("one"), join("other")];
  cohorts.remove(one);
  assert.equal([...cohorts.notable()].length, 0);
  cohorts.remove(other);
  cohorts.outdate();
  assert.equal(cohorts.outdated.size, 0);
  assert.deepEqual(cohorts.counts(new Map()), { workloads: 0, pods: 0, stale: 0, notInjected: 0, decisions: [] });
  assert.equal(cohorts.nextDue, Number.POSITIVE_INFINITY);
});
