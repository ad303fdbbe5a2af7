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
// ask for nothing for a minute after it.

import { compareNames } from "#hostmap/hostnames.ts";
import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import { restartNamespaces } from "#lib/config/opt-in.ts";
import { TARGETS_NAME } from "#lib/documents/targets-name.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { restartWorkload } from "#lib/workloads/restart.ts";
import { WORKLOAD_KINDS, type WorkloadKind, workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";
import { type Difference, differenceOf, samplesOf, sumOf } from "./difference.ts";
import type { ObserveAgents } from "./live.ts";
import { checkDebounce, checkNeed, checkState, isDecision, RIGHTS_MISSING } from "./may-restart.ts";
import type { RolloutStatus, WorkloadQuery } from "./report.ts";
import { countWorkloads, Reporter, type ReporterDeps, type RolloutMetricsInput, rolloutStatus } from "./report.ts";
import { encodeRecord, type Restart, RestartRecords, stamp } from "./restart-record.ts";
import { StalePods } from "./stale-pods.ts";
import { type Decision, type RestartRules, stuck, type Workload, waiting } from "./workload.ts";

/** The code while a workload does not exist. */
const GONE = "not-available";

export interface RestarterDeps extends ReporterDeps {
  readonly client: KubeClient;
  readonly config: ConstructorParameters<typeof StalePods>[0]["config"];
  /** Undefined: no agent edits the hosts files of running pods. */
  readonly observeAgents?: ObserveAgents | undefined;
  readonly log: Logger;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970, for recorded times. */
  readonly wallClock: () => number;
}

/** A restart whose rollout is not complete. */
interface UnderWay {
  readonly owner: Owner;
  readonly uid: string;
  readonly restart: Restart;
  /** What new pods should get. Undefined: another leader began the restart. */
  readonly to: string | undefined;
  /** When it was seen as rolled out. */
  settledAt?: number;
}

/** A workload that may be restarted now. */
interface Ready {
  readonly workload: Workload;
  readonly state: WorkloadState;
  readonly restarts: readonly Restart[];
  readonly by: readonly string[];
}

/** Field manager of the restarts. `kubectl get -o yaml --show-managed-fields` shows it. */
const FIELD_MANAGER = "switchback-restart";
const CONFIGURATION = resourcePath({
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "mutatingwebhookconfigurations",
  name: "switchback-webhook",
});
/** Changes that arrive together are evaluated together. */
const SETTLE_MS = 100;
const POLL_MS = 1_000;
const RETRY_MS = 5_000;
/** Longest time between two turns. */
const IDLE_MS = 15_000;
/** A workload whose state is against a restart is read again after this time, and at most ten of them a second. */
const AGAIN_MS = 2_000;
const AGAIN_EACH_MS = 100;
/** Longer waits: after a refusal, and for pods that already have their names. */
const REFUSED_MS = 30_000;
const SAME_MS = 3_600_000;
/** How long pods of a complete rollout may take to be seen. */
const SEEN_MS = 10_000;
const WEBHOOK_MS = 2_000;
/** Restarts of another leader that are older than this are not followed. */
const RECALLED_MS = 3_600_000;

/**
 * Restarts the workloads of stale pods: the leader's work for one term, until `signal` aborts. One loop does everything:
 * the workload that has waited longest comes first, and the next one waits until the restart of the last is complete.
 */
export class Restarter {
  readonly #deps: RestarterDeps;
  readonly #signal: AbortSignal;
  readonly #rules: RestartRules;
  readonly #pods: StalePods;
  readonly #records: RestartRecords;
  readonly #reporter: Reporter;
  readonly #loop: Reconciler;
  readonly #ended = Promise.withResolvers<void>();
  #isRecalled = false;
  #underWay: UnderWay | undefined;
  /** The last restarts in a row that failed or did not help, and when that was seen. */
  #failures: ReadonlyArray<UnderWay & { readonly at: number }> = [];
  #lookAtFailuresAt = 0;
  /** When an agent may have become silent. */
  #agentsAt = 0;

  constructor(deps: RestarterDeps, signal: AbortSignal) {
    const { client, config, log, now, wallClock, observeAgents } = deps;
    this.#deps = deps;
    this.#signal = signal;
    this.#rules = config.restart;
    this.#records = new RestartRecords(now, wallClock);
    this.#reporter = new Reporter(deps);
    this.#loop = new Reconciler({
      reconcile: () => this.#turn(),
      retry: {
        backoff: createBackoff(RETRY_MS, RETRY_MS),
        onError: (error) => {
          if (!signal.aborted) log.warn({ code: "restart-turn-failed" }, describeError(error));
        },
      },
    });
    this.#pods = new StalePods({
      client,
      config,
      log,
      observeAgents,
      now,
      onChange: () => this.#loop.enqueue(SETTLE_MS),
      onEvaluated: (workload) => this.#reporter.report(workload),
    });
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
    const { dryRun } = this.#rules;
    const key = this.#underWay?.owner.key ?? "";
    const underWay = workloads.get(key)?.decision.code === "restarting" ? key : undefined;
    return rolloutStatus({ unknown, dryRun, underWay, workloads, records: this.#records }, query);
  }

  /** The counts of opted-in workloads and pods; undefined: not known. */
  counts(): RolloutMetricsInput | undefined {
    if (this.#pods.unknown !== undefined) return undefined;
    return { ...countWorkloads(this.#pods.workloads.values()), agents: this.#pods.countAgents() };
  }

  async #turn(): Promise<ReconcileResult> {
    if (this.#pods.unknown !== undefined) return { requeueAfter: IDLE_MS };
    if (this.#deps.now() >= this.#agentsAt) this.#pods.touchLive();
    await this.#pods.refresh();
    if (!this.#isRecalled) await this.#recall();
    this.#isRecalled = true;
    if (this.#underWay !== undefined) await this.#follow(this.#underWay);
    const held = await this.#heldUntil();
    const queue = [...this.#pods.queue].sort(byWait);
    let before = this.#underWay === undefined ? 0 : 1;
    let ready: Ready | undefined;
    for (const workload of queue) {
      if (this.#signal.aborted) return {};
      if (!this.#pods.queue.has(workload) || workload.owner.key === this.#underWay?.owner.key) continue;
      const isFree = ready === undefined && this.#underWay === undefined;
      if ((workload.decision.until ?? 0) > this.#deps.now()) continue;
      const early = checkDebounce(workload, this.#rules, this.#deps.now());
      if (early !== undefined) this.#decide(workload, early);
      else if (held !== undefined) this.#decide(workload, held);
      else if (isFree) ready = await this.#look(workload, queue.length);
      else this.#decide(workload, waiting("its-turn", `one workload at a time; ${before} before it`));
      if (workload.decision.code === "its-turn" || ready?.workload === workload) before += 1;
    }
    if (ready !== undefined) await this.#restart(ready, queue);
    return { requeueAfter: this.#sleepMs() };
  }

  /** Reads a workload when it is its turn. Returns it if it may be restarted now; else it has a decision. */
  async #look(workload: Workload, waitingFor: number): Promise<Ready | undefined> {
    const { now } = this.#deps;
    const againAt = now() + Math.max(AGAIN_MS, waitingFor * AGAIN_EACH_MS);
    const decide = (decision: Decision, until = againAt) => this.#decide(workload, { until, ...decision });
    const state = await this.#read(workload.owner);
    if (!isState(state)) return decide(state);
    const isNews = workload.read?.onChange !== state.onChange || workload.liveByDefault;
    workload.read = { onChange: state.onChange, at: now() };
    if (isNews) {
      this.#pods.touch(workload);
      await this.#pods.refresh();
      if (!this.#pods.queue.has(workload)) return undefined;
    }
    const restarts = this.#records.of(state);
    if ("code" in restarts) return decide(stuck(restarts.code, restarts.text));
    const { published } = this.#pods.map ?? {};
    const subject = { workload, rules: this.#rules, now: now(), state, restarts, published };
    const decision = checkState(subject);
    const last = restarts.at(-1);
    if (decision?.code === "restarting" && last !== undefined)
      this.#underWay = { owner: workload.owner, uid: state.uid, restart: last, to: undefined };
    if (decision !== undefined) return decide(decision);
    const difference = await this.#compare(workload);
    if (difference === undefined) return decide(waiting("not-available", "its pods could not be read"));
    const by = checkNeed(subject, difference);
    if (isDecision(by)) return decide(by, by.standing === "in-step" ? now() + SAME_MS : againAt);
    if (this.#rules.dryRun)
      return decide(waiting("dry-run", "would be restarted; restart.dryRun is on"), now() + IDLE_MS);
    return { workload, state, restarts, by };
  }

  /** Restarts a workload, unless the API server cannot call the webhook: then its new pods would not have the names. */
  async #restart({ workload, state, restarts, by }: Ready, queue: readonly Workload[]): Promise<void> {
    const { client, now, log } = this.#deps;
    const problem = await this.#webhookProblem();
    if (problem !== undefined) {
      for (const each of queue) {
        if (each === workload || each.decision.code === "its-turn")
          this.#decide(each, waiting("webhook-unreachable", problem, now() + WEBHOOK_MS));
      }
      return;
    }
    const { owner } = workload;
    const restart = this.#records.next(restarts, by);
    const all = [...restarts, restart];
    // If the answer gets lost, the restart counts.
    const settle = waiting("its-turn", "another client changed it at the same moment", now() + POLL_MS);
    this.#decide(workload, { ...settle, text: "the API server's answer is missing", until: now() + REFUSED_MS });
    const outcome = await restartWorkload(client, nameOf(owner), state, {
      stamp: stamp(restart.at),
      record: encodeRecord(all),
      fieldManager: FIELD_MANAGER,
      signal: this.#signal,
    }).catch((error: unknown) => {
      this.#records.add(state.uid, all);
      throw error;
    });
    if (outcome.result === "restarted") {
      this.#records.add(state.uid, all);
      this.#underWay = { owner, uid: state.uid, restart, to: workload.to };
      this.#reporter.restarted(workload, state.uid, by);
      this.#decide(workload, waiting("restarting", `a restart has been in progress since ${stamp(restart.at)}`));
    } else if (outcome.result === "forbidden") {
      this.#reporter.count("forbidden");
      const text = describeError(outcome.error);
      this.#decide(workload, {
        ...stuck(RIGHTS_MISSING, `the API server refused it: ${text}`),
        until: now() + REFUSED_MS,
      });
    } else {
      if (outcome.result === "conflict") this.#reporter.count("conflict");
      log.debug({ workload: owner.key, result: outcome.result }, "a restart met another change");
      this.#decide(workload, settle);
    }
  }

  /** Waits for the end of a restart: until the next turn, or it is complete, or it failed. */
  async #follow(underWay: UnderWay): Promise<void> {
    const { now } = this.#deps;
    const { owner, restart, uid } = underWay;
    const state = await this.#read(owner);
    const isThere = isState(state) && state.uid === uid;
    const isOurs = isThere && state.restartedAt === stamp(restart.at);
    const isLate = now() >= restart.begun + this.#rules.rolloutSeconds * 1_000;
    if (isThere && state.unsettled !== undefined && !isLate && !(isOurs && state.failed)) {
      const since = `a restart has been in progress since ${stamp(restart.at)}: ${state.unsettled}`;
      return this.#stays(underWay, since);
    }
    if (!isState(state) && state.code !== GONE && !isLate) return this.#stays(underWay, state.text);
    const workload = this.#pods.workloads.get(owner.key);
    const isFailed = isOurs && state.unsettled !== undefined;
    underWay.settledAt ??= now();
    const isSeen = workload?.stale.every(({ restartedAt }) => restartedAt === stamp(restart.at)) ?? true;
    if (isOurs && !isFailed && !isSeen && now() < underWay.settledAt + SEEN_MS)
      return this.#stays(underWay, `restarted at ${stamp(restart.at)}; its old pods are ending`);
    this.#underWay = undefined;
    const isInVain = isOurs && workload?.to === underWay.to && this.#hasStale(underWay);
    if (isFailed || isInVain)
      this.#failures = [...this.#failures, { ...underWay, at: now() }].slice(-this.#rules.holdAfter);
    else if (isOurs) this.#failures = [];
    this.#reporter.ended(owner.key, isFailed ? "failed" : isInVain ? "in-vain" : isOurs ? "done" : "replaced");
    if (workload !== undefined && this.#pods.queue.has(workload))
      this.#decide(workload, waiting("its-turn", "just restarted"));
  }

  #stays({ owner: { key } }: UnderWay, text: string): void {
    const workload = this.#pods.workloads.get(key);
    if (workload !== undefined && this.#pods.queue.has(workload)) this.#decide(workload, waiting("restarting", text));
  }

  #hasStale({ owner, restart }: UnderWay): boolean {
    const stale = this.#pods.workloads.get(owner.key)?.stale ?? [];
    return stale.some(({ restartedAt }) => restartedAt === stamp(restart.at));
  }

  /** The decision for all workloads while restarts are held. A repair of one of the failed workloads ends this. */
  async #heldUntil(): Promise<Decision | undefined> {
    const { holdAfter, holdSeconds } = this.#rules;
    const last = this.#failures.at(-1);
    if (last === undefined || this.#failures.length < holdAfter) return undefined;
    const until = last.at + holdSeconds * 1_000;
    const now = this.#deps.now();
    if (now >= until) return undefined;
    if (now >= this.#lookAtFailuresAt) {
      this.#lookAtFailuresAt = now + RETRY_MS;
      for (const failure of this.#failures) if (await this.#isRepaired(failure)) this.#failures = [];
      if (this.#failures.length === 0) return undefined;
    }
    const minutes = Math.ceil((until - now) / 60_000);
    const text = `the last ${holdAfter} restarts failed or did not bring the names into the pods`;
    return waiting("restarts-held", `${text}: no restart for ${minutes} min`, Math.min(until, now + RETRY_MS));
  }

  async #isRepaired(failure: UnderWay): Promise<boolean> {
    const state = await this.#read(failure.owner);
    if (!isState(state)) return state.code === GONE;
    if (state.uid !== failure.uid || state.restartedAt !== stamp(failure.restart.at)) return true;
    return state.unsettled === undefined && !this.#hasStale(failure);
  }

  /** Reads the restarts of earlier leaders: one may be under way, and the last ones may have failed. */
  async #recall(): Promise<void> {
    const { client, config, now } = this.#deps;
    const open: UnderWay[] = [];
    for (const namespace of restartNamespaces(config)) {
      for (const kind of WORKLOAD_KINDS) {
        const path = workloadPath(namespace, kind);
        const { items } = await client
          .list<ApiObject>(path, {}, { accept: METADATA_LIST, signal: this.#signal })
          .catch((error: unknown) => {
            // The namespace has no Role yet. Its workloads say so when it is their turn.
            if (statusOf(error) !== 403) throw error;
            return { items: [] };
          });
        for (const item of items) {
          const seen = workloadState(kind, { metadata: item.metadata ?? {} });
          const restarts = this.#records.of(seen);
          const last = "code" in restarts ? undefined : restarts.at(-1);
          const name = item.metadata?.name ?? "";
          const owner = { namespace, kind, name, key: `${namespace}/${kind}/${name}`, unrestartable: undefined };
          if (last !== undefined && last.begun > now() - RECALLED_MS)
            open.push({ owner, uid: seen.uid, restart: last, to: undefined });
        }
      }
    }
    open.sort((one, other) => one.restart.at - other.restart.at);
    for (const each of open) {
      const state = await this.#read(each.owner);
      if (!isState(state) || state.unsettled === undefined || state.restartedAt !== stamp(each.restart.at)) continue;
      const isOver = state.failed || now() >= each.restart.begun + this.#rules.rolloutSeconds * 1_000;
      if (isOver)
        this.#failures = [...this.#failures, { ...each, at: each.restart.begun }].slice(-this.#rules.holdAfter);
      else this.#underWay = each;
    }
  }

  /** The state of a workload, or the decision if it cannot be read. */
  async #read({ namespace, kind, name }: Owner): Promise<WorkloadState | Decision> {
    try {
      const path = workloadPath(namespace, kind as WorkloadKind, name);
      return workloadState(
        kind as WorkloadKind,
        await this.#deps.client.get<RawWorkload>(path, {}, { signal: this.#signal }),
      );
    } catch (error) {
      const status = statusOf(error);
      if (status === 404) return waiting(GONE, "the workload does not exist any more");
      if (status !== 403) throw error;
      return stuck(
        RIGHTS_MISSING,
        `workloads of ${namespace} may be restarted, but the controller has no Role there: run helm upgrade now that ` +
          "the namespace exists",
      );
    }
  }

  /** What a restart would change for the stale pods. Undefined: no pod could be read. */
  async #compare({ stale }: Workload): Promise<Difference | undefined> {
    const { map } = this.#pods;
    const found: Difference[] = [];
    for (const { namespace, name } of samplesOf(stale)) {
      const raw = await this.#readPod(namespace, name);
      if (raw !== undefined && map !== undefined)
        found.push(differenceOf(raw, this.#pods.select(raw.metadata?.annotations?.[HOSTS_KEY]), map));
    }
    return found.length === 0 ? undefined : sumOf(found);
  }

  async #readPod(namespace: string, name: string): Promise<RawPod | undefined> {
    try {
      return await this.#deps.client.get<RawPod>(corePath("pods", namespace, name), {}, { signal: this.#signal });
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
      return undefined;
    }
  }

  /**
   * Why a new pod would not be injected. For the dry run, which changes nothing, the API server calls the webhook by the
   * chart's entry `reachable.switchback.dev`, on its own route (kube-proxy, a firewall) and with its own copy of
   * caBundle: entries for pods fail open. Without the configuration, for example during an uninstall, it calls nothing.
   */
  async #webhookProblem(): Promise<string | undefined> {
    const { client, config } = this.#deps;
    try {
      await client.get(CONFIGURATION, {}, { signal: this.#signal });
      await client.mergePatch(corePath("configmaps", config.namespace, TARGETS_NAME), {}, { dryRun: true });
      return undefined;
    } catch (error) {
      this.#signal.throwIfAborted();
      return `the API server cannot call the webhook: ${describeError(error)}`;
    }
  }

  #decide(workload: Workload, decision: Decision): undefined {
    workload.decision = decision;
    this.#reporter.report(workload);
  }

  #sleepMs(): number {
    const now = this.#deps.now();
    this.#agentsAt = Math.min(now + IDLE_MS, this.#pods.agents?.nextSilence() ?? Number.POSITIVE_INFINITY);
    let at = this.#underWay === undefined ? this.#agentsAt : now + POLL_MS;
    for (const { decision } of this.#pods.queue) at = Math.min(at, decision.until ?? at);
    return Math.max(SETTLE_MS, at - now);
  }

  async #end(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#pods.stop()]);
    this.#ended.resolve();
  }
}

/** The longest wait comes first. */
function byWait(one: Workload, other: Workload): number {
  return one.staleSince - other.staleSince || compareNames(one.owner.key, other.owner.key);
}

function isState(result: WorkloadState | Decision): result is WorkloadState {
  return "uid" in result;
}

function nameOf({ namespace, kind, name }: Owner) {
  return { namespace, kind: kind as WorkloadKind, name };
}
