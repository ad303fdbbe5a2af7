import type { Logger } from "#lib/telemetry/log.ts";
import type { DialCause } from "./close-causes.ts";
import type { Endpoint } from "./proxy-header.ts";
import type { TlvOptions } from "./proxy-header-tlvs.ts";
import type { TargetStats } from "./target-stats.ts";

/*
 * The interface of a relay engine. An engine binds listeners, admits clients, dials, writes the header and relays bytes; it resolves no
 * names and keeps no state of targets. Its input is plain data, so that an engine can pass it to other threads as is.
 *
 *     upstream.ts -- addresses --> RelaySpec --> RelayEngine -- DialReport --> upstream.ts
 */

/** Where a listener's connections go. */
export interface UpstreamSpec {
  /** IP literals. Each is tried at most once per connection. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** Why there are no addresses: the cause reported for refused clients. */
  readonly unresolved?: DialCause;
}

export interface ListenerSpec {
  /** Unique in a spec. The same name in the next spec is the same listener, with its connections. */
  readonly name: string;
  /** The target whose counters it adds to. */
  readonly target: string;
  /** IP literal to bind; `::` takes IPv4 too. */
  readonly address: string;
  /** 0: any free port; ListenerStatus has the result. */
  readonly port: number;
  /**
   * Destination port in the header: the one the client connected to, as a load balancer would report it. The bound port is behind a
   * Service; receivers that select https or a filter chain by the destination port do not know it.
   */
  readonly declaredPort: number;
  readonly protocol: "v1" | "v2" | "none";
  /**
   * With `none`; default: false. Resets clients that begin with the signature of a PROXY header. Their upstream may read one, and would
   * believe it, because it comes from this proxy's address.
   */
  readonly refusesClientHeaders?: boolean;
  /** With v2; default: none. */
  readonly tlvs?: TlvOptions;
  readonly upstream: UpstreamSpec;
}

/** Addresses at which this proxy itself is reachable. */
export interface SelfEndpoints {
  /** Of this machine or pod. Together with the port of a bound listener, each is an endpoint of this proxy. */
  readonly interfaceAddresses: readonly string[];
  /** ClusterIPs of the front Services, with each of their ports. */
  readonly frontEndpoints: readonly Endpoint[];
}

/** The desired state of an engine. */
export interface RelaySpec {
  readonly listeners: readonly ListenerSpec[];
  readonly self: SelfEndpoints;
}

/**
 * How long, in milliseconds, an engine reads and drops what a client still sends after the upstream has closed: enough for the client to
 * read the answer. The default of nginx's lingering_time.
 */
export const LINGER_MS = 30_000;

/** Limits in milliseconds and counts. A timeout of 0 means none. */
export interface EngineLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerSource: number;
  /** For each address of the upstream. */
  readonly connectTimeoutMs: number;
  /** Without traffic in either direction. */
  readonly idleTimeoutMs: number;
  /** Without traffic in either direction, once the upstream has sent its FIN. */
  readonly halfClosedMs: number;
  /** First TCP keepalive probe after this much silence, on both sides. */
  readonly keepaliveMs: number;
  /** How long the header waits for the client's first bytes, once the upstream is connected, before it is sent alone. */
  readonly firstBytesMs: number;
  /** How long connections of a removed listener may continue. */
  readonly dropGraceMs: number;
}

export interface DialFailure {
  /** Undefined if there was no address to dial. */
  readonly address: string | undefined;
  readonly cause: DialCause;
  /** The operating system's error, for the log: `connect ECONNREFUSED 10.0.0.7:443`. */
  readonly detail: string;
}

/**
 * The result of dialling for one connection, over all addresses tried. An engine reports each dial that had a failure, and the first
 * success after a dial that did not connect (or the first ever). A healthy proxy reports nothing else.
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
   * A part of the engine has died and cannot recover. The rest continues; the process should drain and exit, so that it is restarted.
   */
  readonly onBroken?: (error: Error) => void;
}

export interface ListenerStatus {
  readonly name: string;
  readonly target: string;
  readonly address: string;
  /** The bound port, or the requested port while unbound. */
  readonly port: number;
  readonly bound: boolean;
  /** Why it is not bound. */
  readonly error?: string;
}

export interface DrainResult {
  /** Connections that were open when the drain began and ended by themselves, and those reset after the grace period. */
  readonly finished: number;
  readonly reset: number;
}

export interface RelayEngine {
  /** Binds all listeners. If one fails, unbinds all and throws `listen-failed`. */
  start(plan: RelaySpec): Promise<void>;
  /**
   * Applies another spec: binds new listeners, stops accepting on removed ones and lets their connections finish for `dropGraceMs`. A new
   * upstream or protocol of an existing listener applies to its next connections, without a gap.
   * Never throws: a listener that cannot be bound is reported by `listeners()`, and the next update retries it.
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

/** Upper limit of upstream addresses tried per connection, so that a client does not wait for a long list of dead ones. */
export const MAX_DIALS = 3;
/** Backlog of a listening socket; the kernel caps it at net.core.somaxconn (4096 by default). */
export const LISTEN_BACKLOG = 4096;
