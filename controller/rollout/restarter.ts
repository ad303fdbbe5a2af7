// What can make two restarts of one workload within a minute?
// - Names of the workload change again, and `minIntervalSeconds` (30 s, or what somebody sets) has passed since the
//   last restart: names of another namespace, or, for the first time that day, of the same one. This is meant.
// - Somebody restarts the workload by hand, or its owner changes the template. We cannot prevent it.
// - Something takes both of our annotations off the workload, and another leader follows before a minute is over.
// - A new leader whose clock is ahead by more than the interval takes the last restart for an older one. It still needs
//   new names, or pods that prove nothing (see `proves`).
// Nothing else can. A patch carries the version of a workload that was read after the last restart, so a patch whose
// answer is lost, and one of a leader that is over, are conflicts or are read back. A template that is put back does
// not change the record of restarts, which is on the workload and in the leader's memory. Pods from before a restart
// ask for nothing: stale pods are read again before a restart, and those that are gone or end do not count.

import { compareNames } from "#hostmap/hostnames.ts";
import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import { describeError, ifFound, statusOf } from "#lib/errors/errors.ts";
import { corePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { restartWorkload, waitForRestart } from "#lib/workloads/restart.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";
import { checkNeed, checkState, type Difference, differenceOf, restarting } from "./may-restart.ts";
import { reportRestart, reportStuck } from "./report.ts";
import { encodeRecord, type Restart, restartRecords, stamp } from "./restart-record.ts";
import { StalePods } from "./stale-pods.ts";
import { webhookProblem } from "./webhook-problem.ts";
import { type Decision, ITS_TURN, type RestarterDeps, stuck, type Workload, waiting } from "./workload.ts";

/** Between two turns, and between two looks at a restart. */
const POLL_MS = 1_000;
/** After a turn that failed. */
const RETRY_MS = 5_000;
/** A workload whose state is against a restart is read again after this time, and at most ten of them a second. */
const AGAIN_MS = 2_000;
const AGAIN_EACH_MS = 100;
/** A longer wait, after a refusal. */
const REFUSED_MS = 30_000;
/** After this many restarts in a row that failed or brought no names, all restarts wait for this time. */
const HOLD_AFTER = 3;
const HOLD_MS = 3_600_000;

/**
 * Restarts the workloads of stale pods: the leader's work for one term, until `signal` aborts. One loop does all of it:
 * the workload that has waited longest comes first, and the next one waits until the restart of the last has ended.
 */
export class Restarter {
  readonly pods: StalePods;
  /** Resolves when the turn in progress and every watch have ended. */
  readonly done: Promise<void>;
  readonly #deps: RestarterDeps;
  readonly #signal: AbortSignal;
  readonly #records: ReturnType<typeof restartRecords>;
  /** When the last restarts in a row failed, or turned out not to help. */
  #failures: readonly number[] = [];

  constructor(deps: RestarterDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
    this.#records = restartRecords(deps);
    this.pods = new StalePods(deps);
    this.done = this.#run();
  }

  async #run(): Promise<void> {
    let hasRecalled = false;
    while (!this.#signal.aborted) {
      try {
        await this.pods.refresh();
        if (this.pods.unknown === undefined) {
          if (!hasRecalled) await this.#recall();
          hasRecalled = true;
          await this.#turn();
        }
        await pause(POLL_MS, this.#signal);
      } catch (error) {
        if (!this.#signal.aborted) this.#deps.log.warn({ code: "restart-turn-failed" }, describeError(error));
        await pause(RETRY_MS, this.#signal);
      }
    }
    await this.pods.stop();
  }

  /** Looks at the workloads that may be restarted now, until one was. */
  async #turn(): Promise<void> {
    const { now, events } = this.#deps;
    const all = [...this.pods.workloads.values()];
    for (const workload of all) reportStuck(workload, events);
    const open = all.filter(({ isQueued, decision }) => isQueued && (decision.until ?? 0) <= now()).sort(byWait);
    for (const workload of open) workload.decision = ITS_TURN;
    for (const workload of open) {
      const result = workload.isQueued ? await this.#look(workload) : workload.decision;
      if (result === undefined) return;
      const againAt = now() + Math.max(AGAIN_MS, open.length * AGAIN_EACH_MS);
      if (workload.isQueued) workload.decision = { until: againAt, ...result };
      if (result.code === "webhook-unreachable") return;
    }
  }

  /**
   * Reads a workload whose turn it is, and restarts it if nothing is against that. Returns the first reason against a
   * restart. Undefined: a restart was sent, or was in progress, and has ended.
   */
  async #look(workload: Workload): Promise<Decision | undefined> {
    const { config, now } = this.#deps;
    const state = await this.#read(workload.owner);
    if ("code" in state) return state;
    workload.read = { onChange: state.onChange, at: now() };
    this.pods.evaluate(workload);
    if (!workload.isQueued) return workload.decision;
    const restarts = this.#records.of(state);
    const published = this.pods.map?.published;
    const subject = { workload, rules: config.restart, now: now(), state, restarts, published };
    const decision = checkState(subject);
    const last = restarts.at(-1);
    if (decision?.code === "restarting" && last) return await this.#follow(workload.owner, state.uid, last);
    if (decision !== undefined) return decision;
    const difference = await this.#compare(workload);
    if (difference === undefined) return waiting("not-available", "its pods could not be read");
    const by = checkNeed(subject, difference);
    if (!Array.isArray(by)) return by;
    const held = this.#held();
    if (held !== undefined) return held;
    const problem = await webhookProblem(this.#deps.client, this.#deps.config.namespace, this.#signal);
    if (problem !== undefined) return waiting("webhook-unreachable", problem);
    // Its namespace may have opted out meanwhile.
    await this.pods.refresh();
    return workload.isQueued ? await this.#restart(workload, state, restarts, by) : workload.decision;
  }

  /** Restarts a workload, and waits until the restart has ended. Returns why it could not be sent. */
  async #restart(workload: Workload, state: WorkloadState, restarts: readonly Restart[], by: readonly string[]) {
    const { client, counters, events, log, now } = this.#deps;
    const { owner, to } = workload;
    const restart = this.#records.next(restarts, by);
    // If the answer gets lost, the restart counts.
    this.#records.set(state.uid, [...restarts, restart]);
    const outcome = await restartWorkload(client, owner, state, {
      stamp: stamp(restart.at),
      record: encodeRecord([...restarts, restart]),
      fieldManager: "switchback-restart",
      signal: this.#signal,
    });
    if (outcome.result === "restarted") {
      counters.restarted();
      log.info({ workload: owner.key, by }, "restarted because its pods did not have the current names");
      reportRestart(owner, state.uid, events);
      return await this.#follow(owner, state.uid, restart, to);
    }
    this.#records.set(state.uid, restarts);
    if (outcome.result !== "forbidden")
      return { ...ITS_TURN, text: "another client changed it at the same moment", until: now() + POLL_MS };
    const text = `the API server refused it: ${describeError(outcome.error)}`;
    return { ...stuck("restart-rights-missing", text), until: now() + REFUSED_MS };
  }

  /**
   * Waits until a restart is complete, has failed, or was replaced by somebody else's. `to`: what its new pods should
   * get. While the workload cannot be read, the wait goes on until the restart is late.
   */
  async #follow(owner: Owner, uid: string, restart: Restart, to?: string): Promise<undefined> {
    const { config, now } = this.#deps;
    const lateAt = restart.begun + config.restart.rolloutSeconds * 1_000;
    let ours = undefined as WorkloadState | undefined;
    const look = async () => {
      const state = await this.#read(owner).catch((error) => waiting("not-available", describeError(error)));
      await this.pods.refresh();
      ours = "code" in state || state.uid !== uid || state.restartedAt !== stamp(restart.at) ? undefined : state;
      if (ours !== undefined) return { missing: ours.unsettled, hasFailed: ours.failed };
      return { missing: "code" in state && state !== GONE ? state.text : undefined };
    };
    const report = (missing: string) => {
      const workload = this.pods.workloads.get(owner.key);
      if (workload?.isQueued) workload.decision = restarting(restart, missing);
    };
    await waitForRestart(look, { now, pollMs: POLL_MS, timeoutMs: lateAt - now(), report, signal: this.#signal });
    // Somebody else has restarted or changed it, or it is gone: that says nothing about our restart.
    if (ours === undefined) return undefined;
    const { to: wanted, stale = [] } = this.pods.workloads.get(owner.key) ?? {};
    const isInVain = wanted === to && stale.some(({ restartedAt }) => restartedAt === stamp(restart.at));
    const isFailed = ours.unsettled !== undefined;
    this.#failures = isFailed || isInVain ? [...this.#failures, Math.min(now(), lateAt)] : [];
    if (isFailed) this.#deps.counters.failed();
    return undefined;
  }

  /**
   * Follows the restarts of earlier leaders: one may be under way, and the last ones may have failed. Such a workload
   * has stale pods, or pods that carry the time of the restart.
   */
  async #recall(): Promise<void> {
    const { now, wallClock } = this.#deps;
    const recent: [Owner, string, Restart][] = [];
    for (const { owner, listed, isQueued, pods } of this.pods.workloads.values()) {
      const isRecent = pods.some(({ restartedAt }) => Date.parse(restartedAt ?? "") > wallClock() - HOLD_MS);
      if (!(isQueued || isRecent) || !listed || owner.unrestartable !== undefined) continue;
      const state = await this.#read(owner);
      if ("code" in state) continue;
      const restart = this.#records.of(state).at(-1);
      // Nobody's names have caused it: somebody else has restarted the workload.
      const isOurs = restart !== undefined && restart.by.length > 0;
      if (isOurs && restart.begun > now() - HOLD_MS) recent.push([owner, state.uid, restart]);
    }
    recent.sort(([, , one], [, , other]) => one.at - other.at);
    for (const sent of recent) await this.#follow(...sent);
  }

  /** The decision for all workloads after too many failures: then the next one is tried. */
  #held(): Decision | undefined {
    const until = (this.#failures.at(-1) ?? 0) + HOLD_MS;
    if (this.#failures.length < HOLD_AFTER || this.#deps.now() >= until) return undefined;
    return waiting("restarts-held", `the last ${HOLD_AFTER} restarts failed or did not bring the names`, until);
  }

  /** What a restart would change for the first stale pod. Undefined: it could not be read, or it ends. */
  async #compare({ stale: [first] }: Workload): Promise<Difference | undefined> {
    const { map, select } = this.pods;
    const path = corePath("pods", first?.namespace, first?.name);
    const reading = ifFound(this.#deps.client.get<RawPod>(path, {}, { signal: this.#signal }));
    // An error of one pod delays no other workload.
    const pod = await reading.catch((error: unknown) => {
      if (statusOf(error) !== 500) throw error;
      return undefined;
    });
    if (pod === undefined || pod.metadata?.deletionTimestamp !== undefined) return undefined;
    return map && select && differenceOf(pod, select(pod.metadata?.annotations?.[HOSTS_KEY]), map);
  }

  /** The state of a workload, or the decision if it cannot be read. An error of one workload delays no other. */
  async #read({ namespace, kind, name }: Owner): Promise<WorkloadState | Decision> {
    try {
      const path = workloadPath(namespace, kind, name);
      const raw = await this.#deps.client.get<RawWorkload>(path, {}, { signal: this.#signal });
      return workloadState(kind, raw);
    } catch (error) {
      const status = statusOf(error);
      if (status === 404) return GONE;
      if (status === 500) return waiting("not-available", describeError(error), this.#deps.now() + REFUSED_MS);
      if (status !== 403) throw error;
      const why = "but the controller has no Role there: run helm upgrade now that the namespace exists";
      return stuck("restart-rights-missing", `workloads of ${namespace} may be restarted, ${why}`);
    }
  }
}

const GONE = waiting("not-available", "the workload does not exist any more");

/** The longest wait comes first. */
function byWait(one: Workload, other: Workload): number {
  return one.staleSince - other.staleSince || compareNames(one.owner.key, other.owner.key);
}
