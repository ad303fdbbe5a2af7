import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventRecord } from "#lib/kube/events.ts";
import { type PodFacts, podFacts } from "#lib/workloads/pods.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { observeFully } from "#test/fakes/observe-fully.ts";
import { RULES, RunningWorld, type Temper } from "#test/fakes/rollout-world.ts";
import { EventReporter } from "./event-reporter.ts";
import type { WorkloadGroup } from "./observe-workloads.ts";
import { checkWorkload, stuck } from "./restart-preconditions.ts";
import type { RolloutDecision } from "./workload-facts.ts";

const MINUTE_MS = 60_000;
const WEB = "shop/Deployment/web";

/** A reporter, and all its reports. */
function reporterRig() {
  const log = new LineLog();
  const reported = { events: [] as EventRecord[], lines: log.lines, counted: [] as string[] };
  const events = { record: (event: EventRecord) => void reported.events.push(event) };
  const count = (what: string) => () => void reported.counted.push(what);
  const counters = {
    restarted: count("restarted"),
    conflict: count("conflict"),
    forbidden: count("forbidden"),
    outcome: (outcome: string) => void reported.counted.push(outcome),
  };
  const reporter = new EventReporter({ events, log, counters });
  const report = (groups: readonly WorkloadGroup[], decisions: ReadonlyMap<string, RolloutDecision> = new Map()) => {
    const summaries = groups.map(
      (group) => [group.owner.key, { ...summary(group), stale: group.stale.length }] as const,
    );
    reporter.report(new Map(summaries), decisions, (key) => groups.find(({ owner }) => owner.key === key));
  };
  return { reported, reporter, report };
}

function summary({ onChange, pods, notInjected, overCap, warnings, observed: { updaters, to } }: WorkloadGroup) {
  return { onChange, pods, notInjected, overCap, warnings, updaters, to };
}

/** An opted-in pod of this owner that the webhook did not inject. */
function pod(name: string, apiVersion?: string, kind?: string, owner = ""): PodFacts {
  const ownerReferences =
    kind === undefined ? [] : [{ apiVersion: apiVersion ?? "", kind, name: owner, uid: "o", controller: true }];
  return podFacts({ metadata: { namespace: "shop", name, uid: `uid-of-${name}`, ownerReferences } });
}

/** The owners of these pods, as observed, and the decisions about them. */
function observe(pods: readonly PodFacts[], parts: { total?: number; world?: RunningWorld } = {}) {
  const { total = 1, world } = parts;
  const groups = observeFully({
    pods,
    namespaces: new Map([["shop", { inject: "enabled", onChange: undefined }]]),
    optIn: { excluded: new Set(), listed: new Set() },
    choose: () => ({ revision: "new", total, cap: 500 }),
    mapRevision: "map",
    fallback: "restart",
    isListed: () => true,
    parentOf: () => ({ kind: "Deployment", name: "web" }),
    stateOf: (key) => world?.observe().find((each) => each.key === key)?.state ?? "unknown",
    updaterOf: () => undefined,
    unfinished: [],
    onError: (what, error) => assert.fail(`${what}: ${error}`),
  });
  const decisions = new Map(groups.map((group) => [group.owner.key, decisionOf(group)]));
  return [groups, decisions] as const;
}

function decisionOf({ observed }: WorkloadGroup): RolloutDecision {
  const memory = { since: 0, changingSince: 0, staleSince: 0, diff: undefined, notBefore: 0, history: [] };
  return checkWorkload({ ...observed, ...memory }, RULES, 1) ?? assert.fail("no check applies to it");
}

const CANNOT = [
  ["a bare pod", pod("p"), "BarePod", "a pod without a controller"],
  ["a Job's pod", pod("p", "batch/v1", "Job", "j"), "Job", "a Job's pod"],
  ["a pod of an unknown owner", pod("p", "example.com/v1", "Robot", "r"), "UnknownOwner", "owned by a Robot"],
] as const;

for (const [what, of, reason, text] of CANNOT) {
  test(`${what} that cannot be updated gets one Event, however many runs there are`, () => {
    const { reported, report } = reporterRig();
    for (let turn = 0; turn < 5; turn++) report(...observe([of]));
    const [event, ...others] = reported.events;
    assert.deepEqual([others.length, event?.type, event?.reason], [0, "Warning", reason]);
    assert.match(event?.note ?? "", new RegExp(`^1 of 1 pods do not have the current public names: ${text}`));
    // Here the owner is not read, so its uid is unknown. `kubectl describe` finds Events by uid, so the Event is
    // about the pod.
    assert.deepEqual(event?.regarding, {
      apiVersion: "v1",
      kind: "Pod",
      namespace: "shop",
      name: "p",
      uid: "uid-of-p",
    });
    const code = { BarePod: "bare-pod", Job: "job", UnknownOwner: "unknown-owner" }[reason];
    const fields = { workload: observe([of])[0][0]?.owner.key, code, stale: 1 };
    assert.deepEqual(reported.lines, [{ level: "warn", fields, message: event?.note }]);
  });
}

const FAILED: ReadonlyArray<readonly [Temper, string, string]> = [
  ["stripped", "did-not-converge", "DidNotConverge"],
  ["stuck", "rollout-failed", "RolloutFailed"],
  ["owned", "reverted-by-owner", "RevertedByOwner"],
];

for (const [temper, code, reason] of FAILED) {
  test(`a restart that ends as ${code} causes one Event ${reason} about the workload`, async () => {
    const { reported, report } = reporterRig();
    const world = new RunningWorld();
    world.add(WEB, temper);
    world.publish("ab", temper !== "owned");
    world.askWebhooks = async () => ({ ok: true, text: "" });
    const [groups] = observe([pod("p", "apps/v1", "ReplicaSet", "web-1")], { world });
    for (let turn = 0; turn < 30; turn++) {
      await world.pass(MINUTE_MS / 2, 1_000);
      const step = await world.reconcile();
      report(groups, step?.decisions ?? new Map());
    }
    assert.equal(await world.codeOf(WEB), code);
    assert.deepEqual(
      reported.events.map((event) => [event.type, event.reason]),
      [["Warning", reason]],
    );
    const regarding = { apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name: "web", uid: WEB };
    assert.deepEqual(reported.events[0]?.regarding, regarding);
  });
}

test("a workload is reported again after being in step, with another reason, or after being recreated", () => {
  const { reported, report } = reporterRig();
  const [groups] = observe([pod("p")]);
  const reasons = () => reported.events.splice(0).map(({ reason }) => reason);
  const reportOne = (decision: RolloutDecision) => report(groups, new Map([["shop/Pod/p", decision]]));
  const bare = stuck("bare-pod", "a pod of its own");
  reportOne(bare);
  for (let turn = 0; turn < 3; turn++) reportOne({ standing: "in-step", code: "in-step", text: "" });
  assert.deepEqual(reasons(), ["BarePod"]);
  // Each change of state logs one line.
  const states = reported.lines.map(({ level, fields, message }) => [
    level,
    (fields as { code?: string }).code,
    message,
  ]);
  assert.deepEqual(states, [
    ["warn", "bare-pod", "1 of 1 pods do not have the current public names: a pod of its own"],
    ["info", "in-step", "the workload is no longer stuck"],
  ]);
  reportOne(bare);
  assert.deepEqual(reasons(), ["BarePod"]);
  reportOne(stuck("history-unreadable", ""));
  assert.deepEqual(reasons(), ["HistoryUnreadable"]);
  report([], new Map());
  reportOne(stuck("history-unreadable", ""));
  assert.deepEqual(reasons(), ["HistoryUnreadable"]);
});

test("a workload that waits, or whose on-change is none, gets no Event", () => {
  const { reported, report } = reporterRig();
  const [groups] = observe([pod("p")]);
  for (const standing of ["waiting", "left", "in-step"] as const) {
    report(groups, new Map([["shop/Pod/p", { standing, code: "any", text: "" }]]));
  }
  report(groups, new Map());
  assert.deepEqual([reported.events, reported.lines], [[], []]);
});

test("too many names for a pod cause one Event per number of names, even if all pods are in step", () => {
  const { reported, report } = reporterRig();
  const [groups] = observe([pod("p")], { total: 501 });
  const inStep = new Map([["shop/Pod/p", { standing: "in-step", code: "in-step", text: "" } as const]]);
  const notes = () => reported.events.splice(0).map(({ type, reason, note }) => `${type} ${reason}: ${note}`);
  for (let turn = 0; turn < 3; turn++) report(groups, inStep);
  const annotation = "select fewer with the annotation switchback.dev/hosts";
  assert.deepEqual(notes(), [`Warning OverCap: Pods get only the first 500 of 501 mapped names; ${annotation}`]);
  report(observe([pod("p")], { total: 502 })[0], inStep);
  assert.deepEqual(notes(), [`Warning OverCap: Pods get only the first 500 of 502 mapped names; ${annotation}`]);
  report(observe([pod("p")])[0], inStep);
  assert.deepEqual(notes(), []);
});

test("a restart is counted and is a Normal Event about the workload; its outcome is only counted", async () => {
  const { reported, reporter } = reporterRig();
  const world = new RunningWorld();
  world.add(WEB);
  const [[group]] = observe([pod("p", "apps/v1", "ReplicaSet", "web-1")], { world });
  const restart = { at: 0, from: ["old"], to: "new", uid: WEB, generation: 1 };
  reporter.reportEvent({ kind: "restarted", key: WEB, restart }, group);
  const event = {
    type: "Normal",
    reason: "Restarted",
    action: "Restart",
    note: "Restarted by Switchback: its pods did not have the current public names (new)",
    regarding: { apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name: "web", uid: WEB },
  };
  assert.deepEqual(reported.events, [event]);
  for (const outcome of ["done", "failed", "reverted"] as const)
    reporter.reportEvent({ kind: "outcome", key: WEB, outcome }, group);
  reporter.reportEvent({ kind: "conflict", key: WEB }, group);
  reporter.reportEvent({ kind: "forbidden", key: WEB }, group);
  assert.deepEqual(reported.counted, ["restarted", "done", "failed", "reverted", "conflict", "forbidden"]);
  assert.deepEqual(reported.events, [event]);
  assert.deepEqual(
    reported.lines.map(({ level, fields }) => [level, fields]),
    [
      ["info", { workload: WEB, from: ["old"], to: "new" }],
      ["info", { workload: WEB, outcome: "done" }],
      ["info", { workload: WEB, outcome: "failed" }],
      ["info", { workload: WEB, outcome: "reverted" }],
    ],
  );
});

test("an Event is about the workload if it was read, else about a stale pod, else about any pod", () => {
  const { reported, reporter } = reporterRig();
  const restart = { at: 0, from: ["old"], to: "new", uid: WEB, generation: 1 };
  const about = (group: WorkloadGroup | undefined) => {
    reporter.reportEvent({ kind: "restarted", key: WEB, restart }, group);
    return reported.events
      .splice(0)
      .map(({ regarding: { apiVersion, kind, name, uid } }) => [apiVersion, kind, name, uid]);
  };
  const [[group]] = observe([pod("a", "apps/v1", "ReplicaSet", "web-1"), pod("b", "apps/v1", "ReplicaSet", "web-1")]);
  assert.ok(group !== undefined);
  const [, b] = group.stale;
  assert.deepEqual(about(group), [["v1", "Pod", "a", "uid-of-a"]]);
  assert.deepEqual(about({ ...group, stale: [b!] }), [["v1", "Pod", "b", "uid-of-b"]]);
  assert.deepEqual(about({ ...group, stale: [] }), [["v1", "Pod", "a", "uid-of-a"]]);
  assert.deepEqual(about({ ...group, stale: [], first: undefined }), []);
  assert.deepEqual(about(undefined), []);
});
