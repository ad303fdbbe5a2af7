import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { EventRecord } from "#lib/kube/events.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { addRestartMetrics, reportStuck, rolloutStatus } from "./report.ts";
import { type Decision, ITS_TURN, stuck, Workload } from "./workload.ts";

const STUCK = stuck("not-restartable", "why");
const IN_STEP: Decision = { standing: "in-step", code: "in-step", text: "" };

/** A workload with two pods, of which the first is stale. */
function workload(key: string, decision: Decision, more: Partial<Workload> = {}): Workload {
  const [namespace = "", kind = "", name = ""] = key.split("/");
  const pods = ["a", "b"].map((pod) => podFacts({ metadata: { namespace, name: pod, uid: `uid-${pod}` } }));
  return {
    ...new Workload({ namespace, kind, name, key, unrestartable: undefined }, true),
    pods,
    stale: pods.slice(0, 1),
    decision,
    ...more,
  };
}

const byKey = (...all: readonly Workload[]) => new Map(all.map((each) => [each.owner.key, each]));

const statusOf = (workloads: readonly Workload[], namespace?: string) =>
  rolloutStatus({ unknown: undefined, underWay: "b/Deployment/z", workloads: byKey(...workloads) }, namespace);

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
      underWay: "b/Deployment/z",
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
          notInjected: 2,
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

  test("counts all workloads, also of other namespaces; one with all lines is not stale", () => {
    const all = [
      workload("a/Deployment/x", ITS_TURN),
      workload("a/Deployment/y", STUCK),
      workload("b/Deployment/y", IN_STEP),
      workload("b/Deployment/z", ITS_TURN),
    ];
    const { counts, waiting, workloads } = statusOf(all, "a");
    assert.deepEqual(
      workloads.map(({ namespace, name }) => `${namespace}/${name}`),
      ["a/y", "a/x"],
    );
    assert.deepEqual([counts, waiting], [{ workloads: 4, pods: 8, stale: 3 }, 2]);
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
});

test("the metrics have the counts while they are known, and the counters of restarts", () => {
  const registry = new MetricsRegistry();
  const pods = {
    unknown: "no map yet" as string | undefined,
    workloads: byKey(workload("a/Deployment/x", ITS_TURN)),
  };
  const counters = addRestartMetrics(registry, () => pods);
  assert.doesNotMatch(registry.metrics(), /opted_in_pods\{/);
  pods.unknown = undefined;
  for (const count of Object.values(counters)) count.inc();
  const lines = registry
    .metrics()
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  assert.deepEqual(lines.sort(), [
    'switchback_controller_opted_in_pods{state="all"} 2',
    'switchback_controller_opted_in_pods{state="stale"} 1',
    "switchback_controller_restarts_total 1",
    "switchback_controller_rollout_failures_total 1",
    'switchback_controller_workloads{standing="waiting",code="delayed"} 1',
  ]);
});

test("an Event reports a workload that is stuck once until it is in step, and again for another reason", () => {
  const subject = workload("shop/Deployment/web", STUCK);
  const seen = [STUCK, STUCK, ITS_TURN, STUCK, stuck("rollout-failed", ""), IN_STEP, STUCK].map((decision) => {
    const events: EventRecord[] = [];
    subject.decision = decision;
    reportStuck(subject, { record: (event) => void events.push(event) });
    return events.map(({ reason, regarding }) => `${reason} ${regarding.kind} ${regarding.uid}`);
  });
  const one = ["NotRestartable Pod uid-a"];
  assert.deepEqual(seen, [one, [], [], [], ["RolloutFailed Pod uid-a"], [], one]);
});
