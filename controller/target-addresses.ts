import type { Reason, TargetAddress } from "../hostmap/types.ts";

/** Where targets are. Implemented by `fronts.ts` on a cluster, and by fixed addresses. */
export interface TargetAddresses {
  /** Begins; `onChange` is called when an address became known or changed. */
  start(onChange: () => void): void;
  /** False until it is known of every target whether it has an address. */
  readonly synced: boolean;
  /** Milliseconds since a watch last heard or tried anything; absent where nothing can hang. */
  readonly inactiveMs?: number;
  /** One entry a target: those of the config, then those that were found and are in use. */
  targets(): readonly TargetAddress[];
  /** The targets that names lead to, told at every turn: what is found is made reachable only when it is needed. */
  use(names: ReadonlySet<string>): void;
  /** Why a target has no address, where there is more to say than that. */
  reasonOf?(target: string): Reason | undefined;
  /** For the leader: the addresses that pods may hold from earlier, and leave to write until `signal` aborts. */
  lead(remembered: readonly TargetAddress[], signal: AbortSignal): void;
  stop(): Promise<void>;
}

/** Addresses that the config gives, or that the demo knows. */
export function fixedTargetAddresses(targets: readonly TargetAddress[]): TargetAddresses {
  return {
    start: (onChange) => onChange(),
    synced: true,
    targets: () => targets,
    use: () => {},
    lead: () => {},
    stop: async () => {},
  };
}
