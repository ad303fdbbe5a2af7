import type { EngineLimits } from "../engine.ts";
import type { PortableConnection } from "./connection.ts";

const MAX_PERIOD_MS = 1000;
/** Sweeps per timeout. A connection ends at most a quarter of the timeout late. */
const SWEEPS_PER_TIMEOUT = 4;

/**
 * Ends connections without traffic for the idle timeout, or for the half-closed timeout once the upstream has finished.
 * One timer serves all connections: a timer for each would have to be reset on every read.
 * Returns a function that stops the sweeps.
 */
export function startIdleSweep(
  limits: Pick<EngineLimits, "idleTimeoutMs" | "halfClosedMs">,
  connections: ReadonlyMap<PortableConnection, unknown>,
): () => void {
  const idleMs = limits.idleTimeoutMs || Number.POSITIVE_INFINITY;
  const halfClosedMs = limits.halfClosedMs || Number.POSITIVE_INFINITY;
  const shortest = Math.min(idleMs, halfClosedMs);
  if (shortest === Number.POSITIVE_INFINITY) return () => {};
  const silentSince = new WeakMap<PortableConnection, number>();
  const timer = setInterval(
    () => {
      const now = performance.now();
      for (const connection of connections.keys()) {
        if (connection.active) {
          connection.active = false;
          silentSince.set(connection, now);
          continue;
        }
        const silentMs = now - (silentSince.get(connection) ?? now);
        if (silentMs >= idleMs) connection.cut("idle-timeout");
        else if (silentMs >= halfClosedMs && connection.isHalfClosed) connection.halfClosedTimedOut();
      }
    },
    Math.min(MAX_PERIOD_MS, shortest / SWEEPS_PER_TIMEOUT),
  );
  timer.unref();
  return () => clearInterval(timer);
}
