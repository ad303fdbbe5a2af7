import type { RolloutStatus, WorkloadStatus } from "../controller/rollout/rollout-status.ts";
import type { FullStatus, NameStatus } from "../controller/status.ts";

/** The status without its two long lists. */
export type Summary = Omit<FullStatus, "names" | "running"> & {
  readonly running?: Omit<RolloutStatus, "workloads"> | undefined;
};

/** Changes of one list. An entry keeps its number as long as it exists; an entry that changed is sent whole. */
export interface Changes<T> {
  readonly set?: readonly (readonly [id: number, entry: T])[] | undefined;
  readonly gone?: readonly number[] | undefined;
}

/**
 * What the page is sent, one after the other, as server-sent events. A subscription starts with `begin`, which empties what the page has;
 * what follows counts from the next `summary` on.
 */
export type FeedMessage =
  | { readonly type: "begin"; readonly place: string; readonly canExamine: boolean }
  | ({ readonly type: "names" } & Changes<NameStatus>)
  | ({ readonly type: "workloads" } & Changes<WorkloadStatus>)
  /** `at`: when it was read, milliseconds since 1970. */
  | { readonly type: "summary"; readonly at: number; readonly summary: Summary }
  /** The status could not be read, and stays as it was. */
  | { readonly type: "unknown"; readonly at: number; readonly text: string };
