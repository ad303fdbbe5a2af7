import assert from "node:assert/strict";
import { test } from "node:test";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import type { ReplicaSetOwner } from "#lib/workloads/owners.ts";
import { type PodFacts, podFacts } from "#lib/workloads/pods.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import { observeFully } from "#test/fakes/observe-fully.ts";
import { RULES } from "#test/fakes/rollout-world.ts";
import { restart, state as rolledOut } from "#test/fakes/workload-facts.ts";
import { fc } from "#test/property.ts";
import type { ClusterView, WorkloadGroup } from "./observe-workloads.ts";
import type { UpdaterState } from "./pod-updater.ts";
import type { ObservedWorkload } from "./reconciler.ts";
import { decideRollout, type RolloutStep } from "./restart-decision.ts";
import type { History } from "./restart-history.ts";
import { WorkloadIndex } from "./workload-index.ts";

// After any changes in any order, the index decides the same as an evaluation of all pods.

const START = 1_700_000_000_000;
const LONG = "long.example.com,".repeat(20);
const NAMESPACES = ["may", "not", "excluded"];
const NODES = ["n1", "n2"];

type Step =
  | { readonly do: "pod"; readonly key: string; readonly facts: PodFacts | undefined }
  | { readonly do: "namespace"; readonly name: string; readonly facts: NamespaceFacts }
  | { readonly do: "map"; readonly revision: string; readonly total: number }
  | { readonly do: "agent"; readonly node: string; readonly agent: UpdaterState | undefined }
  | { readonly do: "state"; readonly key: string; readonly state: WorkloadState | undefined }
  | { readonly do: "replicaSet"; readonly name: string; readonly owner: ReplicaSetOwner }
  | { readonly do: "history"; readonly key: string; readonly history: History }
  | { readonly do: "patch"; readonly key: string }
  | { readonly do: "pass"; readonly ms: number };

const word = (...words: ReadonlyArray<string | undefined>) => fc.constantFrom(...words);
const WORKLOADS = ["may/Deployment/d", "may/StatefulSet/s", "not/Deployment/d", "may/Deployment/e"];

// Each owner determines the on-change annotation of its pods. If the pods of a workload had different ones, the first
// pod would decide, and the comparison ignores the order of pods.
const OWNERS = [
  { of: { apiVersion: "apps/v1", kind: "ReplicaSet", name: "r1" }, onChange: undefined },
  { of: { apiVersion: "apps/v1", kind: "ReplicaSet", name: "r2" }, onChange: undefined },
  { of: { apiVersion: "apps/v1", kind: "StatefulSet", name: "s" }, onChange: "live" },
  { of: { apiVersion: "batch/v1", kind: "Job", name: "j" }, onChange: "wrong" },
  { of: { apiVersion: "x/v1", kind: "Robot", name: "r" }, onChange: "none" },
  { of: undefined, onChange: undefined },
] as const;
const MOSTLY = OWNERS.slice(0, 3);

const pods: fc.Arbitrary<Step> = fc
  .record({
    namespace: fc.constantFrom("may", "may", ...NAMESPACES),
    name: fc.constantFrom("a", "b", "c", "d", "e", "f"),
    owner: fc.constantFrom(...OWNERS, ...MOSTLY, ...MOSTLY),
    hosts: word(...Array(6), "one", LONG, `${LONG}two`),
    revision: word("1", "1", "2", "2", "1-one", undefined),
    inject: word(undefined, undefined, undefined, undefined, "enabled", "disabled"),
    node: word(undefined, ...NODES, ...NODES),
    restartedAt: word(undefined, new Date(START - 60_000).toISOString()),
    terminating: fc.integer({ max: 9, min: 0 }).map((n) => n === 0),
    gone: fc.integer({ max: 3, min: 0 }).map((n) => n === 0),
  })
  .map(({ gone, owner, ...facts }) => {
    const key = `${facts.namespace}/${facts.name}`;
    const { of, onChange } = owner;
    const pod = { ...podFacts({}), ...facts, uid: key, owner: of, onChange };
    return { do: "pod", key, facts: gone ? undefined : pod };
  });

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: pods },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("namespace" as const),
      name: fc.constantFrom(...NAMESPACES),
      facts: fc.record({
        inject: word("enabled", "enabled", undefined),
        onChange: word(undefined, undefined, "live", "live", "none"),
      }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("map" as const),
      revision: fc.constantFrom("1", "2"),
      total: fc.constantFrom(1, 1, 1, 501),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("agent" as const),
      node: fc.constantFrom(...NODES),
      agent: fc.option(
        fc.record({
          alive: fc.constantFrom(true, true, true, false),
          mapRevision: word("1", "2"),
          podRevisions: fc.constantFrom(undefined, ["1"], ["1", "1-one"], ["2"]),
        }),
        {
          nil: undefined,
        },
      ) as fc.Arbitrary<UpdaterState | undefined>,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("state" as const),
      key: fc.constantFrom(...WORKLOADS),
      state: fc.constantFrom(
        undefined,
        rolledOut,
        { ...rolledOut, onChange: "live" },
        { ...rolledOut, onChange: "none", generation: 2 },
        { ...rolledOut, unsettled: "0 of 1" },
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("replicaSet" as const),
      name: fc.constantFrom("r1", "r2"),
      owner: fc.constantFrom<ReplicaSetOwner[]>("none", ...["d", "e"].map((name) => ({ kind: "Deployment", name }))),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("history" as const),
      key: fc.constantFrom(...WORKLOADS),
      history: fc.constantFrom<History[]>(
        [],
        [restart(START - 60_000)],
        [restart(START, { outcome: undefined })],
        [restart(START - 60_000, { outcome: "failed" })],
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("patch" as const), key: fc.constantFrom(...WORKLOADS) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("pass" as const), ms: fc.constantFrom(1, 5_000, RULES.updaterMs / 2) }),
  },
);

/** The cluster, the index that receives each change, and the state that a full decision needs. */
class Cluster {
  readonly pods = new Map<string, PodFacts>();
  readonly namespaces = new Map<string, NamespaceFacts>();
  readonly agents = new Map<string, UpdaterState>();
  readonly states = new Map<string, WorkloadState>();
  readonly replicaSets = new Map<string, ReplicaSetOwner>();
  readonly histories = new Map<string, History>();
  readonly staleSince = new Map<string, number>();
  map = { revision: "1", total: 1 };
  now = START;
  readonly view: ClusterView;
  readonly index: WorkloadIndex;

  constructor() {
    const cluster = this;
    this.view = {
      namespaces: this.namespaces,
      optIn: { excluded: new Set(["excluded"]), listed: new Set(["listed"]) },
      choose: (hosts) => {
        const { revision, total } = this.map;
        return { revision: hosts === undefined ? revision : `${revision}-${hosts}`, total, cap: 500 };
      },
      get mapRevision() {
        return cluster.map.revision;
      },
      fallback: "restart",
      isListed: (namespace) => namespace === "may",
      parentOf: (_namespace, name) => this.replicaSets.get(name),
      stateOf: (key) => this.states.get(key) ?? "unknown",
      updaterOf: ({ node }) => (node === undefined ? "unknown" : this.agents.get(node)),
      onError: (what, error) => assert.fail(`${what}: ${error}`),
    };
    this.index = new WorkloadIndex({ view: this.view, pods: () => this.pods, rules: RULES, now: () => this.now });
  }

  take(step: Step): void {
    const { index } = this;
    if (step.do === "pod") {
      const before = this.pods.get(step.key);
      if (step.facts === undefined) this.pods.delete(step.key);
      else this.pods.set(step.key, step.facts);
      index.changePod({ key: step.key, ...(before && { before }), ...(step.facts && { after: step.facts }) });
    } else if (step.do === "namespace") {
      const before = this.namespaces.get(step.name);
      this.namespaces.set(step.name, step.facts);
      index.changeNamespace({ key: step.name, ...(before && { before }), after: step.facts });
    } else if (step.do === "map") {
      this.map = step;
      index.changeMap();
    } else if (step.do === "agent") {
      if (step.agent === undefined) this.agents.delete(step.node);
      else this.agents.set(step.node, step.agent);
      index.changeUpdaters();
    } else if (step.do === "state") {
      if (step.state === undefined) this.states.delete(step.key);
      else this.states.set(step.key, step.state);
      index.changeWorkload({ namespace: step.key.split("/")[0] ?? "", key: step.key });
    } else if (step.do === "replicaSet") {
      this.replicaSets.set(step.name, step.owner);
      for (const namespace of NAMESPACES)
        index.changeWorkload({ namespace, key: `${namespace}/ReplicaSet/${step.name}` });
    } else if (step.do === "history") this.histories.set(step.key, step.history);
    else if (step.do === "pass") this.now += step.ms;
    else {
      // The result of a patch is known before the watch reports it.
      const patched = this.states.get(step.key);
      if (patched !== undefined) this.states.set(step.key, { ...patched, generation: patched.generation + 1 });
    }
  }

  /** Evaluates all pods from scratch. */
  fully(): { readonly groups: readonly WorkloadGroup[]; readonly step: RolloutStep } {
    const unfinished = [...this.histories].flatMap(([key, [last]]) => (last && !last.outcome ? [key] : []));
    const groups = observeFully({ ...this.view, mapRevision: this.map.revision, pods: this.pods.values(), unfinished });
    const stale = new Set(groups.flatMap(({ owner, stale: some }) => (some.length > 0 ? [owner.key] : [])));
    for (const key of this.staleSince.keys()) if (!stale.has(key)) this.staleSince.delete(key);
    for (const key of stale) if (!this.staleSince.has(key)) this.staleSince.set(key, this.now);
    return { groups, step: this.decide(groups.map(({ observed }) => observed)) };
  }

  decide(observed: readonly ObservedWorkload[]): RolloutStep {
    const workloads = observed.map((workload) => ({
      ...workload,
      since: 0,
      changingSince: 0,
      staleSince: this.staleSince.get(workload.key) ?? this.now,
      diff: { missing: 1, extra: 0 },
      notBefore: 0,
      history: this.histories.get(workload.key) ?? [],
    }));
    return decideRollout({ now: this.now, rules: RULES, workloads, webhooks: { ok: true, text: "" } });
  }

  /** Workloads with a record, if the restart is unfinished or the workload has pods. */
  *restarted(): Iterable<string> {
    for (const [key, [last]] of this.histories) if (last && (!last.outcome || this.index.has(key))) yield key;
  }
}

const byName = (pods: readonly PodFacts[]) => pods.map(({ name }) => name).sort();
/** The group without the order of its pods. */
function comparable(group: WorkloadGroup | undefined) {
  if (group === undefined) return undefined;
  const { observed, stale, first: _first, ...rest } = group;
  return { ...rest, stale: byName(stale), observed: withoutOrder(observed) };
}

function withoutOrder(observed: ObservedWorkload) {
  return { ...observed, stale: observed.stale.map((each) => JSON.stringify(each)).sort() };
}

async function check(cluster: Cluster): Promise<void> {
  const { index } = cluster;
  const { groups, step } = cluster.fully();
  await index.refresh();
  const withPods = groups.filter(({ pods }) => pods > 0);
  const observed = index.observe(cluster.restarted());
  const decided = cluster.decide(observed);
  const expected = new Map(groups.map((group) => [group.owner.key, comparable(group)?.observed]));
  for (const each of observed) assert.deepEqual(withoutOrder(each), expected.get(each.key));
  const lists = index.byUrgency(decided.decisions, () => true);
  assert.deepEqual(lists.flat().sort(), withPods.map(({ owner }) => owner.key).sort());
  for (const group of withPods) {
    const { key } = group.owner;
    assert.deepEqual(comparable(index.groupOf(key)), comparable(group));
    const { stale, ...summary } = index.summariesOf([key]).get(key) ?? assert.fail(key);
    const { onChange, pods, notInjected, overCap, warnings, observed } = group;
    const { updaters, to } = observed;
    assert.deepEqual(summary, { onChange, pods, notInjected, overCap, warnings, updaters, to });
    assert.equal(stale, group.stale.length);
    assert.deepEqual(index.decisionOf(key, decided.decisions), step.decisions.get(key), key);
  }
  const { restart: next, outcomes, diffFirst, askWebhooks } = step;
  const sorted = (some: RolloutStep["outcomes"]) => some.toSorted((a, b) => a.key.localeCompare(b.key));
  assert.deepEqual([decided.restart, sorted(decided.outcomes)], [next, sorted(outcomes)]);
  assert.deepEqual([decided.diffFirst, decided.askWebhooks], [diffFirst, askWebhooks]);
  const never = Number.POSITIVE_INFINITY;
  // The time may be too early, because a workload that was due may have disappeared.
  const due = Math.min(decided.wakeAt ?? never, index.nextDue);
  assert.ok(due > cluster.now && due <= (step.wakeAt ?? never), `${due} ${step.wakeAt}`);
  compareCounts(cluster, withPods, step, decided);
}

function compareCounts(
  { index }: Cluster,
  groups: readonly WorkloadGroup[],
  { decisions }: RolloutStep,
  decided: RolloutStep,
): void {
  const counted: Record<string, number> = {};
  const sum = (of: (group: WorkloadGroup) => number) => groups.reduce((total, group) => total + of(group), 0);
  const isInStep = ({ owner }: WorkloadGroup) => decisions.get(owner.key)?.standing === "in-step";
  for (const { owner } of groups) {
    const { standing, code } = decisions.get(owner.key) ?? assert.fail(owner.key);
    counted[`${standing} ${code}`] = (counted[`${standing} ${code}`] ?? 0) + 1;
  }
  const { decisions: byDecision, ...counts } = index.counts(decided.decisions);
  const found = byDecision.map(({ standing, code, workloads }) => [`${standing} ${code}`, workloads] as const);
  assert.deepEqual(Object.fromEntries(found), counted);
  assert.deepEqual(counts, {
    workloads: groups.length,
    pods: sum(({ pods }) => pods),
    stale: sum((group) => (isInStep(group) ? 0 : group.stale.length)),
    notInjected: sum(({ notInjected }) => notInjected),
  });
  const isNotable = ({ owner, overCap }: WorkloadGroup) =>
    overCap !== undefined || decisions.get(owner.key)?.standing === "stuck";
  const notable = groups.filter(isNotable).map(({ owner }) => owner.key);
  assert.deepEqual([...index.notable([], 1_000, decided.decisions)].sort(), notable.sort());
}

test("property: after any changes in any order, the index decides the same as a full decision", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(steps, { minLength: 1, maxLength: 3 }), { maxLength: 80, size: "max" }),
      async (life) => {
        const cluster = new Cluster();
        for (const name of NAMESPACES) {
          cluster.take({ do: "namespace", name, facts: { inject: "enabled", onChange: undefined } });
        }
        for (const together of life) {
          for (const step of together) cluster.take(step);
          await check(cluster);
        }
      },
    ),
    { numRuns: 600 },
  );
});
