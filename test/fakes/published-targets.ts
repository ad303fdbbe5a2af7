import type { PublishedTarget } from "#lib/documents/targets-format.ts";

/** A target with two relayed ports. */
export const TARGET: PublishedTarget = {
  name: "edge-lb",
  upstream: "lb.edge.svc.cluster.local.",
  ports: [
    { port: 80, listenPort: 15_001, upstreamPort: 8080, protocol: "v1" },
    { port: 443, listenPort: 15_002, upstreamPort: 443, protocol: "v2" },
  ],
  clusterIPs: ["10.96.0.9", "fd00::9"],
};
/** A target that no name needs any more. */
export const OTHER: PublishedTarget = {
  ...TARGET,
  name: "other",
  ports: [{ port: 80, listenPort: 15_003, upstreamPort: 80, protocol: "none" }],
  clusterIPs: [],
  unusedSince: "2026-01-01T00:00:00.000Z",
};
