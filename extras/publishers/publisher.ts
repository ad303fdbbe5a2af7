import type { Reason } from "#hostmap/types.ts";
import type { PublisherMap } from "./publisher-map.ts";

/** What a publisher did with a map. */
export interface PublishOutcome {
  /** Names of the map that are published now. */
  readonly names: number;
  /** Other names of the map, which cannot be published this way. */
  readonly leftOut: number;
  /** Why some or all names are not published. */
  readonly problem?: Reason | undefined;
  /** Nothing of the map was written, because of `problem`: what was published before stays. */
  readonly refused?: boolean;
}

/** What is where a publisher writes. */
export type Presence =
  | { readonly kind: "as-written" }
  /** Somebody has removed or changed what was written. */
  | { readonly kind: "taken-back"; readonly by?: string | undefined };

/** An answer that is none of this publisher, and a question that nobody answered. */
export const NOT_OURS = "not-ours";
export const NO_ANSWER = "no-answer";

/** Gives the map to others than pods that opted in. Calls reject as the client does, and are repeated later. */
export interface Publisher {
  /** As in `switchback publish NAME`. */
  readonly name: string;
  /** Where it writes, for people. Its document has it: where the text differs, what is published is somewhere else. */
  readonly place: string;
  /** Shortest time between two publications, milliseconds, where the setting is not the right one for it. */
  readonly minIntervalMs?: number;
  /** What it writes becomes records of a DNS zone, where a wildcard of one label covers any number of labels. */
  readonly writesRecords?: true;
  /** What was there before the first write, to be kept for people. Asked once. */
  original?(): Promise<string | undefined>;
  /**
   * Whether what was published last is still there. A publisher that writes where nobody else does has no need of it.
   */
  presence?(): Promise<Presence>;
  /** Publishes a whole map in place of the one before. Called again with the same map, writes only what is missing. */
  publish(map: PublisherMap): Promise<PublishOutcome>;
  /** Whether anything that it has written is there. */
  isThere(): Promise<boolean>;
  /** Takes every trace out. Called again, changes nothing more. */
  remove(): Promise<void>;
  /** Asks as the readers of the names do; absent where that is not possible. Never rejects. */
  readonly readers?: Readers;
}

/** How a publisher learns what its readers get. */
export interface Readers {
  /** The answers to several questions, each once: tags of revisions, `NOT_OURS` or `NO_ANSWER`. */
  ask(): Promise<ReadonlySet<string>>;
  /** How an answer names a revision. */
  tagOf(revision: string): string;
}
