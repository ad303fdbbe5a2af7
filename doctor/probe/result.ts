import { z } from "zod";

// What the probe pod is told to do, and what it answers: both travel as JSON, the one in its arguments, the other in its log.

/** How a connection is made: which way, and with which PROXY header of our own in front. */
const dialSchema = z.strictObject({
  /** `service`: the Service's ClusterIP. `balancer`: the load balancer's own address, as pods would. `front`: through our relay. */
  via: z.enum(["service", "balancer", "front"]),
  /** `namespace/name` of the load balancer's Service. */
  service: z.string(),
  /** Port of that Service. */
  servicePort: z.int(),
  address: z.string(),
  port: z.int(),
  /** What is said once connected. */
  speaks: z.enum(["http", "tls"]),
  header: z.enum(["none", "v1", "v2"]),
  /** Host header and server name. */
  name: z.string(),
});

export const planSchema = z.strictObject({
  dials: z.array(dialSchema),
  /** Names to ask the cluster's DNS for. */
  names: z.array(z.string()),
});

/**
 * `answered`: HTTP or TLS came back that fits what was said. `misread`: something came back, but the header was taken for a part of
 * the request (400, a protocol alert). The rest: nothing came back, and how the connection ended.
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
