/** Why an upstream could not be reached. Metric labels, never reused. */
export const DIAL_CAUSES = [
  /** The name server says that the upstream's name does not exist. */
  "dns-nxdomain",
  /** No name server gave an answer. */
  "dns-timeout",
  /** The address answered with a reset, because no process listens there. */
  "connection-refused",
  /** The connect timeout passed. */
  "timeout",
  /** No route, a firewall's answer, or no common address family. */
  "unreachable",
  /** The address is this proxy itself: relaying would loop forever. */
  "self",
] as const;
export type DialCause = (typeof DIAL_CAUSES)[number];

/** Why a client was refused with a reset. Metric labels, never reused. */
export const REFUSAL_CAUSES = [
  /** `maxConnections` connections are open. */
  "limit-total",
  /** `maxConnectionsPerSource` connections are open from this client's address. */
  "limit-source",
  /** The process or the machine has no file descriptor or socket memory left. */
  "local-limit",
  /** The client began with its own PROXY header, which the upstream might trust. */
  "client-header",
  /** No address of the upstream was reachable. DialCause has the reason. */
  "upstream",
] as const;
export type RefusalCause = (typeof REFUSAL_CAUSES)[number];

/** Why a relayed connection ended before both sides had finished. Metric labels, never reused. */
export const CUT_CAUSES = [
  /** The client reset it or disappeared (keepalive, retransmission). */
  "client-reset",
  /** The upstream reset it or disappeared. */
  "upstream-reset",
  /** No byte moved either way for the idle timeout. */
  "idle-timeout",
  /** The upstream had sent its FIN, and no byte moved either way for the half-closed timeout. */
  "half-closed-timeout",
  /** It outlived the grace period of a drain or of its listener's removal. */
  "drain",
] as const;
export type CutCause = (typeof CUT_CAUSES)[number];

const LOCAL_LIMITS = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

/** The cause for connect's errno, or `local-limit` if this process lacks a resource. */
export function connectCause(errno: string | undefined): DialCause | "local-limit" {
  if (errno === "ECONNREFUSED" || errno === "ECONNRESET") return "connection-refused";
  if (errno === "ETIMEDOUT") return "timeout";
  return errno !== undefined && LOCAL_LIMITS.has(errno) ? "local-limit" : "unreachable";
}

/** The cause for getaddrinfo's error. Only "no such name" is an answer. Any other error is a missing answer. */
export function lookupCause(code: string | undefined): DialCause {
  return code === "ENOTFOUND" || code === "ENODATA" ? "dns-nxdomain" : "dns-timeout";
}
