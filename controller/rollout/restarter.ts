// What can make two restarts of one workload within a minute?
// - Names of the workload change again, and `minIntervalSeconds` (30 s) has passed since the last restart: names of
//   another namespace, or, for the first time that day, of the same one. This is meant.
// - Somebody restarts the workload by hand, or its owner changes the template. We cannot prevent it.
// - A setting below a minute says so: `minIntervalSeconds`.
// - A new leader whose clock is ahead by more than the interval takes the last restart for an older one. It still needs
//   new names, or pods that prove nothing (see `proves`).
// Nothing else can. A patch carries the version of a workload that was read after the last restart, so a patch whose
// answer is lost, and one of a leader that is over, are conflicts or are read back. A template that is put back does
// not change the record of restarts, which is on the workload and in the leader's memory. Pods from before a restart
// ask for nothing: stale pods are read again before a restart, and those that are gone or end do not count.

import { compareNames } from "#hostmap/hostnames.ts";
import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import { describeError, ifFound, statusOf } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { restartWorkload, waitForRestart } from "#lib/workloads/restart.ts";
import { type WorkloadKind, workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";
import { webhookProblem } from "../webhook-reachable.ts";
import {
  checkDebounce,
  checkNeed,
  checkState,
  type Difference,
  differenceOf,
  isDecision,
  restarting,
  samplesOf,
} from "./may-restart.ts";
import type { RolloutMetricsInput, RolloutStatus, WorkloadQuery } from "./report.ts";
import { Reporter, rolloutStatus } from "./report.ts";
import { encodeRecord, type Restart, RestartRecords, stamp } from "./restart-record.ts";
import { StalePods } from "./stale-pods.ts";
import { type Decision, ITS_TURN, type RestarterDeps, stuck, type Workload, waiting } from "./workload.ts";

/** A restart that was sent. */
interface Sent {
  readonly owner: Owner;
  readonly uid: string;
  readonly restart: Restart;
}

/** Field manager of the restarts. `kubectl get -o yaml --show-managed-fields` shows it. */
const FIELD_MANAGER = "switchback-restart";
/** Changes that arrive together are evaluated together. */
const SETTLE_MS = 100;
const POLL_MS = 1_000;
const RETRY_MS = 5_000;
/** Longest time between two turns. */
const IDLE_MS = 15_000;
/** A workload whose state is against a restart is read again after this time, and at most ten of them a second. */
const AGAIN_MS = 2_000;
const AGAIN_EACH_MS = 100;
/** A longer wait, after a refusal. */
const REFUSED_MS = 30_000;
/** Restarts of another leader that are older than this are not followed. */
const RECALLED_MS = 3_600_000;

/**
 * Restarts the workloads of stale pods: the leader's work for one term, until `signal` aborts. One loop does all of it:
 * the workload that has waited longest comes first, and the next one waits until the restart of the last has ended.
 */
export class Restarter {
  readonly #deps: RestarterDeps;
  readonly #signal: AbortSignal;
  readonly #pods: StalePods;
  readonly #records: RestartRecords;
  readonly #reporter: Reporter;
  readonly #loop: Reconciler;
  readonly #ended = Promise.withResolvers<void>();
  #hasRecalled = false;
  /** The `namespace/Kind/name` of the workload whose restart is followed. */
  #underWay: string | undefined;
  /** When the last restarts in a row failed, or turned out not to help. */
  #failures: readonly number[] = [];

  constructor(deps: RestarterDeps, signal: AbortSignal) {
    const { log, now, wallClock } = deps;
    this.#deps = deps;
    this.#signal = signal;
    this.#records = new RestartRecords(now, wallClock);
    this.#reporter = new Reporter(deps);
    this.#loop = new Reconciler({
      reconcile: () => this.#turn(),
      pauseMs: () => this.#pods.pauseMs,
      retry: {
        backoff: createBackoff(RETRY_MS, RETRY_MS),
        onError: (error) => {
          if (!signal.aborted) log.warn({ code: "restart-turn-failed" }, describeError(error));
        },
      },
    });
    this.#pods = new StalePods({ ...deps, onChange: () => this.#loop.enqueue(SETTLE_MS) });
    signal.addEventListener("abort", () => void this.#end(), { once: true });
    if (signal.aborted) void this.#end();
  }

  /** Resolves when the turn in progress and every watch have ended. */
  get done(): Promise<void> {
    return this.#ended.promise;
  }

  /** How many processes read the map for running pods. */
  get mapReaders(): number {
    return this.#pods.agents?.mapReaders ?? 0;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    return this.#pods.inactiveMs;
  }

  /** The status, with the workloads that a query selects. */
  status(query: WorkloadQuery = {}): RolloutStatus {
    const { unknown, workloads } = this.#pods;
    const { dryRun } = this.#deps.config.restart;
    const restartsLastHour = this.#records.count(3_600_000);
    return rolloutStatus({ unknown, dryRun, underWay: this.#underWay, workloads, restartsLastHour }, query);
  }

  /** What the metrics show; undefined: not known. */
  counts(): RolloutMetricsInput | undefined {
    if (this.#pods.unknown !== undefined) return undefined;
    return { workloads: [...this.#pods.workloads.values()], agents: this.#pods.countAgents() };
  }

  async #turn(): Promise<ReconcileResult> {
    const { now } = this.#deps;
    if (this.#pods.unknown !== undefined) return { requeueAfter: IDLE_MS };
    await this.#pods.refresh();
    if (!this.#hasRecalled) await this.#recall();
    this.#hasRecalled = true;
    this.#reporter.report(this.#pods.workloads);
    const queue = [...this.#pods.workloads.values()].filter(({ isQueued }) => isQueued).sort(byWait);
    const open = queue.filter(({ decision }) => (decision.until ?? 0) <= now());
    const held = this.#held();
    for (const workload of open) workload.decision = held ?? ITS_TURN;
    for (const workload of held === undefined ? open : []) {
      const result = workload.isQueued ? await this.#look(workload) : workload.decision;
      if (result === undefined) return { requeueAfter: 0 };
      const againAt = now() + Math.max(AGAIN_MS, open.length * AGAIN_EACH_MS);
      if (workload.isQueued) workload.decision = { until: againAt, ...result };
      if (result.code === "webhook-unreachable") return { requeueAfter: AGAIN_MS };
    }
    return { requeueAfter: this.#sleepMs(queue) };
  }

  #sleepMs(queue: readonly Workload[]): number {
    const silentAt = this.#pods.agents?.nextSilence() ?? Number.POSITIVE_INFINITY;
    const dueAt = queue.reduce((soonest, { decision }) => Math.min(soonest, decision.until ?? soonest), silentAt);
    return Math.max(SETTLE_MS, Math.min(IDLE_MS, dueAt - this.#deps.now()));
  }

  /**
   * Reads a workload whose turn it is, and restarts it if nothing is against that. Returns the first reason against a
   * restart. Undefined: a restart was sent, or was in progress, and has ended.
   */
  async #look(workload: Workload): Promise<Decision | undefined> {
    const { config, now } = this.#deps;
    const { owner } = workload;
    const early = checkDebounce(workload, config.restart, now());
    if (early !== undefined) return early;
    const state = await this.#read(owner);
    if ("code" in state) return state;
    workload.read = { onChange: state.onChange, at: now() };
    this.#pods.evaluate(workload);
    if (!workload.isQueued) return workload.decision;
    const restarts = this.#records.of(state);
    const { published } = this.#pods.map ?? {};
    const subject = { workload, rules: config.restart, now: now(), state, restarts, published };
    const decision = checkState(subject);
    const last = restarts.at(-1);
    if (decision?.code === "restarting" && last !== undefined)
      return await this.#follow({ owner, uid: state.uid, restart: last });
    if (decision !== undefined) return decision;
    const difference = await this.#compare(workload);
    if (difference === undefined) return waiting("not-available", "its pods could not be read");
    const by = checkNeed(subject, difference);
    if (isDecision(by)) return by;
    if (config.restart.dryRun) return { ...ITS_TURN, text: "would be restarted; restart.dryRun is on" };
    const problem = await webhookProblem(this.#deps.client, this.#deps.config.namespace, this.#signal);
    if (problem !== undefined) return waiting("webhook-unreachable", problem, now() + AGAIN_MS);
    // Its namespace may have opted out meanwhile.
    await this.#pods.refresh();
    return workload.isQueued ? await this.#restart(workload, state, restarts, by) : workload.decision;
  }

  /** Restarts a workload, and waits until the restart has ended. Returns why it could not be sent. */
  async #restart(workload: Workload, state: WorkloadState, restarts: readonly Restart[], by: readonly string[]) {
    const { client, now } = this.#deps;
    const { owner, to } = workload;
    const { uid } = state;
    const restart = this.#records.next(restarts, by);
    // If the answer gets lost, the restart counts.
    this.#records.add(uid, [...restarts, restart]);
    const outcome = await restartWorkload(client, { ...owner, kind: owner.kind as WorkloadKind }, state, {
      stamp: stamp(restart.at),
      record: encodeRecord([...restarts, restart]),
      fieldManager: FIELD_MANAGER,
      signal: this.#signal,
    });
    if (outcome.result === "restarted") {
      this.#reporter.restarted(owner, uid, by);
      return await this.#follow({ owner, uid, restart }, to);
    }
    this.#records.add(uid, restarts);
    if (outcome.result !== "forbidden")
      return { ...ITS_TURN, text: "another client changed it at the same moment", until: now() + POLL_MS };
    const text = `the API server refused it: ${describeError(outcome.error)}`;
    return { ...stuck("restart-rights-missing", text), until: now() + REFUSED_MS };
  }

  /**
   * Waits until a restart is complete, has failed, or was replaced by somebody else's. `to`: what its new pods should
   * get. While the workload cannot be read, the wait goes on until the restart is late.
   */
  async #follow(sent: Sent, to?: string): Promise<undefined> {
    const { owner, uid, restart } = sent;
    const { now } = this.#deps;
    const lateAt = restart.begun + this.#deps.config.restart.rolloutSeconds * 1_000;
    this.#underWay = owner.key;
    let state = GONE as WorkloadState | Decision;
    const look = async () => {
      state = await this.#read(owner).catch((error) => waiting("not-available", describeError(error)));
      await this.#pods.refresh();
      return progressOf(state, sent);
    };
    const report = (missing: string) => this.#decide(owner, restarting(restart, missing));
    const wait = { now, pollMs: POLL_MS, timeoutMs: lateAt - now(), report, signal: this.#signal };
    await waitForRestart(look, wait);
    this.#underWay = undefined;
    this.#decide(owner, ITS_TURN);
    // Somebody else has restarted or changed it, or it is gone: that says nothing about our restart.
    if ("code" in state || !isOf(state, uid, restart)) return undefined;
    const { to: wanted, stale = [] } = this.#pods.workloads.get(owner.key) ?? {};
    const isInVain = wanted === to && stale.some(({ restartedAt }) => restartedAt === stamp(restart.at));
    const isFailed = state.unsettled !== undefined;
    this.#failures = isFailed || isInVain ? [...this.#failures, Math.min(now(), lateAt)] : [];
    if (isFailed) this.#reporter.failed(owner.key);
    return undefined;
  }

  #decide({ key }: Owner, decision: Decision): void {
    const workload = this.#pods.workloads.get(key);
    if (workload?.isQueued) workload.decision = decision;
  }

  /**
   * Follows the restarts of earlier leaders: one may be under way, and the last ones may have failed. Such a workload
   * has stale pods, or pods that carry the time of the restart.
   */
  async #recall(): Promise<void> {
    const { now, wallClock } = this.#deps;
    const recent: Sent[] = [];
    for (const { owner, listed, isQueued, pods } of this.#pods.workloads.values()) {
      const since = wallClock() - RECALLED_MS;
      const isRecent = pods.some(({ restartedAt }) => Date.parse(restartedAt ?? "") > since);
      if (!(isQueued || isRecent) || !listed || owner.unrestartable !== undefined) continue;
      const state = await this.#read(owner);
      if ("code" in state || state.unsettled === undefined) continue;
      const restart = this.#records.of(state).at(-1);
      if (restart !== undefined && restart.begun > now() - RECALLED_MS) recent.push({ owner, uid: state.uid, restart });
    }
    recent.sort((one, other) => one.restart.at - other.restart.at);
    for (const sent of recent) await this.#follow(sent);
  }

  /** The decision for all workloads after too many failures: then the next one is tried. */
  #held(): Decision | undefined {
    const { holdAfter, holdSeconds } = this.#deps.config.restart;
    const until = (this.#failures.at(-1) ?? 0) + holdSeconds * 1_000;
    if (this.#failures.length < holdAfter || this.#deps.now() >= until) return undefined;
    return waiting("restarts-held", `the last ${holdAfter} restarts failed or did not bring the names`, until);
  }

  /** What a restart would change for the stale pods. Undefined: none could be read. Pods that end do not count. */
  async #compare({ stale }: Workload): Promise<Difference | undefined> {
    const { map } = this.#pods;
    const found = [];
    for (const { namespace, name } of samplesOf(stale)) {
      const path = corePath("pods", namespace, name);
      const pod = await ifFound(this.#deps.client.get<RawPod>(path, {}, { signal: this.#signal }));
      if (pod === undefined || pod.metadata?.deletionTimestamp !== undefined) continue;
      found.push({ pod, selected: this.#pods.select(pod.metadata?.annotations?.[HOSTS_KEY]) });
    }
    return found.length === 0 || map === undefined ? undefined : differenceOf(found, map);
  }

  /** The state of a workload, or the decision if it cannot be read. An error of one workload delays no other. */
  async #read({ namespace, kind, name }: Owner): Promise<WorkloadState | Decision> {
    try {
      const path = workloadPath(namespace, kind as WorkloadKind, name);
      const raw = await this.#deps.client.get<RawWorkload>(path, {}, { signal: this.#signal });
      return workloadState(kind as WorkloadKind, raw);
    } catch (error) {
      const status = statusOf(error);
      if (status === 404) return GONE;
      if (status === 500) return waiting("not-available", describeError(error), this.#deps.now() + REFUSED_MS);
      if (status !== 403) throw error;
      const why = "but the controller has no Role there: run helm upgrade now that the namespace exists";
      return stuck("restart-rights-missing", `workloads of ${namespace} may be restarted, ${why}`);
    }
  }

  async #end(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#pods.stop()]);
    this.#ended.resolve();
  }
}

const GONE = waiting("not-available", "the workload does not exist any more");

/** Whether the last restart of a workload is this one. */
function isOf(state: WorkloadState, uid: string, restart: Restart): boolean {
  return state.uid === uid && state.restartedAt === stamp(restart.at);
}

/** What a restart still waits for. Nothing, if the workload is gone, or somebody else has restarted it. */
function progressOf(state: WorkloadState | Decision, { uid, restart }: Sent) {
  if ("code" in state) return { missing: state === GONE ? undefined : state.text };
  return isOf(state, uid, restart) ? { missing: state.unsettled, hasFailed: state.failed } : { missing: undefined };
}

/** The longest wait comes first. */
function byWait(one: Workload, other: Workload): number {
  return one.staleSince - other.staleSince || compareNames(one.owner.key, other.owner.key);
}
