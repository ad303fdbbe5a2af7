import type { PortableConnection } from "./connection.ts";

const LONGEST_PERIOD_MS = 1000;
/** Sweeps in a timeout: a connection is cut at most a quarter of the timeout late. */
const SWEEPS = 4;

/**
 * Cuts connections over which no byte has moved for `timeoutMs` (0: never). One timer for all of them: a timer each would cost a
 * reset at every read. Returns the function that ends the sweeps.
 */
export function startIdleSweep(timeoutMs: number, connections: ReadonlyMap<PortableConnection, unknown>): () => void {
  if (timeoutMs === 0) return () => {};
  const period = Math.min(LONGEST_PERIOD_MS, timeoutMs / SWEEPS);
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
