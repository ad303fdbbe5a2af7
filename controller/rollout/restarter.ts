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
import { TARGETS_NAME } from "#lib/documents/targets-format.ts";
import { describeError, ifFound, statusOf } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { restartWorkload } from "#lib/workloads/restart.ts";
import type { WorkloadKind } from "#lib/workloads/workload-kinds.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import { type Difference, differenceOf, samplesOf, sumOf } from "./difference.ts";
import type { ObserveAgents } from "./live.ts";
import { checkDebounce, checkNeed, checkState, isDecision, rightsMissing } from "./may-restart.ts";
import type { RolloutStatus, WorkloadQuery } from "./report.ts";
import { countWorkloads, Reporter, type ReporterDeps, type RolloutMetricsInput, rolloutStatus } from "./report.ts";
import { encodeRecord, type Restart, RestartRecords, stamp } from "./restart-record.ts";
import { isState, Rollouts, readWorkload } from "./rollouts.ts";
import { StalePods } from "./stale-pods.ts";
import { type Decision, type RestartConfig, type RestartRules, stuck, type Workload, waiting } from "./workload.ts";

export interface RestarterDeps extends ReporterDeps {
  readonly client: KubeClient;
  readonly config: RestartConfig;
  /** Undefined: no agent edits the hosts files of running pods. */
  readonly observeAgents?: ObserveAgents | undefined;
  readonly log: Logger;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970, for recorded times. */
  readonly wallClock: () => number;
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
const WEBHOOK_MS = 2_000;
/**
 * Restarts the workloads of stale pods: the leader's work for one term, until `signal` aborts. One loop does all of it:
 * the workload that has waited longest comes first, and the next one waits until the restart of the last is complete.
 */
export class Restarter {
  readonly #deps: RestarterDeps;
  readonly #signal: AbortSignal;
  readonly #rules: RestartRules;
  readonly #pods: StalePods;
  readonly #records: RestartRecords;
  readonly #reporter: Reporter;
  readonly #rollouts: Rollouts;
  readonly #loop: Reconciler;
  readonly #ended = Promise.withResolvers<void>();
  #isRecalled = false;
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
    const own = { pods: this.#pods, records: this.#records, reporter: this.#reporter };
    this.#rollouts = new Rollouts({ client, config, now, signal, ...own });
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
    const key = this.#rollouts.underWay ?? "";
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
    if (!this.#isRecalled) await this.#rollouts.recall();
    this.#isRecalled = true;
    await this.#rollouts.follow();
    const held = await this.#rollouts.held();
    const queue = [...this.#pods.queue].sort(byWait);
    const ready = await this.#decideAll(queue, held);
    if (ready !== undefined) await this.#restart(ready, queue);
    return { requeueAfter: this.#sleepMs() };
  }

  /** Decides about a sorted queue, up to the first workload that may be restarted now. The others wait. */
  async #decideAll(queue: readonly Workload[], held: Decision | undefined): Promise<Ready | undefined> {
    let before = this.#rollouts.underWay === undefined ? 0 : 1;
    let ready: Ready | undefined;
    for (const workload of queue) {
      if (!this.#isOpen(workload)) continue;
      const early = checkDebounce(workload, this.#rules, this.#deps.now()) ?? held;
      if (early !== undefined) this.#decide(workload, early);
      else if (ready === undefined && this.#rollouts.underWay === undefined)
        ready = await this.#look(workload, queue.length);
      else this.#decide(workload, waiting("its-turn", `one workload at a time; ${before} before it`));
      if (workload.decision.code === "its-turn" || ready?.workload === workload) before += 1;
    }
    return ready;
  }

  /** Whether something may be decided about a workload now. */
  #isOpen(workload: Workload): boolean {
    const isBusy = workload.owner.key === this.#rollouts.underWay;
    return !isBusy && this.#pods.queue.has(workload) && (workload.decision.until ?? 0) <= this.#deps.now();
  }

  /** Looks at a workload. If the API server refuses to read it, the others have their turn. */
  async #look(workload: Workload, waitingFor: number): Promise<Ready | undefined> {
    try {
      return await this.#examine(workload, waitingFor);
    } catch (error) {
      if (statusOf(error) !== 500) throw error;
      const text = describeError(error);
      this.#deps.log.warn({ code: "restart-turn-failed", workload: workload.owner.key }, text);
      return this.#decide(workload, waiting("not-available", text, this.#deps.now() + REFUSED_MS));
    }
  }

  /** Reads a workload when it is its turn. Returns it if it may be restarted now; else it has a decision. */
  async #examine(workload: Workload, waitingFor: number): Promise<Ready | undefined> {
    const { client, now } = this.#deps;
    const againAt = now() + Math.max(AGAIN_MS, waitingFor * AGAIN_EACH_MS);
    const decide = (decision: Decision, until = againAt) => this.#decide(workload, { until, ...decision });
    const state = await readWorkload(client, workload.owner, this.#signal);
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
      this.#rollouts.begin({ owner: workload.owner, uid: state.uid, restart: last, to: undefined });
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
    // Its namespace may have opted out meanwhile.
    await this.#pods.refresh();
    if (!this.#pods.queue.has(workload)) return;
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
      this.#rollouts.begin({ owner, uid: state.uid, restart, to: workload.to });
      this.#reporter.restarted(workload, state.uid, by);
      this.#decide(workload, waiting("restarting", `a restart has been in progress since ${stamp(restart.at)}`));
    } else if (outcome.result === "forbidden") {
      this.#reporter.count("forbidden");
      const text = describeError(outcome.error);
      this.#decide(workload, {
        ...rightsMissing(`the API server refused it: ${text}`),
        until: now() + REFUSED_MS,
      });
    } else {
      if (outcome.result === "conflict") this.#reporter.count("conflict");
      log.debug({ workload: owner.key, result: outcome.result }, "a restart met another change");
      this.#decide(workload, settle);
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
    return await ifFound(
      this.#deps.client.get<RawPod>(corePath("pods", namespace, name), {}, { signal: this.#signal }),
    );
  }

  /**
   * Why a new pod would not be injected. For a dry run, which changes nothing, the API server calls the webhook by the
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
    let at = this.#rollouts.underWay === undefined ? this.#agentsAt : now + POLL_MS;
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

function nameOf({ namespace, kind, name }: Owner) {
  return { namespace, kind: kind as WorkloadKind, name };
}
