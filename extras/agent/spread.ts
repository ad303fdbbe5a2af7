/**
 * The time over which the agents of all nodes spread a request that each of them makes, so that the API server gets
 * `perSecond` of them a second: nothing to wait for on one node, `maxMs` at most on very many. Milliseconds.
 */
export function spreadMs(agents: number, perSecond: number, maxMs: number): number {
  return Math.min(maxMs, ((agents - 1) / perSecond) * 1000);
}
