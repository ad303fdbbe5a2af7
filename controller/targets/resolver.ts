import type { Reason } from "#hostmap/types.ts";
import type { RoutingHints, SourceState } from "../sources/types.ts";
import type { ConfiguredTarget } from "./configured-target.ts";
import type { FoundTarget } from "./service-view.ts";

/**
 * Finds the target for routing hints. Answers may change with the cluster; then `onChange` is called, and hints have
 * to be resolved again.
 */
export interface TargetResolver {
  /**
   * Starts. `onChange` resolves when all hints have been resolved again. `onSynced` is called once, when answers are
   * valid. Before that, "no target" has no meaning.
   */
  start(onChange: () => Promise<void> | undefined, onSynced: () => void): void;
  /**
   * The name of a target, or the reason why there is none. Equal hints have equal answers between two changes.
   * `held` is the target that the name has now. It stays if several targets are possible.
   */
  resolve(hints: RoutingHints, held?: string): string | Reason;
  /** The target of this name, or the reason why it serves nothing; undefined: no such target exists. */
  named(target: string): string | Reason | undefined;
  /** A problem of a target for an object that is served on these ports. Default: the ports of HTTP and HTTPS. */
  warningOf?(target: string, ports?: readonly number[]): Reason | undefined;
  /** Whether an object may keep its target: the target still exists, and the reason only means missing evidence. */
  mayKeep?(target: string, hints: RoutingHints, reason: Reason): boolean;
  state(): SourceState[];
  stop(): Promise<void>;
}

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

/** The definitions of configured and discovered targets. */
export interface TargetCatalog {
  /** The active configured targets. */
  configured(): readonly ConfiguredTarget[];
  /** Whether targets are discovered. If so, a published target without a definition no longer has a Service. */
  readonly discovers: boolean;
  /** The current definition of a discovered target. */
  found(name: string): FoundTarget | undefined;
  /** `onChange` is called when a definition may have changed. */
  follow(onChange: () => void): void;
}

/** Where kube-proxy leads. The answers of DNS are compared with this. */
export interface TargetLocations {
  /** The IP addresses at which kube-proxy leads to a target. Empty: its load balancer has none, or none is known. */
  addressesOf(target: string): readonly string[];
  /** Those of them that no load balancer has. Any user who may write `externalIPs` chooses them. */
  externalIPsOf(target: string): readonly string[];
  /** The target whose load balancer has an IP address, on a port of HTTP or HTTPS. `externalIPs` do not count. */
  targetAt(address: string): string | undefined;
  /** Whether the names of its Service are always mapped (`map: always`). */
  mapsAlways(target: string): boolean;
  /** See `TargetResolver`. */
  warningOf(target: string, ports?: readonly number[]): Reason | undefined;
}
