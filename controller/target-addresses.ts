import type { Reason, TargetAddress } from "#hostmap/types.ts";
import type { ExampleOf } from "./expected-headers/header-decisions.ts";

/** The addresses of targets: from `FrontReconciler` in a cluster, otherwise fixed. */
export interface TargetAddresses {
  /** Starts; `onChange` is called when an address becomes known or changes. */
  start(onChange: () => void): void;
  /** False until it is known for every target whether it has an address. */
  readonly synced: boolean;
  /** Milliseconds since a watch last received or tried anything; absent if nothing can hang. */
  readonly inactiveMs?: number;
  /** One entry per target: the configured ones, then the discovered ones in use. */
  targets(): readonly TargetAddress[];
  /**
   * Sets the targets that have names. Called on every run, because a discovered target is made reachable only when it
   * is needed. `exampleOf` returns a name of each target.
   */
  use(names: ReadonlySet<string>, exampleOf?: ExampleOf): void;
  /** Why a target has no address, if there is a specific reason. */
  reasonOf?(target: string): Reason | undefined;
  /** The addresses of all targets that this or an earlier leader published. */
  published(): readonly TargetAddress[];
  /** Lets the leader write until `signal` aborts. `inUse` are targets whose addresses pods already hold. */
  lead(inUse: ReadonlySet<string>, signal: AbortSignal): void;
  stop(): Promise<void>;
}

/** Fixed addresses, for the demo and tests. */
export function fixedTargetAddresses(targets: readonly TargetAddress[]): TargetAddresses {
  return {
    start: (onChange) => onChange(),
    synced: true,
    targets: () => targets,
    use: () => {},
    published: () => targets,
    lead: () => {},
    stop: async () => {},
  };
}
