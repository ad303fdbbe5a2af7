import type { TargetConfig } from "../config/schema.ts";
import type { Reason } from "../hosts/types.ts";
import type { Clue, SourceState } from "../sources/types.ts";
import { targetOfClass } from "./classes.ts";

/** Finds the target behind a clue. What it answers may change with the cluster; `onChange` tells when to ask again. */
export interface TargetResolver {
  /** Begins; `onSynced` is called once, when it can answer: until then "no target" would mean nothing. */
  start(onChange: () => void, onSynced: () => void): void;
  /** The name of a target, or why there is none. Equal clues get equal answers between two changes. */
  resolve(clue: Clue): string | Reason;
  state(): SourceState[];
  stop(): Promise<void>;
}

/** Targets as configured, told apart by class alone. */
export function classResolver(targets: readonly TargetConfig[]): TargetResolver {
  return {
    start: (_onChange, onSynced) => onSynced(),
    resolve: ({ className }) => targetOfClass(className, targets),
    state: () => [],
    stop: async () => {},
  };
}
