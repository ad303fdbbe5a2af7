import type { Logger } from "#lib/telemetry/log.ts";
import type { DialCause } from "./close-causes.ts";
import type { Endpoint, TlvOptions } from "./proxy-header.ts";
import type { TargetStats } from "./target-stats.ts";

/*
 * The interface of a relay engine. An engine binds listeners, admits clients, dials, writes the header and relays
 * bytes. It resolves no names and keeps no state of targets. Its input is plain data, so that an engine can pass it to
 * threads.
 *
 *     upstream.ts -- addresses --> RelaySpec --> RelayEngine -- DialReport --> upstream.ts
 */

/** Where a listener's connections go. */
export interface UpstreamSpec {
  /** IP literals. Each is tried at most once per connection. */
  readonly addresses: readonly string[];
  readonly port: number;
  /** Why `addresses` is empty: the cause reported for refused clients. */
  readonly unresolved?: DialCause;
}

export interface ListenerSpec {
  /** Unique in a spec. The same name in the next spec means the same listener, with its connections. */
  readonly name: string;
  /** The target whose counters include this listener's connections. */
  readonly target: string;
  /** IP literal to bind. `::` accepts IPv4 too. */
  readonly address: string;
  /** 0: any free port. ListenerStatus has the result. */
  readonly port: number;
  /**
   * Destination port in the header: the port that the client connected to, as a load balancer would report it. The
   * bound port may differ, because a Service is in front of it. Receivers that select https or a filter chain by the
   * destination port do not know the bound port.
   */
  readonly declaredPort: number;
  readonly protocol: "v1" | "v2" | "none";
  /**
   * With `none`; default: false. Resets clients that begin with the signature of a PROXY header. The upstream may
   * read such a header, and would trust it, because it comes from this proxy's address.
   */
  readonly refusesClientHeaders?: boolean;
  /** With v2; default: none. */
  readonly tlvs?: TlvOptions;
  readonly upstream: UpstreamSpec;
}

/** Addresses at which this proxy itself is reachable. */
export interface SelfEndpoints {
  /** Addresses of this machine or pod. Each one, with the port of a bound listener, is an endpoint of this proxy. */
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
 * How long an engine reads and drops bytes of a client after the upstream has closed, in milliseconds. This gives the
 * client time to read the answer. The default of nginx's lingering_time.
 */
export const LINGER_MS = 30_000;

/** Limits in milliseconds and counts. A timeout of 0 means none. */
export interface EngineLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerSource: number;
  /** Timeout of the connect to one address of the upstream. */
  readonly connectTimeoutMs: number;
  /** Maximum time without traffic in either direction. */
  readonly idleTimeoutMs: number;
  /** Maximum time without traffic in either direction, once the upstream has sent its FIN. */
  readonly halfClosedMs: number;
  /** First TCP keepalive probe after this much silence, on both sides. */
  readonly keepaliveMs: number;
  /** How long the header waits for the client's first bytes after the upstream is connected. Then it is sent alone. */
  readonly firstBytesMs: number;
  /** How long connections of a removed listener may continue. */
  readonly dropGraceMs: number;
}

export interface DialFailure {
  /** Undefined if the upstream had no address. */
  readonly address: string | undefined;
  readonly cause: DialCause;
  /** The operating system's error, for the log: `connect ECONNREFUSED 10.0.0.7:443`. */
  readonly detail: string;
}

/**
 * The result of one connection's dial, with all addresses that it tried. An engine reports each dial with a failure,
 * and the first success after a dial that did not connect (or the first ever). A healthy proxy reports nothing else.
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
  /** A part of the engine has died and cannot recover. The process should drain the rest and exit, to be restarted. */
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
  /** Connections that were open when the drain began, and finished in time. */
  readonly finished: number;
  /** Connections that were reset after the grace period. */
  readonly reset: number;
}

export interface RelayEngine {
  /** Binds all listeners. If one fails, unbinds all and throws `listen-failed`. */
  start(plan: RelaySpec): Promise<void>;
  /**
   * Applies another spec. Binds new listeners, stops accepting on removed ones, and lets their connections finish for
   * `dropGraceMs`. A new upstream or protocol of an existing listener applies to its next connections, without a gap.
   * Never throws. `listeners()` reports a listener that cannot be bound, and the next update retries it.
   */
  update(plan: RelaySpec): Promise<void>;
  listeners(): readonly ListenerStatus[];
  /** Counters by target. Readable at any time, also after close. */
  stats(): ReadonlyMap<string, Readonly<TargetStats>>;
  /** Stops accepting, waits up to `graceMs` for connections to finish, resets the rest, and closes the engine. */
  drain(graceMs: number): Promise<DrainResult>;
  /** Resets all connections and closes the listeners. May be called at any time, more than once. */
  close(): Promise<void>;
}

export type MakeEngine = (options: EngineOptions) => RelayEngine;

/** Maximum number of upstream addresses tried per connection. A client must not wait for a long list of dead ones. */
export const MAX_DIALS = 3;
/**
 * Timeout of a connect while another address is left to try, in milliseconds. It is longer than the 1 s after which a
 * lost SYN is sent again (RFC 6298). A node that has lost only IPv6 drops packets silently.
 */
export const NEXT_ADDRESS_MS = 1_500;

/** How long a connect to an address may take, in milliseconds. `hasNext`: another address is left to try. */
export function dialTimeoutMs(connectTimeoutMs: number, hasNext: boolean): number {
  return hasNext ? Math.min(connectTimeoutMs, NEXT_ADDRESS_MS) : connectTimeoutMs;
}

/** Backlog of a listening socket. The kernel limits it to net.core.somaxconn (4096 by default). */
export const LISTEN_BACKLOG = 4096;
