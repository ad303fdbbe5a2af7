import type { WorkloadStatus } from "#controller/rollout/report.ts";
import type { NameStatus } from "#controller/status.ts";
import type { Fact } from "#doctor/fact.ts";
import type { ReportDocument } from "#doctor/report.ts";
import type { CodeAdvice } from "../server/codes.ts";
import type { Changes, Components, FeedMessage, MeasuredState, Summary, TrafficPoint } from "../server/messages.ts";

/** A claimed name, with its number in the feed and the text that a search reads. */
export interface NameRow extends NameStatus {
  readonly id: number;
  readonly searched: string;
}

export interface WorkloadRow extends WorkloadStatus {
  readonly id: number;
  readonly searched: string;
}

type ReadDeployments = Extract<Components["deployments"], { readonly known: true }>["value"];

/** What the page shows. A view is never changed: an update creates a new one. */
export interface View {
  readonly place: string;
  readonly canExamine: boolean;
  /** Undefined until the first status. */
  readonly summary: Summary | undefined;
  /** When the status was read, milliseconds since 1970. */
  readonly at: number | undefined;
  /** Why the status could not be read since then; undefined if the last read was successful. */
  readonly trouble: string | undefined;
  /** Whether the command that serves the page answers. */
  readonly connected: boolean;
  readonly names: readonly NameRow[];
  readonly workloads: readonly WorkloadRow[];
  /** Undefined: not read yet, or there is no cluster. */
  readonly components: Components | undefined;
  /** The last Deployments that could be read. */
  readonly lastDeployments: ReadDeployments | undefined;
  readonly measured: Fact<MeasuredState> | undefined;
  /** What the doctor found, and when; undefined before its first run. */
  readonly examined: { readonly at: number; readonly report: Fact<ReportDocument> } | undefined;
  /** Measurements of the last minutes, the oldest first. */
  readonly traffic: readonly TrafficPoint[];
  /** Causes and remedies, by code. */
  readonly advice: Readonly<Record<string, CodeAdvice>>;
}

/** Maximum number of points: ten minutes, with one every 5 seconds. */
const MAX_POINTS = 120;

const NOTHING: View = {
  place: "",
  canExamine: false,
  summary: undefined,
  at: undefined,
  trouble: undefined,
  connected: false,
  names: [],
  workloads: [],
  components: undefined,
  lastDeployments: undefined,
  measured: undefined,
  examined: undefined,
  traffic: [],
  advice: {},
};

/** Builds views from the messages of the feed, and notifies its listeners of each new view. */
export class PageState {
  #view = NOTHING;
  readonly #names = new Map<number, NameRow>();
  readonly #workloads = new Map<number, WorkloadRow>();
  readonly #listeners = new Set<() => void>();
  /**
   * Whether a list has changed since the last view. An unchanged list stays the same object, because sorting 50,000
   * names again would interrupt scrolling.
   */
  #namesChanged = false;
  #workloadsChanged = false;

  get view(): View {
    return this.#view;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  update(change: Partial<View>): void {
    this.#view = { ...this.#view, ...change };
    for (const listener of this.#listeners) listener();
  }

  take(message: FeedMessage): void {
    switch (message.type) {
      case "begin":
        // The page keeps showing the old status until the new one is complete.
        this.#names.clear();
        this.#workloads.clear();
        this.#namesChanged = true;
        this.#workloadsChanged = true;
        this.update({ place: message.place, canExamine: message.canExamine, connected: true, traffic: [] });
        break;
      case "names":
        apply(this.#names, message, (id, name) => ({ ...name, id, searched: textOfName(name) }));
        this.#namesChanged = true;
        break;
      case "workloads":
        apply(this.#workloads, message, (id, workload) => ({ ...workload, id, searched: textOfWorkload(workload) }));
        this.#workloadsChanged = true;
        break;
      case "summary":
        this.update({
          summary: message.summary,
          at: message.at,
          trouble: undefined,
          ...(this.#namesChanged && { names: [...this.#names.values()] }),
          ...(this.#workloadsChanged && { workloads: [...this.#workloads.values()] }),
        });
        this.#namesChanged = false;
        this.#workloadsChanged = false;
        break;
      case "components":
        this.update({ components: message.components, ...lastDeploymentsOf(message.components) });
        break;
      case "traffic":
        this.update({
          measured: message.measured,
          traffic: [...this.#view.traffic, ...message.points].slice(-MAX_POINTS),
        });
        break;
      case "examined":
        this.update({ examined: { at: message.at, report: message.report } });
        break;
      case "unknown":
        this.update({ trouble: message.text });
    }
  }
}

function lastDeploymentsOf({ deployments }: Components): Partial<View> {
  return deployments.known ? { lastDeployments: deployments.value } : {};
}

function apply<T, Row>(rows: Map<number, Row>, changes: Changes<T>, rowOf: (id: number, entry: T) => Row): void {
  for (const [id, entry] of changes.set ?? []) rows.set(id, rowOf(id, entry));
  for (const id of changes.gone ?? []) rows.delete(id);
}

function textOfName({ name, from, target, reason, warning }: NameStatus): string {
  const parts = [name, `${from.kind} ${from.namespace}/${from.name}`, target, reason?.code, warning?.code];
  return parts
    .filter((part) => part !== undefined)
    .join(" ")
    .toLowerCase();
}

function textOfWorkload({ namespace, kind, name, code, mode }: WorkloadStatus): string {
  return `${namespace}/${kind}/${name} ${namespace}/${name} ${code} ${mode}`.toLowerCase();
}
