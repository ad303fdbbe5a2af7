import type { Logger } from "../telemetry/log.ts";
import type { DialCause } from "./close-causes.ts";
import type { Endpoint } from "./proxy-header.ts";
import type { WantedTlvs } from "./proxy-header-tlvs.ts";
import type { TargetStats } from "./target-stats.ts";

/*
 * What relays bytes. An engine binds listeners, admits clients, dials, writes the header and moves bytes; it looks no name up
 * and keeps no state of targets. All it is given is plain data, so that an engine may hand it to other threads as it is.
 *
 *     upstream.ts -- addresses --> RelayPlan --> Engine -- DialReport --> upstream.ts
 */

/** Where a listener's connections go. */
export interface UpstreamSpec {
  /** IP literals. Each is tried at most once a connection. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** Why there are no addresses: clients are refused for this cause. */
  readonly unresolved?: DialCause;
}

export interface ListenerSpec {
  /** Unique in a plan. The same name in the next plan is the same listener, with its connections. */
  readonly name: string;
  /** Whose counters it adds to. */
  readonly target: string;
  /** IP literal to bind; `::` takes IPv4 too. */
  readonly address: string;
  /** 0: any free port, see ListenerStatus. */
  readonly port: number;
  /**
   * Destination port in the header: the one the client called, as a load balancer would report it. The port bound here is
   * behind a Service; receivers that tell https or a filter chain by that port know nothing of it.
   */
  readonly declaredPort: number;
  readonly protocol: "v1" | "v2" | "none";
  /** With v2; default: none. */
  readonly tlvs?: WantedTlvs;
  readonly upstream: UpstreamSpec;
}

/** Addresses under which this proxy itself is reached. */
export interface SelfEndpoints {
  /** Of this machine or pod: ours together with the port of a listener that is bound there. */
  readonly interfaceAddresses: readonly string[];
  /** ClusterIPs of the front Services, with each of their ports. */
  readonly frontEndpoints: readonly Endpoint[];
}

/** All that an engine is to do from now on. */
export interface RelaySpec {
  readonly listeners: readonly ListenerSpec[];
  readonly self: SelfEndpoints;
}

/**
 * How long, in milliseconds, an engine reads and drops what a client still sends after the upstream has closed: enough for the client to
 * read the answer. The default of nginx's lingering_time.
 */
export const LINGER_MS = 30_000;

/** Milliseconds and counts; a timeout of 0 is none. */
export interface EngineLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerSource: number;
  /** For each address of the upstream. */
  readonly connectTimeoutMs: number;
  /** Without a byte either way. */
  readonly idleTimeoutMs: number;
  /** First TCP keepalive probe after this much silence, on both sides. */
  readonly keepaliveMs: number;
  /** How long the header waits for the client's first bytes, once the upstream is connected, before it goes out alone. */
  readonly firstBytesMs: number;
  /** Connections of a listener that a plan drops may finish this long. */
  readonly dropGraceMs: number;
}

export interface DialFailure {
  /** Undefined if there was no address to dial. */
  readonly address: string | undefined;
  readonly cause: DialCause;
  /** The operating system's word, for the log: `connect ECONNREFUSED 10.0.0.7:443`. */
  readonly detail: string;
}

/**
 * The outcome of dialling for one connection. An engine reports each dial with a failure in it, and the first success after
 * one that did not connect (or ever); nothing else, so that a healthy proxy reports nothing.
 */
export interface DialReport {
  /** Name of the listener. */
  readonly listener: string;
  readonly connected: boolean;
  readonly failures: readonly DialFailure[];
}

export interface EngineOptions {
  readonly limits: EngineLimits;
  readonly log: Logger;
  readonly onDial: (report: DialReport) => void;
  /**
   * A part of the engine has died and will not come back. What is left of it goes on; the process should drain and end, to be
   * started anew.
   */
  readonly onBroken?: (error: Error) => void;
}

export interface ListenerStatus {
  readonly name: string;
  readonly target: string;
  readonly address: string;
  /** The port that is bound; while none is, the one that was asked for. */
  readonly port: number;
  readonly bound: boolean;
  /** Why it is not bound. */
  readonly error?: string;
}

export interface DrainResult {
  /** Connections that were open when the drain began and ended by themselves, and those that were reset after the grace. */
  readonly finished: number;
  readonly reset: number;
}

export interface RelayEngine {
  /** Binds all listeners; throws `listen-failed`, with nothing left bound, if one cannot be. */
  start(plan: RelaySpec): Promise<void>;
  /**
   * Goes over to another plan: binds what is new, stops accepting on what is gone and lets its connections finish for
   * `dropGraceMs`. A new upstream or protocol of a listener that stays holds for its next connections, without a gap.
   * Never throws: a listener that cannot be bound shows in `listeners()`, and the next update tries it again.
   */
  update(plan: RelaySpec): Promise<void>;
  listeners(): readonly ListenerStatus[];
  /** By target; readable at any time, also after close. */
  stats(): ReadonlyMap<string, Readonly<TargetStats>>;
  /** Stops accepting, waits at most `graceMs` for connections to finish, resets the rest. The engine is closed afterwards. */
  drain(graceMs: number): Promise<DrainResult>;
  /** Resets all connections and closes the listeners. May be called at any time, more than once. */
  close(): Promise<void>;
}

export type MakeEngine = (options: EngineOptions) => RelayEngine;

/** Upstream addresses that one connection tries at most, so that a client does not wait for a long list of dead ones. */
export const MAX_DIALS = 3;
/** Pending connections the kernel keeps for us while we are busy; it caps this at net.core.somaxconn (4096 by default). */
export const LISTEN_BACKLOG = 4096;
