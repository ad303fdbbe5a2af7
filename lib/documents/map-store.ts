/**
 * Where the leading controller publishes the map, and what it finds there. Names are those of the ConfigMaps.
 *
 * Each write is refused (409) unless the object is as this store last read or wrote it; a name that is not there yet is created,
 * never overwritten. Reads return what was written at once.
 */
export interface MapStore {
  /** Starts the watch. `onChange` is called after each change, whether it is our own or not. */
  start(onChange: () => void): void;
  /** False until everything that is published was seen once. */
  readonly synced: boolean;
  /** Milliseconds since the last event or attempt of the watch; absent where nothing can hang. */
  readonly inactiveMs?: number;
  /** What is published, as far as it is known. */
  index(): PublishedIndex | undefined;
  /** The text of the compact index. */
  compactIndex(): string | undefined;
  shard(name: string): string | undefined;
  shardNames(): readonly string[];
  /** From now on each index is written with a new random mark: its first write in a term changes its version in any case. */
  beginTerm(): void;
  /** Write errors are thrown (SwitchbackError). */
  writeShard(name: string, text: string): Promise<void>;
  writeCompactIndex(text: string): Promise<void>;
  /** `superseded`: whether the compact index is in force. */
  writeIndex(text: string, hold: string | undefined, superseded: boolean): Promise<void>;
  removeShard(name: string): Promise<void>;
  stop(): Promise<void>;
}

/** The index of format 0 with its labels and annotations. */
export interface PublishedIndex {
  /** `index.json`. */
  readonly text: string;
  /** Whether the compact index is in force, and not this one. */
  readonly superseded: boolean;
  /** The removal that is held back, JSON. */
  readonly hold: string | undefined;
  /** The id of the hold that a user has confirmed. */
  readonly confirmed: string | undefined;
}
