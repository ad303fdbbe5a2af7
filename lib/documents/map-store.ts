/**
 * Where the leading controller publishes the map, and where it finds the earlier publication. Names are those of the
 * ConfigMaps.
 *
 * Each write is refused (409) unless the object is as this store last read or wrote it. A missing object is created,
 * never overwritten. Reads return written objects at once.
 */
export interface MapStore {
  /** Starts the watch. `onChange` is called after each change, including our own. */
  start(onChange: () => void): void;
  /** False until everything that is published was read once. */
  readonly synced: boolean;
  /** Milliseconds since the last event or attempt of the watch. Missing if nothing can hang. */
  readonly inactiveMs?: number;
  /** The text of the index, as far as it is known. */
  index(): string | undefined;
  state(): PublishedState | undefined;
  shard(name: string): string | undefined;
  shardNames(): readonly string[];
  /** Begins a leader's term. From then on, every write of an earlier term to the index or the state is refused. */
  beginTerm(): Promise<void>;
  /** Write errors are thrown (SwitchbackError). */
  writeShard(name: string, text: string): Promise<void>;
  writeIndex(text: string): Promise<void>;
  writeState(text: string, hold: string | undefined): Promise<void>;
  removeShard(name: string): Promise<void>;
  stop(): Promise<void>;
}

/** The state with its annotations. */
export interface PublishedState {
  /** The content of `state.json`. */
  readonly text: string;
  /** The removal that is held, as JSON. */
  readonly hold: string | undefined;
  /** The id of the hold that a user has confirmed. */
  readonly confirmed: string | undefined;
}
