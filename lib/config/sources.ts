import * as z from "zod";
import { label, path, seconds } from "./values.ts";

const gatewaySchema = z.strictObject({
  enabled: z.boolean().default(true).describe("Read the Gateways and routes of Gateway API, if the cluster has them."),
  requireAccepted: z
    .boolean()
    .default(true)
    .describe(
      "Use only Gateways and routes that a controller has accepted; set it to false for implementations that do not report acceptance.",
    ),
  listeners: z
    .boolean()
    .default(true)
    .describe("Map the hostnames of listeners too, even without a route: certificates are requested for them."),
});

/** Kinds of well-known ingress controllers; controller/sources/custom/presets.ts defines how they are read. */
const PRESET_NAMES = [
  "traefik-ingressroute",
  "traefik-ingressroutetcp",
  "istio-gateway",
  "istio-virtualservice",
  "contour-httpproxy",
  "openshift-route",
] as const;
export type PresetName = (typeof PRESET_NAMES)[number];

const customSchema = z.strictObject({
  group: z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "must be an API group, such as `example.com`")
    .describe("API group of the kind."),
  version: label.describe("API version to read, such as `v1alpha1`."),
  resource: label.describe("The kind's plural, such as `ingressroutes`; the chart lets the controller read it."),
  hostnames: path.describe("JSONPath (RFC 9535) of the hostnames in an object."),
  syntax: z
    .enum(["name", "list", "traefik-rule", "istio-host"])
    .default("name")
    .describe("Format of the value: one name, names separated by commas, a Traefik rule, or Istio's `namespace/name`."),
  class: path.optional().describe("JSONPath of the class that selects the target."),
  className: z.string().min(1).optional().describe("Default class of objects that name none."),
  addresses: path.optional().describe("JSONPath of the load balancer addresses in the object's status."),
  admitted: path.optional().describe("JSONPath that selects a value once a controller has admitted the object."),
});

export const sourcesSchema = z.strictObject({
  ingress: z.strictObject({ enabled: z.boolean().default(true).describe("Read the hosts of Ingresses.") }).prefault({}),
  gateway: gatewaySchema.prefault({}),
  presets: z
    .array(z.enum(PRESET_NAMES))
    .refine((list) => new Set(list).size === list.length, "must not contain a preset twice")
    .default([])
    .describe(`Predefined kinds to read: ${PRESET_NAMES.join(", ")}.`),
  custom: z.array(customSchema).default([]).describe("Additional kinds to read; see below."),
  services: z
    .strictObject({
      enabled: z
        .boolean()
        .default(false)
        .describe("Read LoadBalancer Services with the annotation `external-dns.alpha.kubernetes.io/hostname`."),
    })
    .prefault({}),
  discoverySeconds: z
    .number()
    .min(1)
    .max(3600)
    .default(15)
    .describe("How often the controller checks whether optional kinds were installed or removed."),
  removedKindSeconds: seconds
    .default(3600)
    .describe("After a kind is removed from the cluster, its last known objects are kept for this long."),
  directory: z.string().optional().describe("Read objects from the YAML files of this directory instead of a cluster."),
});
