/**
 * Time over which all agents spread a request that each of them makes, in milliseconds. The API server then gets
 * `perSecond` of them each second. A single agent does not wait, and no agent waits longer than `maxMs`.
 */
export function spreadMs(agents: number, perSecond: number, maxMs: number): number {
  return Math.min(maxMs, ((agents - 1) / perSecond) * 1000);
}
