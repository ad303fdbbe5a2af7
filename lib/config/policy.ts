import * as z from "zod";
import { glob, label } from "./values.ts";

const claimsSchema = z.strictObject({
  namespaces: z
    .array(z.union([label, z.literal("*")], { error: "must be the name of a namespace, or `*` for all" }))
    .min(1)
    .describe("Namespaces, or `*` for all."),
  domains: z.array(glob).min(1).describe("Domains that objects of these namespaces may claim."),
});

export const policySchema = z.strictObject({
  allowDomains: z.array(glob).default([]).describe("Only these domains may be mapped; if empty, all."),
  denyDomains: z
    .array(glob)
    .default([])
    .describe("These domains are never mapped; takes precedence over allowDomains."),
  namespaces: z.array(label).default([]).describe("Only objects of these namespaces may claim names; if empty, all."),
  denyNamespaces: z
    .array(label)
    .default([])
    .describe("Objects of these namespaces may not claim names; takes precedence over namespaces."),
  maxNamesPerNamespace: z
    .int()
    .min(1)
    .default(250)
    .describe(
      "Maximum number of names per namespace; mapped names stay, then the oldest objects come first. Half of inject.maxNames by default, so that one namespace cannot fill a pod.",
    ),
  claims: z
    .array(claimsSchema)
    .default([])
    .describe(
      "Which namespaces may claim which domains (`namespaces`, `domains`). With any entry, only these claims are mapped.",
    ),
  namespaceAnnotation: z
    .boolean()
    .default(false)
    .describe(
      "A namespace may claim the domains in its annotation switchback.dev/domains; apart from `claims`, nothing else is mapped. Enable it only if tenants cannot annotate their namespaces.",
    ),
  requireAdmitted: z
    .boolean()
    .default(false)
    .describe(
      "Map names only after a controller has set the load balancer status of their object, or accepted their route.",
    ),
  verifyDns: z
    .enum(["off", "warn", "enforce"])
    .default("warn")
    .describe(
      "Whether the cluster's DNS must resolve a name to the load balancer address of its object (otherwise there is no hairpin): `warn` reports other names in status and metrics, `enforce` does not map them.",
    ),
  dnsServers: z
    .array(z.string().regex(/^([0-9.]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?$/, "must be an IP address, optionally with a port"))
    .default([])
    .describe(
      "DNS servers that verifyDns queries (`10.96.0.10`, `[fd00::a]:53`); if empty, those of the controller's pod.",
    ),
});
