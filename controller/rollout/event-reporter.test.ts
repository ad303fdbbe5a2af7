import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventRecord } from "../../kube/events.ts";
import { RULES, RunningWorld, type Temper } from "../../test/fakes/running-world.ts";
import { type PodFacts, podFacts } from "../../workloads/pods.ts";
import { EventReporter } from "./event-reporter.ts";
import { observeWorkloads, type WorkloadGroup } from "./observe-workloads.ts";
import { checkWorkload, stuck } from "./restart-checks.ts";
import type { RolloutVerdict } from "./workload-facts.ts";

const MINUTE_MS = 60_000;
const WEB = "shop/Deployment/web";

/** A teller, and everything it said. */
function teller() {
  const said = { events: [] as EventRecord[], lines: [] as string[], counted: [] as string[] };
  const line = (_fields: object, text: string) => void said.lines.push(text);
  const stats = { sent: 0, repeated: 0, dropped: 0, failed: 0 };
  const events = { record: (event: EventRecord) => void said.events.push(event), stats, flush: async () => {} };
  const count = (what: string) => () => void said.counted.push(what);
  const counters = {
    restarted: count("restarted"),
    conflict: count("conflict"),
    forbidden: count("forbidden"),
    outcome: (outcome: string) => void said.counted.push(outcome),
  };
  const log = { debug: line, info: line, warn: line, error: line };
  return { said, tell: new EventReporter({ events, log, counters }) };
}

/** An opted-in pod that the webhook never saw, of this owner. */
function pod(name: string, apiVersion?: string, kind?: string, owner = ""): PodFacts {
  const ownerReferences =
    kind === undefined ? [] : [{ apiVersion: apiVersion ?? "", kind, name: owner, uid: "o", controller: true }];
  return podFacts({ metadata: { namespace: "shop", name, uid: `uid-of-${name}`, ownerReferences } });
}

/** Their owners as they are observed and judged. */
function seen(pods: readonly PodFacts[], parts: { total?: number; world?: RunningWorld } = {}) {
  const { total = 1, world } = parts;
  const groups = observeWorkloads({
    pods,
    namespaces: new Map([["shop", { inject: "enabled", onChange: undefined }]]),
    excludedNamespaces: new Set(),
    choose: () => ({ revision: "new", total, cap: 500 }),
    mapRevision: "map",
    fallback: "restart",
    isListed: () => true,
    parentOf: () => ({ kind: "Deployment", name: "web" }),
    stateOf: (key) => world?.observe().find((each) => each.key === key)?.state ?? "unknown",
    agentOf: () => undefined,
    unfinished: [],
  });
  const verdicts = new Map(groups.map((group) => [group.owner.key, verdictOf(group)]));
  return [groups, verdicts] as const;
}

function verdictOf({ observed }: WorkloadGroup): RolloutVerdict {
  const memory = { since: 0, changingSince: 0, staleSince: 0, diff: undefined, notBefore: 0, history: [] };
  return checkWorkload({ ...observed, ...memory }, RULES, 1) ?? assert.fail("nothing stands against it");
}

const CANNOT = [
  ["a bare pod", pod("p"), "BarePod", "a pod without a controller"],
  ["a Job's pod", pod("p", "batch/v1", "Job", "j"), "Job", "a Job's pod"],
  ["a pod of an unknown owner", pod("p", "example.com/v1", "Robot", "r"), "UnknownOwner", "owned by a Robot"],
] as const;

for (const [what, of, reason, text] of CANNOT) {
  test(`${what} that cannot follow gets one Event, however many turns there are`, () => {
    const { said, tell } = teller();
    for (let turn = 0; turn < 5; turn++) tell.report(...seen([of]));
    const [event, ...others] = said.events;
    assert.deepEqual([others.length, event?.type, event?.reason], [0, "Warning", reason]);
    assert.match(event?.note ?? "", new RegExp(`^1 of 1 pods have not the current public names: ${text}`));
    // An owner that is not read has no uid here, and `kubectl describe` finds Events by uid.
    assert.deepEqual(event?.regarding, {
      apiVersion: "v1",
      kind: "Pod",
      namespace: "shop",
      name: "p",
      uid: "uid-of-p",
    });
    assert.equal(said.lines.length, 1);
  });
}

const FAILED: ReadonlyArray<readonly [Temper, string, string]> = [
  ["stripped", "did-not-converge", "DidNotConverge"],
  ["stuck", "rollout-failed", "RolloutFailed"],
  ["owned", "reverted-by-owner", "RevertedByOwner"],
];

for (const [temper, code, reason] of FAILED) {
  test(`a restart that ends as ${code} is one Event ${reason}, about the workload`, async () => {
    const { said, tell } = teller();
    const world = new RunningWorld();
    world.add(WEB, temper);
    world.publish("ab", temper !== "owned");
    world.askWebhooks = async () => ({ ok: true, text: "" });
    const [groups] = seen([pod("p", "apps/v1", "ReplicaSet", "web-1")], { world });
    for (let turn = 0; turn < 30; turn++) {
      await world.pass(MINUTE_MS / 2, 1_000);
      const decision = await world.turn();
      tell.report(groups, decision?.verdicts ?? new Map());
    }
    assert.equal(await world.codeOf(WEB), code);
    assert.deepEqual(
      said.events.map((event) => [event.type, event.reason]),
      [["Warning", reason]],
    );
    const regarding = { apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name: "web", uid: WEB };
    assert.deepEqual(said.events[0]?.regarding, regarding);
  });
}

test("what was in step in between, has another reason, or is a new one of the same name is told again", () => {
  const { said, tell } = teller();
  const [groups] = seen([pod("p")]);
  const reasons = () => said.events.splice(0).map(({ reason }) => reason);
  const report = (verdict: RolloutVerdict) => tell.report(groups, new Map([["shop/Pod/p", verdict]]));
  const bare = stuck("bare-pod", "a pod of its own");
  report(bare);
  report({ standing: "in-step", code: "in-step", text: "" });
  assert.deepEqual(reasons(), ["BarePod"]);
  report(bare);
  assert.deepEqual(reasons(), ["BarePod"]);
  report(stuck("history-unreadable", ""));
  assert.deepEqual(reasons(), ["HistoryUnreadable"]);
  tell.report([], new Map());
  report(stuck("history-unreadable", ""));
  assert.deepEqual(reasons(), ["HistoryUnreadable"]);
});

test("what only waits, or is left alone as its owner wants, gets none", () => {
  const { said, tell } = teller();
  const [groups] = seen([pod("p")]);
  for (const standing of ["waiting", "left", "in-step"] as const) {
    tell.report(groups, new Map([["shop/Pod/p", { standing, code: "any", text: "" }]]));
  }
  tell.report(groups, new Map());
  assert.deepEqual([said.events, said.lines], [[], []]);
});

test("more names than a pod may have: one Event for each number of them, also where all are in step", () => {
  const { said, tell } = teller();
  const [groups] = seen([pod("p")], { total: 501 });
  const inStep = new Map([["shop/Pod/p", { standing: "in-step", code: "in-step", text: "" } as const]]);
  const notes = () => said.events.splice(0).map(({ reason, note }) => `${reason}: ${note}`);
  for (let turn = 0; turn < 3; turn++) tell.report(groups, inStep);
  const annotation = "choose fewer with the annotation switchback.dev/hosts";
  assert.deepEqual(notes(), [`OverCap: only the first 500 of 501 mapped names are in its pods; ${annotation}`]);
  tell.report(seen([pod("p")], { total: 502 })[0], inStep);
  assert.deepEqual(notes(), [`OverCap: only the first 500 of 502 mapped names are in its pods; ${annotation}`]);
  tell.report(seen([pod("p")])[0], inStep);
  assert.deepEqual(notes(), []);
});

test("a restart is a Normal Event about the workload and is counted; so is how it ended, without an Event", async () => {
  const { said, tell } = teller();
  const world = new RunningWorld();
  world.add(WEB);
  const [[group]] = seen([pod("p", "apps/v1", "ReplicaSet", "web-1")], { world });
  const restart = { at: 0, from: ["old"], to: "new", uid: WEB, generation: 1 };
  tell.did({ kind: "restarted", key: WEB, restart }, group);
  assert.deepEqual(
    said.events.map(({ type, reason, regarding: { kind, name } }) => [type, reason, kind, name]),
    [["Normal", "Restarted", "Deployment", "web"]],
  );
  for (const outcome of ["done", "failed", "reverted"] as const)
    tell.did({ kind: "outcome", key: WEB, outcome }, group);
  tell.did({ kind: "conflict", key: WEB }, group);
  tell.did({ kind: "forbidden", key: WEB }, group);
  assert.deepEqual(said.counted, ["restarted", "done", "failed", "reverted", "conflict", "forbidden"]);
  assert.equal(said.events.length, 1);
});
