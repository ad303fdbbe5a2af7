/** Where the map is published. One writer, the leading controller; the names are those of the ConfigMaps. */
export interface MapStore {
  /** Begins to watch; `onChange` is called when what is published changed, by us or by anybody. */
  start(onChange: () => void): void;
  /** False until everything that is published was seen once. */
  readonly synced: boolean;
  /** Milliseconds since the watch last heard or tried anything; absent where nothing can hang. */
  readonly inactiveMs?: number;
  /** What is published, as far as it is known. */
  index(): PublishedIndex | undefined;
  shard(name: string): string | undefined;
  shardNames(): readonly string[];
  /** Write errors are thrown (SwitchbackError); what was written is seen by the reads above at once. */
  writeShard(name: string, text: string, revision: string): Promise<void>;
  writeIndex(text: string, hold: string | undefined): Promise<void>;
  removeShard(name: string): Promise<void>;
  stop(): Promise<void>;
}

/** The index with what is written beside it. */
export interface PublishedIndex {
  /** `index.json`. */
  readonly text: string;
  /** Our note of a removal that is held back. */
  readonly hold: string | undefined;
  /** The id of the hold that a person has confirmed. */
  readonly confirmed: string | undefined;
}
