import type { Claim } from "../hosts/types.ts";

/** Where a source puts what an object claims. Called again for each change; no claims means that the object is gone. */
export type ClaimSink = (object: string, claims: readonly Claim[]) => void;

/** Something a person should look at; the rest of the source still works. */
export interface SourceProblem {
  /** The object or file, and the path in it: `a.yaml: doc 2: spec.rules[0].host`. */
  readonly place: string;
  readonly code: string;
  readonly text: string;
}

/** How far a source can be trusted just now. */
export interface SourceState {
  readonly name: string;
  /** False until every object was seen once: until then absence means nothing. */
  readonly synced: boolean;
  readonly problems: readonly SourceProblem[];
  /** Milliseconds since it last heard or tried anything; absent where nothing can hang. */
  readonly inactiveMs?: number;
}

/** Turns objects of one kind into claims. */
export interface Source {
  /** Begins; `sink` hears of every object, then of every change. `onSynced` is called once, when the first full view is in. */
  start(sink: ClaimSink, onSynced: () => void): void;
  state(): SourceState[];
  stop(): Promise<void>;
}
