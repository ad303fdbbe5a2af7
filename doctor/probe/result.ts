import * as v from "valibot";
import { integer, strictObject } from "#lib/errors/schemas.ts";
import { OUTCOME_KINDS } from "#proxy/detection/dial.ts";

// The plan and the result of a probe. Both are JSON: the plan is the pod's argument, the result its log.

/** One connection: its route, and the PROXY header that the probe sends first. */
const dialSchema = strictObject({
  /**
   * `service`: the Service's ClusterIP. `balancer`: the load balancer's address. `front`: the front
   * Service, through the proxy.
   */
  via: v.picklist(["service", "balancer", "front"]),
  /** `namespace/name` of the load balancer's Service. */
  service: v.string(),
  /** Port of that Service. */
  servicePort: integer(),
  address: v.string(),
  port: integer(),
  /** Protocol of the request. */
  speaks: v.picklist(["http", "tls"]),
  header: v.picklist(["none", "v1", "v2"]),
  /** Host header and server name. */
  name: v.string(),
});

export interface ProbePlan {
  readonly dials: readonly ProbeDial[];
  /** Names to resolve in the cluster's DNS. */
  readonly names: readonly string[];
  /**
   * Addresses of the cluster's load balancers. If a name resolves only to other addresses, the probe connects there.
   */
  readonly own?: readonly string[] | undefined;
}

const outcomeSchema = strictObject({
  kind: v.picklist(OUTCOME_KINDS),
  detail: v.string(),
});

export const resultSchema = strictObject({
  dials: v.array(strictObject({ ...dialSchema.entries, outcome: outcomeSchema })),
  lookups: v.array(
    strictObject({
      name: v.string(),
      addresses: v.array(v.string()),
      failure: v.optional(v.string()),
      /**
       * Best outcome of a TLS handshake with the first address of each family; absent if an address is a load
       * balancer's.
       */
      outcome: v.optional(outcomeSchema),
    }),
  ),
});

export type ProbeDial = v.InferOutput<typeof dialSchema>;
export type ProbeOutcome = v.InferOutput<typeof outcomeSchema>;
export type DialResult = v.InferOutput<typeof resultSchema>["dials"][number];
export type ProbeLookup = v.InferOutput<typeof resultSchema>["lookups"][number];
export type ProbeResult = v.InferOutput<typeof resultSchema>;
