import type { Reason } from "#hostmap/types.ts";
import type { PublisherMap } from "./publisher-map.ts";

/** What a publisher did with a map. */
export interface PublishOutcome {
  /** Number of the map's names that are published now. */
  readonly names: number;
  /** Number of the other names of the map, which cannot be published this way. */
  readonly leftOut: number;
  /** Why some or all names are not published. */
  readonly problem?: Reason | undefined;
  /** True if nothing of the map was written, because of `problem`. What was published before stays. */
  readonly refused?: boolean;
}

/** State of the place where a publisher writes. */
export type Presence =
  | { readonly kind: "as-written" }
  /** Somebody has removed or changed what was written. */
  | { readonly kind: "taken-back"; readonly by?: string | undefined };

/** Results for an answer that is not from this publisher, and for a question without an answer. */
export const NOT_OURS = "not-ours";
export const NO_ANSWER = "no-answer";

/**
 * Gives the map to readers other than opted-in pods. Calls reject as the client does, and the caller retries them.
 */
export interface Publisher {
  /** As in `switchback publish NAME`. */
  readonly name: string;
  /**
   * Where it writes, for people. Its document has the same text. If the document has another text, what is published
   * is in another place.
   */
  readonly place: string;
  /** Shortest time between two publications, milliseconds, if the setting does not fit this publisher. */
  readonly minIntervalMs?: number;
  /** True if it writes records of a DNS zone, where a wildcard of one label covers any number of labels. */
  readonly writesRecords?: true;
  /** What was there before the first write, which is stored for people. Called once. */
  original?(): Promise<string | undefined>;
  /**
   * Whether the last publication is still there. A publisher does not need this if nobody else writes in its place.
   */
  presence?(): Promise<Presence>;
  /**
   * Publishes a whole map, which replaces the previous one. If called again with the same map, writes only what is
   * missing.
   */
  publish(map: PublisherMap): Promise<PublishOutcome>;
  /** Whether anything that it has written is still there. */
  isThere(): Promise<boolean>;
  /** Removes everything that it has written. If called again, changes nothing more. */
  remove(): Promise<void>;
  /** Asks as the readers of the names do; missing if that is not possible. Never rejects. */
  readonly readers?: Readers;
}

/** How a publisher learns what its readers get. */
export interface Readers {
  /** The distinct answers to several questions: tags of revisions, `NOT_OURS` or `NO_ANSWER`. */
  ask(): Promise<ReadonlySet<string>>;
  /** How an answer names a revision. */
  tagOf(revision: string): string;
}
