import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/rollout-status.ts";
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

/** What runs, as the API server knows it. */
export interface Components {
  readonly deployments: Fact<readonly DeploymentFacts[]>;
  readonly agents: Fact<readonly UpdaterInfo[]>;
  /** How many endpoints of the targets' upstream Services are ready. */
  readonly upstreams: Fact<readonly EndpointFacts[]>;
  readonly publishers: Fact<readonly PublisherReport[]>;
}

/**
 * What was measured between two scrapes of the components, over all replicas; undefined: not known. Rates are per
 * second.
 */
export interface TrafficPoint {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Open client connections. */
  readonly open: number | undefined;
  /** Clients taken in. */
  readonly accepted: number | undefined;
  /** Clients refused, connections cut and addresses not reached, by cause. */
  readonly errors: Readonly<Record<string, number>> | undefined;
  /**
   * Milliseconds to connect to an ingress controller: half of the dials, and all but one of a hundred, took at most
   * so long.
   */
  readonly connectMs: readonly [median: number, p99: number] | undefined;
  /** Pods that the webhook answered. */
  readonly admitted: number | undefined;
}

/** The state that the components' metrics say. */
export interface MeasuredState {
  /** Expiry, Unix seconds, by certificate. */
  readonly certificates: Readonly<Record<string, number>>;
  /** Where the leader is in the rotation of certificates, a code of docs/codes.md; undefined: nobody says. */
  readonly rotation?: string | undefined;
  /** Whether the last attempt to maintain them failed. */
  readonly rotationFails?: boolean | undefined;
  /** Whether the last dial of each replica connected: the number that it did for, and that it failed for. */
  readonly upstreams: readonly {
    readonly target: string;
    readonly port: string;
    readonly good: number;
    readonly failing: number;
  }[];
}

/**
 * What the page is sent, one after the other, as server-sent events. A subscription starts with `begin`, which
 * empties what the page has; what follows counts from the next `summary` on.
 */
export type FeedMessage =
  | { readonly type: "begin"; readonly place: string; readonly canExamine: boolean }
  | ({ readonly type: "names" } & Changes<NameStatus>)
  | ({ readonly type: "workloads" } & Changes<WorkloadStatus>)
  /** `at`: when it was read, milliseconds since 1970. */
  | { readonly type: "summary"; readonly at: number; readonly summary: Summary }
  | { readonly type: "components"; readonly components: Components }
  /** `points`: those that are new, the oldest first. `measured`: as of the last one, or why it is not known. */
  | { readonly type: "traffic"; readonly points: readonly TrafficPoint[]; readonly measured: Fact<MeasuredState> }
  /** What the doctor found, or why it could not run. `at`: when, milliseconds since 1970. */
  | { readonly type: "examined"; readonly at: number; readonly report: Fact<ReportDocument> }
  /** The status could not be read, and stays as it was. */
  | { readonly type: "unknown"; readonly at: number; readonly text: string };
