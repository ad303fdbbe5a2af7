import { type Protocol, statedProtocol } from "#controller/targets/proxy-protocol-annotations.ts";
import type { Reason } from "#hostmap/types.ts";

/** The protocol that annotations set for a port, or `fallback`. */
export function protocolOf(
  annotations: Parameters<typeof statedProtocol>[0],
  port: number,
  fallback: Protocol,
): Protocol | Reason {
  const stated = statedProtocol(annotations, port);
  return stated === undefined || "code" in stated ? (stated ?? fallback) : stated.protocol;
}
