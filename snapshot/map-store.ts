/** Where the leading controller publishes the map, and what it finds there. Names are those of the ConfigMaps. */
export interface MapStore {
  /** Starts the watch. `onChange` is called after each change, whether it is our own or not. */
  start(onChange: () => void): void;
  /** False until everything that is published was seen once. */
  readonly synced: boolean;
  /** Milliseconds since the last event or attempt of the watch; absent where nothing can hang. */
  readonly inactiveMs?: number;
  /** What is published, as far as it is known. */
  index(): PublishedIndex | undefined;
  shard(name: string): string | undefined;
  shardNames(): readonly string[];
  /** Write errors are thrown (SwitchbackError). The reads above return what was written at once. */
  writeShard(name: string, text: string, shardHash: string): Promise<void>;
  writeIndex(text: string, hold: string | undefined): Promise<void>;
  removeShard(name: string): Promise<void>;
  stop(): Promise<void>;
}

/** The index and its annotations. */
export interface PublishedIndex {
  /** `index.json`. */
  readonly text: string;
  /** The removal that is held back, JSON. */
  readonly hold: string | undefined;
  /** The id of the hold that a user has confirmed. */
  readonly confirmed: string | undefined;
}
