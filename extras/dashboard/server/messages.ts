import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus, NameStatus } from "#controller/status.ts";
import type { Fact } from "#doctor/fact.ts";
import type { DeploymentFacts, EndpointFacts, UpdaterInfo } from "#doctor/facts.ts";
import type { ReportDocument } from "#doctor/report.ts";
import type { PublisherReport } from "./publishers.ts";

/** The status without its two long lists. */
export type Summary = Omit<FullStatus, "names" | "running"> & {
  readonly running?: Omit<RolloutStatus, "workloads"> | undefined;
};

/** Changes of one list. An entry keeps its number as long as it exists; an entry that changed is sent whole. */
export interface Changes<T> {
  readonly set?: readonly (readonly [id: number, entry: T])[] | undefined;
  readonly gone?: readonly number[] | undefined;
}

/** The components, as the API server knows them. */
export interface Components {
  readonly deployments: Fact<readonly DeploymentFacts[]>;
  readonly agents: Fact<readonly UpdaterInfo[]>;
  /** How many endpoints of the targets' upstream Services are ready. */
  readonly upstreams: Fact<readonly EndpointFacts[]>;
  readonly publishers: Fact<readonly PublisherReport[]>;
}

/**
 * Measurements between two scrapes of the components, over all replicas. A value is undefined if it is not known.
 * Rates are per second.
 */
export interface TrafficPoint {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Open client connections. */
  readonly open: number | undefined;
  /** Accepted client connections. */
  readonly accepted: number | undefined;
  /** Refused clients, cut connections and failed dials, by cause. */
  readonly errors: Readonly<Record<string, number>> | undefined;
  /**
   * Time to connect to an ingress controller, milliseconds: an upper bound for half of the dials, and for 99 of 100.
   */
  readonly connectMs: readonly [median: number, p99: number] | undefined;
  /** Pods for which the webhook has answered. */
  readonly admitted: number | undefined;
}

/** The current state, according to the components' metrics. */
export interface MeasuredState {
  /** Expiry, Unix seconds, by certificate. */
  readonly certificates: Readonly<Record<string, number>>;
  /**
   * Where the leader is in the rotation of certificates, as a code of docs/codes.md; undefined if no replica reports
   * it.
   */
  readonly rotation?: string | undefined;
  /** Whether the last attempt to maintain the certificates failed. */
  readonly rotationFails?: boolean | undefined;
  /** For each port of a target: how many replicas connected in their last dial, and how many failed. */
  readonly upstreams: readonly {
    readonly target: string;
    readonly port: string;
    readonly good: number;
    readonly failing: number;
  }[];
}

/**
 * The messages to the page, as server-sent events. A subscription starts with `begin`, which empties the page's
 * lists. Changes of the lists take effect with the next `summary`.
 */
export type FeedMessage =
  | { readonly type: "begin"; readonly place: string; readonly canExamine: boolean }
  | ({ readonly type: "names" } & Changes<NameStatus>)
  | ({ readonly type: "workloads" } & Changes<WorkloadStatus>)
  /** `at`: when the status was read, milliseconds since 1970. */
  | { readonly type: "summary"; readonly at: number; readonly summary: Summary }
  | { readonly type: "components"; readonly components: Components }
  /** `points`: the new ones, the oldest first. `measured`: the state at the last read, or why it is not known. */
  | { readonly type: "traffic"; readonly points: readonly TrafficPoint[]; readonly measured: Fact<MeasuredState> }
  /** What the doctor found, or why it could not run. `at`: when, milliseconds since 1970. */
  | { readonly type: "examined"; readonly at: number; readonly report: Fact<ReportDocument> }
  /** The status could not be read. The page keeps the last one. */
  | { readonly type: "unknown"; readonly at: number; readonly text: string };
