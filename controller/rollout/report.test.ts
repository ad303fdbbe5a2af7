import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { EventRecord } from "#lib/kube/events.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { LineLog } from "#test/fakes/clock.ts";
import {
  addRolloutGauges,
  countWorkloads,
  Reporter,
  restartCounters,
  rolloutStatus,
  type WorkloadQuery,
  workloadQuery,
} from "./report.ts";
import { type Decision, inStep, newWorkload, stuck, type Workload, waiting } from "./workload.ts";

const STUCK = stuck("paused", "why");

/** A workload with two pods, of which `stale` are stale. */
function workload(
  key: string,
  decision: Decision,
  more: Partial<Workload> & { readonly staleCount?: number } = {},
): Workload {
  const { staleCount = 1, ...rest } = more;
  const [namespace = "", kind = "", name = ""] = key.split("/");
  const pods = ["a", "b"].map((pod) => podFacts({ metadata: { namespace, name: pod, uid: `uid-${pod}` } }));
  return {
    ...newWorkload({ namespace, kind, name, key, unrestartable: undefined }, true, "restart"),
    pods: new Map(pods.map((pod) => [`${namespace}/${pod.name}`, pod])),
    stale: pods.slice(0, staleCount),
    notInjected: 1,
    to: "new",
    decision,
    ...rest,
  };
}

const statusOf = (workloads: readonly Workload[], query: WorkloadQuery = {}) =>
  rolloutStatus(
    {
      unknown: undefined,
      dryRun: false,
      underWay: undefined,
      workloads: new Map(workloads.map((each) => [each.owner.key, each])),
      records: { count: (ms) => ms / 3_600_000 },
    },
    query,
  );

describe("the status", () => {
  test("has each workload with its decision, its last restart and its warnings", () => {
    const problem = { code: "on-change-invalid", text: "" };
    const one = workload("shop/Deployment/web", STUCK, {
      onChange: { mode: "none", from: "pod", problems: [problem] },
      overCap: { total: 9, cap: 5 },
    });
    const at = "2026-01-01T00:00:00.000Z";
    const [key, pod] = [...one.pods][0] ?? [];
    assert.ok(key && pod);
    one.pods.set(key, { ...pod, restartedAt: at });
    one.pods.set("shop/b", { ...pod, restartedAt: "\u001b[31m" });
    const { workloads, restartsLastHour, restartsToday, ...rest } = statusOf([one]);
    assert.deepEqual(workloads, [
      {
        namespace: "shop",
        kind: "Deployment",
        name: "web",
        pods: 2,
        stale: 1,
        notInjected: 1,
        mode: "none",
        modeFrom: "pod",
        standing: "stuck",
        code: "paused",
        text: "why",
        lastRestart: at,
        warnings: [problem, { code: "over-cap", text: "its pods get only the first 5 of 9 mapped names" }],
      },
    ]);
    assert.deepEqual(
      [restartsLastHour, restartsToday, rest.waiting, rest.omitted, rest.next],
      [1, 24, 0, 0, undefined],
    );
  });

  test("counts all workloads, whatever the query selects; one with all lines is not stale", () => {
    const all = [
      workload("a/Deployment/x", STUCK),
      workload("a/Deployment/y", waiting("its-turn", "")),
      workload("b/Deployment/x", waiting("live", "")),
      workload("b/Deployment/y", inStep("")),
    ];
    const { counts, waiting: count, workloads } = statusOf(all, { namespace: "a", stuck: true });
    assert.deepEqual(
      workloads.map(({ namespace, name }) => `${namespace}/${name}`),
      ["a/x"],
    );
    assert.deepEqual([counts.workloads, counts.pods, counts.stale, counts.notInjected, count], [4, 8, 3, 4, 1]);
    assert.deepEqual(
      counts.decisions.map(({ standing, code, workloads: number }) => [standing, code, number]),
      [
        ["stuck", "paused", 1],
        ["waiting", "its-turn", 1],
        ["waiting", "live", 1],
        ["in-step", "in-step", 1],
      ],
    );
  });

  test("has at most 1,000 workloads: the most urgent ones, or one page of all", () => {
    const decisions = [inStep(""), STUCK, waiting("its-turn", "")];
    const all = Array.from({ length: 2_500 }, (_, index) =>
      workload(`ns/Deployment/w-${String(index).padStart(4, "0")}`, decisions[index % 3] ?? STUCK),
    );
    const urgent = statusOf(all);
    const count = (code: string) => urgent.workloads.filter((each) => each.code === code).length;
    assert.deepEqual([urgent.omitted, count("paused"), count("its-turn"), count("in-step")], [1_500, 833, 167, 0]);
    const names: string[] = [];
    for (let after: string | undefined = "/"; after !== undefined; ) {
      const page = statusOf(all, { after });
      names.push(...page.workloads.map(({ name }) => name));
      after = page.next;
    }
    assert.deepEqual(
      names,
      all.map(({ owner }) => owner.name),
    );
  });

  test("reads its query from a request", () => {
    assert.deepEqual(workloadQuery(new URLSearchParams("in=shop&stuck=true&after=a")), {
      namespace: "shop",
      stuck: true,
      after: "a",
    });
    assert.deepEqual(workloadQuery(new URLSearchParams("")), { namespace: undefined, stuck: false, after: undefined });
  });
});

test("the metrics have the counts while they are known, and the counters of restarts", () => {
  const registry = new MetricsRegistry();
  let isKnown = false;
  const counts = { ...countWorkloads([workload("a/Deployment/x", waiting("its-turn", ""))]), agents: { alive: 2 } };
  addRolloutGauges(registry, () => (isKnown ? counts : undefined));
  const counters = restartCounters(registry);
  assert.doesNotMatch(registry.metrics(), /opted_in_pods\{/);
  isKnown = true;
  for (const count of Object.values(counters)) count();
  const lines = registry
    .metrics()
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  assert.deepEqual(lines.sort(), [
    'switchback_controller_agents{state="alive"} 2',
    'switchback_controller_opted_in_pods{state="all"} 2',
    'switchback_controller_opted_in_pods{state="not-injected"} 1',
    'switchback_controller_opted_in_pods{state="stale"} 1',
    "switchback_controller_restart_conflicts_total 1",
    "switchback_controller_restarts_refused_total 1",
    "switchback_controller_restarts_total 1",
    "switchback_controller_restarts_waiting 1",
    "switchback_controller_rollout_failures_total 1",
    'switchback_controller_workloads{standing="waiting",code="its-turn"} 1',
  ]);
});

describe("an Event and a log line", () => {
  function reporter() {
    const events: EventRecord[] = [];
    const log = new LineLog();
    const nothing = () => {};
    const counters = { restarted: nothing, conflict: nothing, forbidden: nothing, failed: nothing };
    const subject = new Reporter({ events: { record: (event) => void events.push(event) }, log, counters });
    return { subject, log, reasons: () => events.splice(0).map(({ reason }) => reason) };
  }

  test("report a workload that is stuck once, again for another reason, and that it no longer is", () => {
    const { subject, log, reasons } = reporter();
    const one = workload("shop/Deployment/web", STUCK);
    for (let times = 0; times < 3; times += 1) subject.report(one);
    assert.deepEqual(reasons(), ["Paused"]);
    one.decision = stuck("on-delete", "");
    subject.report(one);
    assert.deepEqual(reasons(), ["OnDelete"]);
    one.decision = waiting("its-turn", "");
    subject.report(one);
    subject.report(one);
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ["warn", "warn", "info"],
    );
    assert.deepEqual(reasons(), []);
  });

  test("report pods that cannot have every name, and forget a workload that is gone", () => {
    const { subject, reasons } = reporter();
    const one = workload("shop/Deployment/web", inStep(""), { overCap: { total: 9, cap: 5 } });
    subject.report(one);
    subject.report(one);
    assert.deepEqual(reasons(), ["OverCap"]);
    subject.report({ ...one, pods: new Map() });
    subject.report(one);
    assert.deepEqual(reasons(), ["OverCap"]);
  });

  test("are limited to 500 workloads at once", () => {
    const { subject, reasons } = reporter();
    const all = Array.from({ length: 501 }, (_, index) => workload(`shop/Deployment/w-${index}`, STUCK));
    for (const each of all) subject.report(each);
    assert.equal(reasons().length, 500);
    const [first] = all;
    assert.ok(first);
    subject.report({ ...first, decision: inStep("") });
    for (const each of all.slice(1)) subject.report(each);
    assert.equal(reasons().length, 1);
  });
});
