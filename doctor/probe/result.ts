import * as z from "zod";

// The plan and the result of a probe. Both are JSON: the plan is the pod's argument, the result its log.

/** One connection: its route, and the PROXY header that the probe sends first. */
const dialSchema = z.strictObject({
  /**
   * `service`: the Service's ClusterIP. `balancer`: the load balancer's address. `front`: the front
   * Service, through the proxy.
   */
  via: z.enum(["service", "balancer", "front"]),
  /** `namespace/name` of the load balancer's Service. */
  service: z.string(),
  /** Port of that Service. */
  servicePort: z.int(),
  address: z.string(),
  port: z.int(),
  /** Protocol of the request. */
  speaks: z.enum(["http", "tls"]),
  header: z.enum(["none", "v1", "v2"]),
  /** Host header and server name. */
  name: z.string(),
});

export const planSchema = z.strictObject({
  dials: z.array(dialSchema),
  /** Names to resolve in the cluster's DNS. */
  names: z.array(z.string()),
});

/**
 * `answered`: a valid HTTP or TLS answer. `misread`: the backend parsed the header as part of the
 * request (400, a protocol alert). The other kinds say how a connection without an answer ended.
 */
const outcomeSchema = z.strictObject({
  kind: z.enum(["answered", "misread", "closed", "refused", "timeout", "silent", "unreachable"]),
  detail: z.string(),
});

export const resultSchema = z.strictObject({
  dials: z.array(dialSchema.extend({ outcome: outcomeSchema })),
  lookups: z.array(
    z.strictObject({ name: z.string(), addresses: z.array(z.string()), failure: z.string().optional() }),
  ),
});

export type ProbeDial = z.infer<typeof dialSchema>;
export type ProbePlan = z.infer<typeof planSchema>;
export type ProbeOutcome = z.infer<typeof outcomeSchema>;
export type DialResult = z.infer<typeof resultSchema>["dials"][number];
export type ProbeLookup = z.infer<typeof resultSchema>["lookups"][number];
export type ProbeResult = z.infer<typeof resultSchema>;
