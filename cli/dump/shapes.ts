import * as v from "valibot";
import { finite, object, record, text } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";

// The fields that doctor and controller read without a check, because the API server has validated them. A dump may
// be written by hand: an object with another shape is left out, and the others are still read.

const some = v.optional(v.string());
const texts = v.optional(v.array(v.string()));
const list = <S extends Schema>(item: S) => v.optional(v.array(item));
const listOrNull = <S extends Schema>(item: S) => v.nullish(v.array(item));

const balancer = v.optional(
  object({
    loadBalancer: v.optional(object({ ingress: listOrNull(object({ ip: some, hostname: some, ipMode: some })) })),
    conditions: listOrNull(object({ type: some })),
  }),
);

const service = object({
  spec: v.optional(
    object({
      type: some,
      selector: v.nullish(record(v.string(), v.string())),
      externalIPs: texts,
      loadBalancerSourceRanges: texts,
      clusterIP: some,
      clusterIPs: texts,
      ports: list(
        object({
          port: finite,
          name: some,
          protocol: some,
          appProtocol: some,
          targetPort: v.optional(v.union([v.string(), finite])),
        }),
      ),
    }),
  ),
  status: balancer,
});

const ingress = object({
  spec: v.optional(
    object({
      ingressClassName: some,
      rules: listOrNull(object({ host: some })),
      tls: listOrNull(object({ hosts: v.nullish(v.array(v.string())) })),
    }),
  ),
  status: balancer,
});

const gateway = object({
  spec: v.optional(object({ gatewayClassName: some, listeners: listOrNull(object({ hostname: some })) })),
  status: v.optional(object({ addresses: listOrNull(object({ value: some })) })),
});

const pod = object({
  spec: v.optional(object({ nodeName: some, hostAliases: listOrNull(object({ ip: text, hostnames: texts })) })),
  status: v.optional(object({ phase: some })),
});

const node = object({
  spec: v.optional(object({ providerID: some })),
  status: v.optional(object({ addresses: listOrNull(object({ address: some })) })),
});

const deployment = object({
  spec: v.optional(
    object({
      replicas: v.optional(finite),
      template: v.optional(object({ spec: v.optional(object({ containers: list(object({ image: some })) })) })),
    }),
  ),
  status: v.optional(object({ readyReplicas: v.optional(finite) })),
});

/** The expected shape, by `Kind.group`. */
export const SHAPES: ReadonlyMap<string, Schema> = new Map<string, Schema>([
  ["Service.", service],
  ["Ingress.networking.k8s.io", ingress],
  ["Gateway.gateway.networking.k8s.io", gateway],
  ["Pod.", pod],
  ["Node.", node],
  ["Deployment.apps", deployment],
  ["ConfigMap.", object({ data: v.optional(record(v.string(), v.string())) })],
]);
