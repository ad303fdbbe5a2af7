// What can make two restarts of one workload within a minute? After the first has ended, and after
// `minIntervalSeconds` (30 s, or what somebody sets): its names change again, or its pods still lack names and nothing
// proves that a restart is in vain (see `Restart.to`, and pods that no rollout replaces). Before that:
// - Somebody restarts or recreates it by hand, or changes its template. We cannot prevent it.
// - Somebody takes off or puts back both annotations, and another leader follows, or the answer to our patch was lost.
//   `kubectl rollout undo` of a Deployment does (kubectl, pkg/polymorphichelpers/rollback.go, `getDeploymentPatch`).
// - The clock of a new leader is ahead by more than the interval, or that of the one before was by more than a day.
// Nothing else can. A patch carries the version of a workload that was read after the last restart: a patch whose
// answer is lost, and one of a leader that is over, are a conflict, or the next read shows them. The record is on the
// workload and in the leader's memory: to put the template back does not change it. Stale pods are read before each.

import { addTo } from "#hostmap/multi-map.ts";
import { describeError, ifFound, statusOf } from "#lib/errors/errors.ts";
import { corePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { restartWorkload } from "#lib/workloads/restart.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";
import { checkNeed, checkState, type Difference, differenceOf, isInVain } from "./may-restart.ts";
import { reportRestart, reportStuck } from "./report.ts";
import { encodeRecord, type Restart, restartRecords, stamp } from "./restart-record.ts";
import { StalePods } from "./stale-pods.ts";
import { webhookProblem } from "./webhook-problem.ts";
import { type Decision, ITS_TURN, lastRestart, type RestarterDeps, stuck, type Workload, waiting } from "./workload.ts";

/** Between two turns, with a look at the restarts in progress. */
const POLL_MS = 1_000;
/** A workload is read again after this time, or later: the namespaces share ten reads a second. */
const AGAIN_MS = 2_000;
const AGAIN_EACH_MS = 100;
/** Maximum number of workloads of one namespace that are read in a turn, so that the others come soon. */
const MAX_LOOKS = 10;
/** A longer wait, after a refusal. */
const REFUSED_MS = 30_000;
/** Maximum number of stale pods that are read before a restart. */
const MAX_COMPARED = 10;
/** After this many restarts in a row that failed or did not help, restarts wait for this time. */
const HOLD_AFTER = 3;
const HOLD_MS = 3_600_000;
const HELD = `the last ${HOLD_AFTER} restarts of its namespace failed or did not bring the names`;

/** A restart until its end. */
interface Sent {
  readonly owner: Owner;
  /** The time of its stamp. */
  readonly at: number;
  /** Whether this leader sent it. That of an earlier leader may be forged, so only its namespace waits for it. */
  readonly isOwn: boolean;
}

/**
 * Restarts the workloads of stale pods: the leader's work for one term, until its signal aborts. Namespaces take
 * turns. In each, the workload that has waited longest comes first. The next waits until the last restart has ended.
 */
export class Restarter {
  readonly pods: StalePods;
  /** Resolves when the turn in progress and every watch have ended. */
  readonly done: Promise<void>;
  readonly #deps: RestarterDeps;
  readonly #records: ReturnType<typeof restartRecords>;
  /** The restarts in progress: at most one of this leader, and those of earlier leaders. */
  #sent: Sent[] = [];
  /** By namespace: its last restart. A namespace may have many workloads whose pods stay stale after each restart. */
  readonly #turns = new Map<string, number>();
  /** By namespace: when restarts failed or did not help, since one helped. */
  readonly #failures = new Map<string, number[]>();

  constructor(deps: RestarterDeps) {
    this.#deps = deps;
    this.#records = restartRecords(deps);
    this.pods = new StalePods(deps);
    this.done = this.#run();
  }

  async #run(): Promise<void> {
    const { signal, log } = this.#deps;
    let hasRecalled = false;
    while (!signal.aborted) {
      try {
        await this.pods.refresh();
        if (this.pods.unknown === undefined) {
          if (!hasRecalled) await this.#recall();
          hasRecalled = true;
          await this.#follow();
          await this.#turn();
        }
      } catch (error) {
        if (!signal.aborted) log.warn({ code: "restart-turn-failed" }, describeError(error));
      }
      await pause(POLL_MS, signal);
    }
    await this.pods.stop();
  }

  /** Looks at the workloads that may be restarted now, in their order, until one is restarted. */
  async #turn(): Promise<void> {
    const { now, events } = this.#deps;
    const all = [...this.pods.workloads.values()];
    for (const workload of all) reportStuck(workload, events);
    const isBusy = () => this.#sent.some(({ isOwn }) => isOwn);
    if (isBusy()) return;
    const turnOf = ({ owner }: Workload) => this.#turns.get(owner.namespace) ?? 0;
    const closed = new Set(this.#sent.map(({ owner }) => owner.namespace));
    const open = all
      .filter(({ owner, isQueued }) => isQueued && !closed.has(owner.namespace))
      .filter(({ decision }) => (decision.until ?? 0) <= now())
      .sort((one, other) => turnOf(one) - turnOf(other) || one.staleSince - other.staleSince);
    const byNamespace = Map.groupBy(open, ({ owner }) => owner.namespace);
    for (const own of byNamespace.values()) {
      const againMs = Math.max(AGAIN_MS, own.length * byNamespace.size * AGAIN_EACH_MS);
      const some = own.slice(0, MAX_LOOKS);
      for (const workload of some) workload.decision = ITS_TURN;
      for (const workload of some) {
        const result = await this.#look(workload).catch((error: unknown) => {
          // All that wait now come first.
          workload.staleSince = now();
          workload.decision = waiting("not-available", describeError(error), now() + REFUSED_MS);
          throw error;
        });
        if (workload.isQueued) workload.decision = { until: now() + againMs, ...result };
        if (isBusy() || result.code === "webhook-unreachable") return;
      }
    }
  }

  /** Reads a workload whose turn it is, and restarts it if nothing is against that. Returns what was decided. */
  async #look(workload: Workload): Promise<Decision> {
    const { client, config, now, signal } = this.#deps;
    if (!workload.isQueued) return workload.decision;
    const state = await this.#read(workload.owner);
    if ("code" in state) return state;
    workload.read = { onChange: state.onChange, at: now() };
    this.pods.evaluate(workload);
    if (!workload.isQueued) return workload.decision;
    const restarts = this.#records.of(state);
    const subject = { workload, rules: config.restart, now: now(), state, restarts };
    const decision = checkState(subject);
    if (decision !== undefined) return decision;
    const difference = await this.#compare(workload);
    if (difference === undefined) return waiting("not-available", "its pods could not be read");
    const by = checkNeed(subject, difference);
    if (!Array.isArray(by)) return by;
    const failures = this.#failures.get(workload.owner.namespace) ?? [];
    const heldUntil = (failures.at(-1) ?? 0) + HOLD_MS;
    if (failures.length >= HOLD_AFTER && now() < heldUntil) return waiting("restarts-held", HELD, heldUntil);
    const problem = await webhookProblem(client, config.namespace, signal);
    if (problem !== undefined) return waiting("webhook-unreachable", problem);
    // Its namespace may have opted out meanwhile.
    await this.pods.refresh();
    return workload.isQueued ? await this.#restart(workload, state, restarts, by) : workload.decision;
  }

  /** Restarts a workload. `#follow` waits until the restart has ended. */
  async #restart(workload: Workload, state: WorkloadState, restarts: readonly Restart[], by: readonly string[]) {
    const { client, now, signal } = this.#deps;
    const { owner } = workload;
    const restart = this.#records.next(restarts, by, workload);
    // If there is no answer, the next read shows whether it was restarted. If it was not, it spends no budget.
    this.#sent.push({ owner, at: restart.at, isOwn: true });
    this.#turns.set(owner.namespace, restart.begun);
    const [at, record] = [stamp(restart.at), encodeRecord([...restarts, restart])];
    const options = { stamp: at, record, fieldManager: "switchback-restart", signal };
    const outcome = await restartWorkload(client, owner, state, options);
    if (outcome.result === "restarted") this.#confirm(owner, state.uid, restart);
    else this.#sent.pop();
    // Restarted, or another client changed it at the same moment.
    if (outcome.result !== "forbidden") return ITS_TURN;
    const text = `the API server refused it: ${describeError(outcome.error)}`;
    return { ...stuck("restart-turn-failed", text), until: now() + REFUSED_MS };
  }

  /** Remembers a restart that has reached its workload, and reports it once. */
  #confirm(owner: Owner, uid: string, restart: Restart): void {
    const { counters, events, log } = this.#deps;
    if (!this.#records.remember(uid, restart)) return;
    counters.restarted.inc();
    log.info({ workload: owner.key, by: restart.by }, "restarted because its pods did not have the current names");
    reportRestart(owner, uid, events);
  }

  /** Looks at the restarts in progress. */
  async #follow(): Promise<void> {
    for (const sent of this.#sent) {
      const state = await this.#read(sent.owner).catch(() => undefined);
      await this.pods.refresh();
      if (this.#hasEnded(sent, state)) this.#sent = this.#sent.filter((each) => each !== sent);
    }
    this.pods.underWay = (this.#sent.find(({ isOwn }) => isOwn) ?? this.#sent[0])?.owner.key;
  }

  /** Whether a restart is complete or has failed. `state`: that of its workload; undefined: the read has failed. */
  #hasEnded({ owner, at, isOwn }: Sent, state: WorkloadState | Decision | undefined): boolean {
    const { config, counters, now, wallClock } = this.#deps;
    const lateMs = config.restart.rolloutSeconds * 1_000;
    if (state === undefined || "code" in state) return state !== undefined || wallClock() >= at + lateMs;
    const restart = this.#records.of(state).at(-1);
    // It did not reach the workload, or somebody else has changed or restarted that: this says nothing about it.
    if (restart?.at !== at || restart.by.length === 0 || state.restartedAt !== stamp(at)) return true;
    if (isOwn) this.#confirm(owner, state.uid, restart);
    const { unsettled, failed } = state;
    const workload = this.pods.workloads.get(owner.key);
    if (unsettled !== undefined && !failed && now() < restart.begun + lateMs) {
      if (workload?.isQueued)
        workload.decision = waiting("restarting", `a restart has been in progress since ${stamp(at)}: ${unsettled}`);
      return false;
    }
    if (unsettled !== undefined) counters.failed.inc();
    else if (workload !== undefined) workload.completed = at;
    this.#count(owner, unsettled !== undefined || (workload !== undefined && isInVain(workload, restart)));
    return true;
  }

  /** Counts the restarts in a row that failed or did not help. Undefined: nothing proves that it did not. */
  #count({ namespace }: Owner, hasFailed: boolean | undefined): void {
    if (hasFailed) addTo(this.#failures, namespace, this.#deps.now());
    else if (hasFailed === false) this.#failures.delete(namespace);
  }

  /** Finds the last restarts of earlier leaders by what pods carry. One may be in progress, others failed. */
  async #recall(): Promise<void> {
    const found = this.pods.workloads.values().filter(({ listed, owner }) => listed && !owner.unrestartable);
    for (const { owner, pods, isQueued } of found) {
      // A restart may have no new pod. Then only the template shows it.
      const state = isQueued ? await this.#read(owner).catch(() => undefined) : undefined;
      const at = state && "uid" in state ? Date.parse(state.restartedAt ?? "") : lastRestart({ pods });
      if (Math.abs(at - this.#deps.wallClock()) < HOLD_MS) this.#sent.push({ owner, at, isOwn: false });
    }
    this.#sent.sort((one, other) => one.at - other.at);
    const byNamespace = Map.groupBy(this.#sent, ({ owner }) => owner.namespace);
    this.#sent = [...byNamespace.values()].flatMap((all) => all.slice(-HOLD_AFTER));
  }

  /** What a restart would change for the stale pods. Undefined: none could be read, or all end. */
  async #compare({ stale }: Workload): Promise<Difference | undefined> {
    const { client, signal } = this.#deps;
    const { holders, select } = this.pods;
    const pathOf = ({ namespace, name }: Workload["stale"][number]) => corePath("pods", namespace, name);
    const some = stale.slice(0, MAX_COMPARED).map((pod) => ifFound(client.get<RawPod>(pathOf(pod), {}, { signal })));
    const read = (await Promise.all(some)).flatMap((pod) => (pod?.metadata?.deletionTimestamp ? [] : (pod ?? [])));
    return select && read.length > 0 ? differenceOf(read, select, holders) : undefined;
  }

  /** The state of a workload, or the decision if it does not exist or must not be read. */
  async #read({ namespace, kind, name }: Owner): Promise<WorkloadState | Decision> {
    const { client, signal } = this.#deps;
    try {
      return workloadState(kind, await client.get<RawWorkload>(workloadPath(namespace, kind, name), {}, { signal }));
    } catch (error) {
      const status = statusOf(error);
      if (status === 404) return waiting("not-available", "the workload does not exist any more");
      if (status !== 403) throw error;
      return stuck("restart-rights-missing", `the controller has no Role in ${namespace}: run helm upgrade again`);
    }
  }
}
