import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Decisions, RolloutCounts } from "#controller/rollout/cohorts.ts";
import type { ClusterView } from "#controller/rollout/observe-workloads.ts";
import type { UpdaterState } from "#controller/rollout/pod-updater.ts";
import { RolloutReconciler } from "#controller/rollout/reconciler.ts";
import { decideRollout } from "#controller/rollout/restart-decision.ts";
import { WorkloadIndex } from "#controller/rollout/workload-index.ts";
import type { OnChange } from "#hostmap/on-change.ts";
import { yieldToLoop } from "#lib/kube/time.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { type PodFacts, podFacts } from "#lib/workloads/pods.ts";
import { observeFully } from "#test/fakes/observe-fully.ts";
import { RULES } from "#test/fakes/rollout-world.ts";
import { state } from "#test/fakes/workload-facts.ts";
import { createReporter, percentile, type Reporter } from "./report.ts";

// The memory that the controller keeps for opted-in pods, and the CPU time of a change. The pods are made up, without
// an API server and watches. Each change is also evaluated from all pods, as it would be without an index.

const PODS_OF_WORKLOAD = 5;
const WORKLOADS_OF_NAMESPACE = 10;
const PODS_OF_NODE = 30;
const RUNS = 15;
/** Number of changes that are measured together. */
const REPEATED = 20;

interface Case {
  readonly name: string;
  readonly share: number;
  readonly mode: OnChange;
  /** Share of the namespaces that `restart.namespaces` lists. */
  readonly listed: number;
}

const CASES: readonly Case[] = [
  { name: "5 % opted in", share: 0.05, mode: "restart", listed: 0 },
  { name: "all, no restarts", share: 1, mode: "restart", listed: 0 },
  { name: "all, restarts in 4 % of the namespaces", share: 1, mode: "restart", listed: 0.04 },
  { name: "all, live", share: 1, mode: "live", listed: 0 },
];

/** `npm run bench -- rollout [--pods 150000] [--json]`. */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: { json: { type: "boolean", default: false }, pods: { type: "string", default: "150000" } },
  });
  const reporter = createReporter("rollout", values.json);
  for (const each of CASES) await measure(each, Number(values.pods), reporter);
}

async function measure(each: Case, count: number, reporter: Reporter): Promise<void> {
  const figure = (name: string, value: number, unit: string) => reporter.figure({ name, value, unit });
  reporter.section({ pods: count, case: each.name });
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const cluster = new MadeUpCluster(count, each);
  figure("cpu-first-decision", await cpuOf(() => cluster.decide(), 1), "ms");
  const { pods } = cluster.counts;
  collectGarbage();
  figure("opted-in", pods, "pods");
  figure("memory-a-pod", (process.memoryUsage().heapUsed - before) / Math.max(1, pods), "bytes");
  const [mapChanges, reports, podChanges]: [number[], number[], number[]] = [[], [], []];
  for (let run = 0; run < RUNS; run++) {
    mapChanges.push((await cpuOf(() => cluster.changeMap())) / REPEATED);
    if (each.mode === "live") reports.push(await cpuOf(() => cluster.reportAgents(), 1));
    podChanges.push((await cpuOf(() => cluster.changePod(run))) / REPEATED);
  }
  figure("cpu-map-change-p50", percentile(mapChanges, 0.5), "ms");
  figure("cpu-map-change-max", percentile(mapChanges, 1), "ms");
  if (reports.length > 0) figure("cpu-all-agents-report-p50", percentile(reports, 0.5), "ms");
  figure("cpu-pod-change-p50", percentile(podChanges, 0.5), "ms");
  const full: number[] = [];
  for (let index = 0; index < 3; index++) full.push(await cpuOf(async () => cluster.decideFully(), 1));
  figure("cpu-full-decision-p50", percentile(full, 0.5), "ms");
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** CPU time of this thread, in milliseconds, over `times` runs: the kernel counts in steps of milliseconds. */
async function cpuOf(work: () => Promise<unknown>, times = REPEATED): Promise<number> {
  const before = process.threadCpuUsage();
  for (let time = 0; time < times; time++) {
    await work();
    await yieldToLoop();
  }
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

class MadeUpCluster {
  readonly #pods = new Map<string, PodFacts>();
  readonly #keys: string[] = [];
  readonly #view: ClusterView;
  readonly #index: WorkloadIndex;
  readonly #reconciler: RolloutReconciler;
  readonly #agents = new Map<string, UpdaterState>();
  readonly #never = new AbortController().signal;
  #map = 1;
  #now = 1_700_000_000_000;
  #decisions: Decisions = new Map();

  constructor(count: number, { share, mode, listed }: Case) {
    const namespaces = new Map<string, { inject: string | undefined; onChange: undefined }>();
    const cluster = this;
    const isListed = (namespace: string) => (Number(namespace.slice(3)) % 100) / 100 < listed;
    this.#view = {
      namespaces,
      optIn: { excluded: new Set(), listed: new Set() },
      choose: () => ({ revision: `map-${this.#map}`, total: 10, cap: 500 }),
      get mapRevision() {
        return `map-${cluster.#map}`;
      },
      fallback: mode,
      isListed,
      parentOf: () => undefined,
      stateOf: (key) => (isListed(key.slice(0, key.indexOf("/"))) ? state : "unknown"),
      updaterOf: ({ node }) => (node === undefined ? undefined : this.#agents.get(node)),
      onError: (what, error) => {
        throw new Error(what, { cause: error });
      },
    };
    this.#index = new WorkloadIndex({
      view: this.#view,
      pods: () => this.#pods,
      rules: RULES,
      now: () => this.#now,
    });
    this.#reconciler = new RolloutReconciler(
      {
        observe: async () => {
          await this.#index.refresh();
          return this.#index.observe([]);
        },
        historyOf: () => [],
        writeHistory: async () => {},
        patch: async () => "conflict",
        diffHosts: async () => undefined,
        askWebhooks: async () => ({ ok: false, code: "webhook-behind", text: "" }),
        report: () => {},
        wallClock: () => this.#now,
        now: () => this.#now,
      },
      RULES,
      silentLogger,
    );
    for (let index = 0; index < count * share; index++) {
      const workload = Math.floor(index / PODS_OF_WORKLOAD);
      const namespace = `ns-${Math.floor(workload / WORKLOADS_OF_NAMESPACE)}`;
      namespaces.set(namespace, { inject: "enabled", onChange: undefined });
      const node = `node-${Math.floor((index * 7_919) / PODS_OF_NODE) % Math.ceil(count / PODS_OF_NODE)}`;
      this.#agents.set(node, { alive: true, mapRevision: "map-1", podRevisions: ["map-1"] });
      this.#put(rawPod(index, workload, namespace, node));
    }
  }

  get counts(): RolloutCounts {
    return this.#index.counts(this.#decisions);
  }

  async decide(): Promise<void> {
    this.#decisions = (await this.#reconciler.reconcile(this.#never))?.decisions ?? new Map();
  }

  /**
   * Publishes another map. From then on, pods that do not follow live are stale; the others are stale until their
   * agents report the map.
   */
  async changeMap(): Promise<void> {
    this.#map += 1;
    this.#now += 100;
    this.#index.changeMap();
    await this.decide();
  }

  /**
   * Reports the map from the agents, in fifty batches: an agent writes its Lease after it has written the files of
   * its node.
   */
  async reportAgents(): Promise<void> {
    const nodes = [...this.#agents.keys()];
    const batch = Math.ceil(nodes.length / 50);
    for (let start = 0; start < nodes.length; start += batch) {
      const revision = `map-${this.#map}`;
      for (const node of nodes.slice(start, start + batch)) {
        this.#agents.set(node, { alive: true, mapRevision: revision, podRevisions: [revision] });
      }
      this.#now += 100;
      this.#index.changeUpdaters();
      await this.decide();
      await yieldToLoop();
    }
  }

  async changePod(index: number): Promise<void> {
    const key = this.#keys[index] ?? "";
    const facts = this.#pods.get(key);
    if (facts === undefined) return;
    this.#now += 100;
    const isOld = facts.revision !== `map-${this.#map}`;
    const after = { ...facts, revision: isOld ? `map-${this.#map}` : "map-0" };
    this.#pods.set(key, after);
    this.#index.changePod({ key, before: facts, after });
    await this.decide();
  }

  /** Evaluates all pods, as each change did before there was an index. */
  decideFully(): void {
    const groups = observeFully({
      ...this.#view,
      mapRevision: `map-${this.#map}`,
      pods: this.#pods.values(),
      unfinished: [],
    });
    const memory = { since: 0, changingSince: 0, staleSince: 0, diff: undefined, notBefore: 0, history: [] };
    const workloads = groups.map(({ observed }) => ({ ...observed, ...memory }));
    decideRollout({ now: this.#now, rules: RULES, workloads, webhooks: undefined });
  }

  /** Adds a pod like an informer: each pod's facts come from a separate document. */
  #put(text: string): void {
    const facts = podFacts(JSON.parse(text));
    const key = `${facts.namespace}/${facts.name}`;
    this.#pods.set(key, facts);
    if (this.#keys.length < RUNS) this.#keys.push(key);
    this.#index.changePod({ key, after: facts });
  }
}

function rawPod(index: number, workload: number, namespace: string, nodeName: string): string {
  const hash = (workload * 2_654_435_761).toString(36).slice(0, 9);
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: `app-${workload}-${hash}`, controller: true };
  const metadata = {
    namespace,
    name: `app-${workload}-${hash}-${index.toString(36).padStart(5, "0")}`,
    uid: `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`,
    labels: { "pod-template-hash": hash },
    annotations: { "switchback.dev/revision": "map-1" },
    ownerReferences: [owner],
  };
  return JSON.stringify({ metadata, spec: { nodeName } });
}
