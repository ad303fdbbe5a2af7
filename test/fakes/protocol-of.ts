import { type Protocol, statedProtocol } from "#controller/targets/proxy-protocol-annotations.ts";

/** The protocol that annotations set for a port, or `fallback`. */
export function protocolOf(
  annotations: Parameters<typeof statedProtocol>[0],
  port: number,
  fallback: Protocol,
): Protocol {
  return statedProtocol(annotations, port)?.protocol ?? fallback;
}
