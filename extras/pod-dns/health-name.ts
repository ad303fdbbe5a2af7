/**
 * The resolvers of pod DNS answer this name with 127.0.0.1, from the same file as the names of the map. So a resolver
 * that answers it has a map. No name of the public DNS ends with `.invalid` (RFC 6761).
 */
export const DNS_HEALTH_NAME = "health.switchback.invalid";

/** Name that only the resolvers of one rollout answer, in the same way. `revision` is a DNS label. */
export function revisionHealthName(revision: string): string {
  return `${revision}.${DNS_HEALTH_NAME}`;
}
