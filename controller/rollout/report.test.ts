import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { EventRecord } from "#lib/kube/events.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { LineLog } from "#test/fakes/clock.ts";
import {
  addRolloutGauges,
  Reporter,
  restartCounters,
  rolloutStatus,
  type WorkloadQuery,
  workloadQuery,
} from "./report.ts";
import { type Decision, ITS_TURN, newWorkload, stuck, type Workload } from "./workload.ts";

const STUCK = stuck("not-restartable", "why");
const IN_STEP: Decision = { standing: "in-step", code: "in-step", text: "" };

/** A workload with two pods, of which the first is stale. */
function workload(key: string, decision: Decision, more: Partial<Workload> = {}): Workload {
  const [namespace = "", kind = "", name = ""] = key.split("/");
  const pods = ["a", "b"].map((pod) => podFacts({ metadata: { namespace, name: pod, uid: `uid-${pod}` } }));
  return {
    ...newWorkload({ namespace, kind, name, key, unrestartable: undefined }, true),
    pods,
    stale: pods.slice(0, 1),
    notInjected: 1,
    decision,
    ...more,
  };
}

const byKey = (...all: readonly Workload[]) => new Map(all.map((each) => [each.owner.key, each]));

const statusOf = (workloads: readonly Workload[], query: WorkloadQuery = {}) => {
  const input = { unknown: undefined, dryRun: false, underWay: undefined, restartsLastHour: 1 };
  return rolloutStatus({ ...input, workloads: byKey(...workloads) }, query);
};

describe("the status", () => {
  test("has each workload with its decision, its last restart and its warnings", () => {
    const problem = { code: "on-change-invalid", text: "" };
    const one = workload("shop/Deployment/web", STUCK, {
      onChange: { mode: "none", from: "pod", problems: [problem] },
    });
    const at = "2026-01-01T00:00:00.000Z";
    one.pods = one.pods.map((pod, index) => ({ ...pod, restartedAt: index === 0 ? at : "\u001b[31m" }));
    assert.deepEqual(statusOf([one]), {
      unknown: undefined,
      dryRun: false,
      underWay: undefined,
      restartsLastHour: 1,
      waiting: 0,
      counts: { workloads: 1, pods: 2, stale: 1 },
      omitted: 0,
      workloads: [
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
          code: "not-restartable",
          text: "why",
          lastRestart: at,
          warnings: [problem],
        },
      ],
    });
  });

  test("counts all workloads, whatever the query selects; one with all lines is not stale", () => {
    const all = [
      workload("a/Deployment/x", STUCK),
      workload("a/Deployment/y", ITS_TURN),
      workload("b/Deployment/y", IN_STEP),
    ];
    const { counts, waiting, workloads } = statusOf(all, { namespace: "a", stuck: true });
    assert.deepEqual(
      workloads.map(({ namespace, name }) => `${namespace}/${name}`),
      ["a/x"],
    );
    assert.deepEqual([counts, waiting], [{ workloads: 3, pods: 6, stale: 2 }, 1]);
  });

  test("has at most 5,000 workloads: the most urgent ones", () => {
    const decisions = [IN_STEP, STUCK, ITS_TURN];
    const all = Array.from({ length: 9_000 }, (_, index) =>
      workload(`ns/Deployment/w-${index}`, decisions[index % 3] ?? STUCK),
    );
    const { omitted, workloads } = statusOf(all);
    const count = (standing: string) => workloads.filter((each) => each.standing === standing).length;
    assert.deepEqual([omitted, count("stuck"), count("waiting"), count("in-step")], [4_000, 3_000, 2_000, 0]);
  });

  test("reads its query from a request", () => {
    const query = (text: string) => workloadQuery(new URLSearchParams(text));
    assert.deepEqual(query("in=shop&stuck=true"), { namespace: "shop", stuck: true });
    assert.deepEqual(query(""), { namespace: undefined, stuck: false });
  });
});

test("the metrics have the counts while they are known, and the counters of restarts", () => {
  const registry = new MetricsRegistry();
  let isKnown = false;
  const known = { workloads: [workload("a/Deployment/x", ITS_TURN)], agents: { alive: 2 } };
  addRolloutGauges(registry, () => (isKnown ? known : undefined));
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
    'switchback_controller_opted_in_pods{state="stale"} 1',
    "switchback_controller_restarts_total 1",
    "switchback_controller_rollout_failures_total 1",
    'switchback_controller_workloads{standing="waiting",code="its-turn"} 1',
  ]);
});

describe("an Event and a log line", () => {
  function reporter() {
    const events: EventRecord[] = [];
    const counters = { restarted: () => {}, failed: () => {} };
    const record = (event: EventRecord) => void events.push(event);
    const subject = new Reporter({ events: { record }, log: new LineLog(), counters });
    return { subject, reasons: () => events.splice(0).map(({ reason }) => reason) };
  }

  test("report a workload that is stuck once until it is in step, and again for another reason", () => {
    const { subject, reasons } = reporter();
    const seen: string[][] = [];
    for (const decision of [STUCK, STUCK, ITS_TURN, STUCK, stuck("rollout-failed", ""), IN_STEP, STUCK]) {
      subject.report(byKey(workload("shop/Deployment/web", decision)));
      seen.push(reasons());
    }
    subject.report(new Map());
    subject.report(byKey(workload("shop/Deployment/web", STUCK)));
    seen.push(reasons());
    const one = ["NotRestartable"];
    assert.deepEqual(seen, [one, [], [], [], ["RolloutFailed"], [], one, one]);
  });

  test("are limited to 500 workloads at once", () => {
    const { subject, reasons } = reporter();
    const all = Array.from({ length: 501 }, (_, index) => workload(`shop/Deployment/w-${index}`, STUCK));
    subject.report(byKey(...all));
    assert.equal(reasons().length, 500);
    subject.report(byKey(...all.slice(1)));
    assert.equal(reasons().length, 1);
  });
});
