import { restartNamespaces } from "#lib/config/opt-in.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { ApiObject, ObjectMeta } from "#lib/kube/types.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { WORKLOAD_KINDS, type WorkloadKind, workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";
import { rightsMissing } from "./may-restart.ts";
import type { Reporter } from "./report.ts";
import { type Restart, type RestartRecords, stamp } from "./restart-record.ts";
import type { StalePods } from "./stale-pods.ts";
import { type Decision, type RestartConfig, type Workload, waiting } from "./workload.ts";

/** A restart that was sent. */
interface Rollout {
  readonly owner: Owner;
  readonly uid: string;
  readonly restart: Restart;
  /** What new pods should get. Undefined: another leader began the restart. */
  readonly to: string | undefined;
  /** When it was seen as rolled out, or as failed. */
  endedAt?: number;
}

/** Time between two looks at failed rollouts, while restarts are held. */
const LOOK_MS = 5_000;
/** How long pods of a complete rollout may take to be seen. */
const SEEN_MS = 10_000;
/** Restarts of another leader that are older than this are not followed. */
const RECALLED_MS = 3_600_000;
/** The code while a workload does not exist. */
const GONE = "not-available";

interface RolloutsDeps {
  readonly client: KubeClient;
  readonly config: RestartConfig;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  readonly pods: StalePods;
  readonly records: RestartRecords;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

/** The restart that is under way, and the last ones that failed. There is at most one under way. */
export class Rollouts {
  readonly #deps: RolloutsDeps;
  #current: Rollout | undefined;
  /** The last restarts in a row that failed or did not help. */
  #failures: readonly Rollout[] = [];
  #lookAt = 0;

  constructor(deps: RolloutsDeps) {
    this.#deps = deps;
  }

  /** The `namespace/Kind/name` of the workload whose restart is under way. */
  get underWay(): string | undefined {
    return this.#current?.owner.key;
  }

  /** A restart was sent, or is seen. */
  begin(rollout: Rollout): void {
    this.#current = rollout;
  }

  /** Looks at the restart under way. Afterwards none is under way if it is complete, failed or replaced. */
  async follow(): Promise<void> {
    const rollout = this.#current;
    if (rollout === undefined) return;
    const { pods } = this.#deps;
    const { owner } = rollout;
    const state = await this.#read(rollout);
    const workload = pods.workloads.get(owner.key);
    const goesOn = this.#goesOn(rollout, state, workload);
    if (goesOn !== undefined) {
      if (workload !== undefined && pods.queue.has(workload)) this.#decide(workload, waiting("restarting", goesOn));
      return;
    }
    this.#current = undefined;
    this.#end(rollout, state);
    if (workload !== undefined && pods.queue.has(workload))
      this.#decide(workload, waiting("its-turn", "just restarted"));
  }

  /** The decision for all workloads while restarts are held. A repair of one of the failed workloads ends this. */
  async held(): Promise<Decision | undefined> {
    const { holdAfter, holdSeconds } = this.#deps.config.restart;
    const now = this.#deps.now();
    const until = (this.#failures.at(-1)?.endedAt ?? 0) + holdSeconds * 1_000;
    if (this.#failures.length < holdAfter || now >= until) return undefined;
    if (now >= this.#lookAt) {
      this.#lookAt = now + LOOK_MS;
      for (const failure of this.#failures) if (await this.#isRepaired(failure)) this.#failures = [];
      if (this.#failures.length === 0) return undefined;
    }
    const text = `the last ${holdAfter} restarts failed or did not bring the names into the pods`;
    const minutes = Math.ceil((until - now) / 60_000);
    return waiting("restarts-held", `${text}: no restart for ${minutes} min`, Math.min(until, this.#lookAt));
  }

  /** Reads the restarts of earlier leaders: one may be under way, and the last ones may have failed. */
  async recall(): Promise<void> {
    const recent: Rollout[] = [];
    for (const namespace of restartNamespaces(this.#deps.config)) {
      for (const kind of WORKLOAD_KINDS) {
        const all = await this.#list(namespace, kind);
        recent.push(...all.flatMap(({ metadata = {} }) => this.#recentOf(namespace, kind, metadata) ?? []));
      }
    }
    recent.sort((one, other) => one.restart.at - other.restart.at);
    for (const rollout of recent) {
      const state = await this.#read(rollout);
      if (!isState(state) || state.unsettled === undefined || state.restartedAt !== stamp(rollout.restart.at)) continue;
      if (state.failed || this.#isLate(rollout)) this.#fail({ ...rollout, endedAt: rollout.restart.begun });
      else this.#current = rollout;
    }
  }

  /** The last restart in the record of a workload, if it is recent. */
  #recentOf(namespace: string, kind: WorkloadKind, metadata: ObjectMeta): Rollout | undefined {
    const state = workloadState(kind, { metadata });
    const restarts = this.#deps.records.of(state);
    const restart = "code" in restarts ? undefined : restarts.at(-1);
    if (restart === undefined || restart.begun <= this.#deps.now() - RECALLED_MS) return undefined;
    const name = { namespace, kind, name: metadata.name ?? "" };
    const owner = { ...name, key: workloadKey(name), unrestartable: undefined };
    return { owner, uid: state.uid, restart, to: undefined };
  }

  #end(rollout: Rollout, state: WorkloadState | Decision): void {
    const { now, reporter, pods } = this.#deps;
    const { owner, restart, to } = rollout;
    rollout.endedAt = now();
    if (!isState(state) || state.restartedAt !== stamp(restart.at)) {
      // Somebody else has restarted or changed it, or it is gone: that says nothing about ours.
      reporter.ended(owner.key, "replaced");
      return;
    }
    const isInVain = pods.workloads.get(owner.key)?.to === to && this.#hasStale(rollout);
    const outcome = state.unsettled !== undefined ? "failed" : isInVain ? "in-vain" : "done";
    if (outcome === "done") this.#failures = [];
    else this.#fail(rollout);
    reporter.ended(owner.key, outcome);
  }

  /** What a restart still waits for. Undefined: it has ended. */
  #goesOn(rollout: Rollout, state: WorkloadState | Decision, workload: Workload | undefined): string | undefined {
    const at = stamp(rollout.restart.at);
    if (!isState(state)) return state.code === GONE || this.#isLate(rollout) ? undefined : state.text;
    const isOurs = state.restartedAt === at;
    if (state.uid !== rollout.uid) return undefined;
    if (state.unsettled !== undefined) {
      const isOver = this.#isLate(rollout) || (isOurs && state.failed);
      return isOver ? undefined : `a restart has been in progress since ${at}: ${state.unsettled}`;
    }
    rollout.endedAt ??= this.#deps.now();
    const isSeen = workload?.stale.every(({ restartedAt }) => restartedAt === at) ?? true;
    if (!isOurs || isSeen || this.#deps.now() >= rollout.endedAt + SEEN_MS) return undefined;
    return `restarted at ${at}; its old pods are ending`;
  }

  async #isRepaired(failure: Rollout): Promise<boolean> {
    const state = await this.#read(failure);
    if (!isState(state)) return state.code === GONE;
    if (state.uid !== failure.uid || state.restartedAt !== stamp(failure.restart.at)) return true;
    return state.unsettled === undefined && !this.#hasStale(failure);
  }

  #fail(rollout: Rollout): void {
    this.#failures = [...this.#failures, rollout].slice(-this.#deps.config.restart.holdAfter);
  }

  #isLate({ restart }: Rollout): boolean {
    return this.#deps.now() >= restart.begun + this.#deps.config.restart.rolloutSeconds * 1_000;
  }

  /** Whether the new pods of a restart are stale. */
  #hasStale({ owner, restart }: Rollout): boolean {
    const stale = this.#deps.pods.workloads.get(owner.key)?.stale ?? [];
    return stale.some(({ restartedAt }) => restartedAt === stamp(restart.at));
  }

  #decide(workload: Workload, decision: Decision): void {
    workload.decision = decision;
    this.#deps.reporter.report(workload);
  }

  /** If the API server cannot read the object at all, the restart is followed until it is late. */
  async #read({ owner }: Rollout): Promise<WorkloadState | Decision> {
    return await readWorkload(this.#deps.client, owner, this.#deps.signal).catch((error: unknown) => {
      if (statusOf(error) !== 500) throw error;
      return waiting("restarting", describeError(error));
    });
  }

  /** The metadata of the workloads of one kind. A namespace without our Role has none: each says so at its turn. */
  async #list(namespace: string, kind: WorkloadKind): Promise<readonly ApiObject[]> {
    const { client, signal } = this.#deps;
    try {
      const options = { accept: METADATA_LIST, signal };
      return (await client.list<ApiObject>(workloadPath(namespace, kind), {}, options)).items;
    } catch (error) {
      if (statusOf(error) !== 403) throw error;
      return [];
    }
  }
}

/** The state of a workload, or the decision if it does not exist or must not be read. */
export async function readWorkload(
  client: Pick<KubeClient, "get">,
  { namespace, kind, name }: Owner,
  signal: AbortSignal,
): Promise<WorkloadState | Decision> {
  try {
    const path = workloadPath(namespace, kind as WorkloadKind, name);
    return workloadState(kind as WorkloadKind, await client.get<RawWorkload>(path, {}, { signal }));
  } catch (error) {
    if (statusOf(error) === 404) return waiting(GONE, "the workload does not exist any more");
    if (statusOf(error) !== 403) throw error;
    const why = "but the controller has no Role there: run helm upgrade now that the namespace exists";
    return rightsMissing(`workloads of ${namespace} may be restarted, ${why}`);
  }
}

export function isState(result: WorkloadState | Decision): result is WorkloadState {
  return "uid" in result;
}
