import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import { type EventRecorder, eventReason, type Regarding } from "#lib/kube/events.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { partsOf } from "#lib/workloads/workload-keys.ts";
import type { Decisions } from "./cohorts.ts";
import type { GroupSummary, WorkloadGroup } from "./observe-workloads.ts";
import type { RestartEvent } from "./reconciler.ts";
import type { RolloutDecision } from "./workload-facts.ts";

/** Counters of restarts; `metrics.ts` implements them. */
export interface RestartCounters {
  readonly restarted: () => void;
  readonly conflict: () => void;
  readonly forbidden: () => void;
  readonly outcome: (outcome: string) => void;
}

/** Reports changes by a log line and an Event: once when a state begins, not while it lasts. */
export class EventReporter {
  readonly #deps: {
    readonly events: Pick<EventRecorder, "record">;
    readonly log: Logger;
    readonly counters: RestartCounters;
  };
  /** The last reported code of each workload. */
  readonly #reported = new Map<string, string | undefined>();
  readonly #overCap = new Map<string, string | undefined>();

  constructor(deps: { events: Pick<EventRecorder, "record">; log: Logger; counters: RestartCounters }) {
    this.#deps = deps;
  }

  /** Reports one event of a restart. `group` is the workload, if it is known. */
  reportEvent(event: RestartEvent, group: WorkloadGroup | undefined): void {
    const { log, counters } = this.#deps;
    if (event.kind === "restarted") {
      const { from, to } = event.restart;
      counters.restarted();
      log.info({ workload: event.key, from, to }, "restarted because its pods did not have the current names");
      const note = `Restarted by Switchback: its pods did not have the current public names (${to})`;
      this.#record("Normal", "Restarted", note, event.key, group);
    } else if (event.kind === "outcome") {
      counters.outcome(event.outcome);
      log.info({ workload: event.key, outcome: event.outcome }, "restart ended");
    } else counters[event.kind]();
  }

  /** Workloads with a report that still holds. */
  get reported(): Iterable<string> {
    return new Set([...this.#reported.keys(), ...this.#overCap.keys()]);
  }

  /**
   * Reports the workloads that need intervention, and those whose pods cannot have every name. `groupOf` is called
   * only to report a new state.
   */
  report(
    workloads: ReadonlyMap<string, GroupSummary>,
    decisions: Decisions,
    groupOf: (key: string) => WorkloadGroup | undefined,
  ): void {
    for (const reported of [this.#reported, this.#overCap]) {
      for (const key of reported.keys()) if (!workloads.has(key)) reported.delete(key);
    }
    for (const [key, summary] of workloads) {
      this.#reportStuck(key, summary, decisions.get(key), groupOf);
      this.#reportCap(key, summary, groupOf);
    }
  }

  #reportStuck(
    key: string,
    { stale, pods }: GroupSummary,
    decision: RolloutDecision | undefined,
    groupOf: (key: string) => WorkloadGroup | undefined,
  ): void {
    const code = decision?.standing === "stuck" ? decision.code : undefined;
    if (this.#reported.get(key) === code) return;
    const before = this.#reported.get(key);
    this.#reported.set(key, code);
    if (before !== undefined && code === undefined) {
      this.#deps.log.info({ workload: key, before, code: decision?.code }, "the workload is no longer stuck");
    }
    if (decision === undefined || code === undefined) return;
    const note = `${stale} of ${pods} pods do not have the current public names: ${decision.text}`;
    this.#deps.log.warn({ workload: key, code, stale }, note);
    this.#record("Warning", eventReason(code), note, key, groupOf(key));
  }

  #reportCap(key: string, { overCap }: GroupSummary, groupOf: (key: string) => WorkloadGroup | undefined): void {
    const text = overCap && `${overCap.cap} of ${overCap.total}`;
    if (this.#overCap.get(key) === text) return;
    this.#overCap.set(key, text);
    if (text === undefined) return;
    const note = `Pods get only the first ${text} mapped names; select fewer with the annotation ${HOSTS_KEY}`;
    this.#record("Warning", "OverCap", note, key, groupOf(key));
  }

  #record(
    type: "Normal" | "Warning",
    reason: string,
    note: string,
    key: string,
    group: WorkloadGroup | undefined,
  ): void {
    const regarding = regardingOf(key, group);
    if (regarding !== undefined) this.#deps.events.record({ type, reason, action: "Restart", note, regarding });
  }
}

/**
 * The workload if it was read, because `kubectl describe` finds Events by the uid of their object; otherwise one of
 * its pods.
 */
function regardingOf(key: string, group: WorkloadGroup | undefined): Regarding | undefined {
  const { namespace, kind, name } = partsOf(key);
  const state = group?.observed.state;
  if (state !== undefined && typeof state !== "string") {
    return { apiVersion: "apps/v1", kind, namespace, name, uid: state.uid };
  }
  const pod = group?.stale[0] ?? group?.first;
  return pod && { apiVersion: "v1", kind: "Pod", namespace, name: pod.name, uid: pod.uid };
}
