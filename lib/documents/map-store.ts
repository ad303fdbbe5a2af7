/**
 * Where the leading controller publishes the map, and what it finds there. Names are those of the ConfigMaps.
 *
 * Each write is refused (409) unless the object is as this store last read or wrote it; a name that is not there
 * yet is created, never overwritten. Reads return what was written at once.
 */
export interface MapStore {
  /** Starts the watch. `onChange` is called after each change, whether it is our own or not. */
  start(onChange: () => void): void;
  /** False until everything that is published was seen once. */
  readonly synced: boolean;
  /** Milliseconds since the last event or attempt of the watch; absent where nothing can hang. */
  readonly inactiveMs?: number;
  /** The text of the index, as far as it is known. */
  index(): string | undefined;
  state(): PublishedState | undefined;
  shard(name: string): string | undefined;
  shardNames(): readonly string[];
  /** Begins a leader's term: from now on every write of an earlier one to the index or the state is refused. */
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
  /** `state.json`. */
  readonly text: string;
  /** The removal that is held back, JSON. */
  readonly hold: string | undefined;
  /** The id of the hold that a user has confirmed. */
  readonly confirmed: string | undefined;
}
