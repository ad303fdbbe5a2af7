import type { Reason } from "#hostmap/types.ts";
import type { TargetDiscovery } from "./discovery.ts";

/** Finds the targets of routing hints. The answers change with the Services of the cluster. */
export type TargetResolver = Pick<TargetDiscovery, "start" | "find" | "state" | "stop">;

/** The definitions of configured and discovered targets. */
export type TargetCatalog = Pick<TargetDiscovery, "configured" | "discovers" | "found" | "follow" | "synced">;

/** Where kube-proxy leads. The answers of DNS are compared with this. */
export type TargetLocations = Pick<
  TargetDiscovery,
  "addressesOf" | "externalIPsOf" | "targetAt" | "mapsAlways" | "warningOf"
>;

/** Why the names of a target are not mapped to it. A pending reason leaves published names unchanged. */
export interface HeaderReason {
  readonly reason: Reason;
  readonly pending: boolean;
}

/** Decisions based on the ingress controllers' answers when they were asked for a PROXY header. */
export interface TargetHeaders {
  against(target: string): HeaderReason | undefined;
  /** Adds ports that an object uses. */
  want(target: string, ports: readonly number[]): void;
  /** `onChange` is called when an answer may have changed. */
  follow(onChange: () => void): void;
}
