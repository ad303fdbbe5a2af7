import { ORIGIN, readerOf } from "./shapes.ts";

/** The status of the load balancer of an Ingress or a Service. */
export const BALANCER = { ingress: [{ ip: "text", hostname: "text", ipMode: "word" }] } as const;
const ADDRESSES = { clusterIP: "text", clusterIPs: "texts", externalIPs: "texts" } as const;
const PORT = { port: "number", name: "text", protocol: "word", appProtocol: "text", targetPort: "port" } as const;
export const SERVICE_FIELDS = {
  spec: { type: "word", selector: "map", ...ADDRESSES, loadBalancerSourceRanges: "texts", ports: [PORT] },
  status: { loadBalancer: BALANCER, conditions: [{ type: "text" }] },
} as const;

/** What is read of a Service. */
export type RawService = ReturnType<typeof readService>;
export const readService = readerOf({ ...ORIGIN, ...SERVICE_FIELDS, metadata: { ...ORIGIN.metadata, labels: "map" } });
