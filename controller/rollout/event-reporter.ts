import { HOSTS_KEY } from "../../hostmap/metadata-keys.ts";
import { type EventRecorder, eventReason, type Regarding } from "../../kube/events.ts";
import type { Logger } from "../../telemetry/log.ts";
import { partsOf } from "../../workloads/workload-keys.ts";
import type { WorkloadGroup } from "./observe-workloads.ts";
import type { RestartEvent } from "./reconciler.ts";
import type { RolloutVerdict } from "./workload-facts.ts";

/** Counters that the engine moves; `metrics.ts` has the real ones. */
export interface RestartCounters {
  readonly restarted: () => void;
  readonly conflict: () => void;
  readonly forbidden: () => void;
  readonly outcome: (outcome: string) => void;
}

/** Tells people: a log line and an Event when something becomes so, not while it stays so. */
export class EventReporter {
  readonly #deps: { readonly events: EventRecorder; readonly log: Logger; readonly counters: RestartCounters };
  /** By workload, the code that was reported last. */
  readonly #reported = new Map<string, string>();
  readonly #overCap = new Map<string, string>();

  constructor(deps: { events: EventRecorder; log: Logger; counters: RestartCounters }) {
    this.#deps = deps;
  }

  /** What the engine did. */
  did(what: RestartEvent, group: WorkloadGroup | undefined): void {
    const { log, counters } = this.#deps;
    if (what.kind === "restarted") {
      const { from, to } = what.restart;
      counters.restarted();
      log.info({ workload: what.key, from, to }, "restarted, so that its pods get the current names");
      const note = `restarted by Switchback: its pods had not the current public names (${to})`;
      this.#event("Normal", "Restarted", note, what.key, group);
    } else if (what.kind === "outcome") {
      counters.outcome(what.outcome);
      log.info({ workload: what.key, outcome: what.outcome }, "restart ended");
    } else counters[what.kind]();
  }

  /** What is so now: workloads that stay as they are until somebody does something, and pods that cannot have every name. */
  report(groups: readonly WorkloadGroup[], verdicts: ReadonlyMap<string, RolloutVerdict>): void {
    const byKey = new Map(groups.map((group) => [group.owner.key, group]));
    for (const memory of [this.#reported, this.#overCap]) {
      for (const key of memory.keys()) if (!byKey.has(key)) memory.delete(key);
    }
    for (const [key, group] of byKey) {
      this.#stuck(key, group, verdicts.get(key));
      this.#cap(key, group);
    }
  }

  #stuck(key: string, group: WorkloadGroup, verdict: RolloutVerdict | undefined): void {
    const code = verdict?.standing === "stuck" ? verdict.code : "";
    if ((this.#reported.get(key) ?? "") === code) return;
    this.#reported.set(key, code);
    if (verdict === undefined || code === "") return;
    const note = `${group.stale.length} of ${group.pods} pods have not the current public names: ${verdict.text}`;
    this.#deps.log.warn({ workload: key, code, stale: group.stale.length }, note);
    this.#event("Warning", eventReason(code), note, key, group);
  }

  #cap(key: string, group: WorkloadGroup): void {
    const { overCap } = group;
    const text = overCap === undefined ? "" : `${overCap.cap} of ${overCap.total}`;
    if ((this.#overCap.get(key) ?? "") === text) return;
    this.#overCap.set(key, text);
    if (overCap === undefined) return;
    const note = `only the first ${text} mapped names are in its pods; choose fewer with the annotation ${HOSTS_KEY}`;
    this.#event("Warning", "OverCap", note, key, group);
  }

  #event(
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

/** The workload if it was read, since an Event shows up by the uid of its object; else one of its pods. */
function regardingOf(key: string, group: WorkloadGroup | undefined): Regarding | undefined {
  const { namespace, kind, name } = partsOf(key);
  const state = group?.observed.state;
  if (state !== undefined && typeof state !== "string") {
    return { apiVersion: "apps/v1", kind, namespace, name, uid: state.uid };
  }
  const pod = group?.stale[0] ?? group?.first;
  return pod && { apiVersion: "v1", kind: "Pod", namespace, name: pod.name, uid: pod.uid };
}
