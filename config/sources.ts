import { z } from "zod";
import { label, path, seconds } from "./values.ts";

const gatewaySchema = z.strictObject({
  enabled: z.boolean().default(true).describe("Read Gateway API's Gateways and routes, if the cluster has them."),
  requireAccepted: z
    .boolean()
    .default(true)
    .describe("Only what a controller says it accepted counts; false for implementations that do not say."),
  listeners: z
    .boolean()
    .default(true)
    .describe("The hostnames of listeners count too, before a route is there: certificates are asked for by them."),
});

/** Kinds of well-known ingress controllers; controller/sources/custom/presets.ts says how they are read. */
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
  version: label.describe("Version that is read, such as `v1alpha1`."),
  resource: label.describe("The kind's plural, such as `ingressroutes`; the chart lets the controller read it."),
  hostnames: path.describe("JSONPath (RFC 9535) of the hostnames in an object."),
  syntax: z
    .enum(["name", "list", "traefik-rule", "istio-host"])
    .default("name")
    .describe(
      "What stands there: one name, names with commas between them, a rule of Traefik, or Istio's `namespace/name`.",
    ),
  class: path.optional().describe("JSONPath of the class by which a target is found."),
  className: z.string().min(1).optional().describe("The class where an object names none."),
  addresses: path.optional().describe("JSONPath of the load balancer's addresses in the object's status."),
  admitted: path.optional().describe("JSONPath that leads to something once a controller has admitted the object."),
});

export const sourcesSchema = z.strictObject({
  ingress: z.strictObject({ enabled: z.boolean().default(true).describe("Read the hosts of Ingresses.") }).prefault({}),
  gateway: gatewaySchema.prefault({}),
  presets: z
    .array(z.enum(PRESET_NAMES))
    .refine((list) => new Set(list).size === list.length, "must name each preset once")
    .default([])
    .describe(`Ready-made kinds to read: ${PRESET_NAMES.join(", ")}.`),
  custom: z.array(customSchema).default([]).describe("Further kinds to read; see below."),
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
    .describe("How often is looked whether kinds that a cluster may not have were installed or removed."),
  removedKindSeconds: seconds
    .default(3600)
    .describe("The objects of a kind that was removed from the cluster count as last seen for this long."),
  directory: z.string().optional().describe("Read objects from the YAML files of this directory instead of a cluster."),
});
