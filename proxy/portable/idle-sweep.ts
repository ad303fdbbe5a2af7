import type { PortableConnection } from "./connection.ts";

const MAX_PERIOD_MS = 1000;
/** Sweeps in a timeout: a connection is cut at most a quarter of the timeout late. */
const SWEEPS_PER_TIMEOUT = 4;

/**
 * Cuts connections without traffic for `timeoutMs` (0: never). One timer serves all: a timer per connection would cost a reset on every
 * read. Returns a function that stops the sweeps.
 */
export function startIdleSweep(timeoutMs: number, connections: ReadonlyMap<PortableConnection, unknown>): () => void {
  if (timeoutMs === 0) return () => {};
  const period = Math.min(MAX_PERIOD_MS, timeoutMs / SWEEPS_PER_TIMEOUT);
  const silentSince = new WeakMap<PortableConnection, number>();
  const timer = setInterval(() => {
    const now = performance.now();
    for (const connection of connections.keys()) {
      if (connection.active) {
        connection.active = false;
        silentSince.set(connection, now);
      } else if (now - (silentSince.get(connection) ?? now) >= timeoutMs) connection.cut("idle-timeout");
    }
  }, period);
  timer.unref();
  return () => clearInterval(timer);
}
