import { readFileSync } from "node:fs";
import type { ProxyConfig } from "#lib/config/schema.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { EngineLimits } from "./engine.ts";

/**
 * How long the header waits for the client's first bytes before it is sent alone. A client usually sends as soon as
 * its handshake is complete, while the proxy still dials. Only two kinds of clients wait: clients that connect in
 * advance, and clients of protocols in which the server sends first. The second kind gets the server's greeting this
 * much later, once per connection.
 */
const FIRST_BYTES_MS = 50;
/** Time for a connection to the upstream, which is in the cluster or near it. */
const CONNECT_MS = 5_000;
/** Idle time after the upstream has closed its side. Most clients then close at once; some never do. */
const HALF_CLOSED_MS = 60_000;
/** Idle time before TCP keepalive probes, so that a peer that is lost ends within minutes. */
const KEEPALIVE_MS = 60_000;
/** Descriptors for other purposes than connections: listeners, DNS, the health server, libuv. */
const RESERVED_FILES = 64;
/** The client's socket and the upstream's. */
const FILES_PER_CONNECTION = 2;

/** The engine's limits. `filesOfOthers`: file descriptors that other parts of this process may need. */
export function engineLimits(proxy: ProxyConfig, log: Logger, filesOfOthers = 0): EngineLimits {
  const maxConnections = clampToFileLimit(proxy.maxConnections, readProcessLimits(), filesOfOthers);
  if (maxConnections < proxy.maxConnections) {
    log.warn(
      { maxConnections, wanted: proxy.maxConnections },
      "the process may open fewer files than maxConnections needs: fewer connections are accepted",
    );
  }
  return {
    maxConnections,
    // Reduced in proportion, so that no source gets a larger share than configured.
    maxConnectionsPerSource: Math.ceil((proxy.maxConnectionsPerSource * maxConnections) / proxy.maxConnections),
    connectTimeoutMs: CONNECT_MS,
    idleTimeoutMs: proxy.idleTimeoutSeconds * 1000,
    halfClosedMs: HALF_CLOSED_MS,
    keepaliveMs: KEEPALIVE_MS,
    firstBytesMs: FIRST_BYTES_MS,
    dropGraceMs: proxy.drainSeconds * 1000,
  };
}

/**
 * Clamps `wanted` to the number of connections that the process has file descriptors for. Beyond that number libuv
 * accepts and closes a client silently, and the client reads an empty answer. The proxy's own limit resets the client
 * and counts it.
 * @param limits the text of /proc/self/limits (Linux); without its line, no limit is known
 */
export function clampToFileLimit(wanted: number, limits: string, filesOfOthers = 0): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  if (soft === undefined) return wanted;
  const files = Number(soft) - RESERVED_FILES - filesOfOthers;
  return Math.max(1, Math.min(wanted, Math.floor(files / FILES_PER_CONNECTION)));
}

/** The text of /proc/self/limits. Empty on systems without that file. */
export function readProcessLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "utf8");
  } catch {
    return "";
  }
}
