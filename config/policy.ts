import { z } from "zod";
import { glob, label } from "./values.ts";

const claimsSchema = z.strictObject({
  namespaces: z
    .array(z.union([label, z.literal("*")], { error: "must be the name of a namespace, or `*` for all" }))
    .min(1)
    .describe("Namespaces, or `*` for all."),
  domains: z.array(glob).min(1).describe("What their objects may claim."),
});

export const policySchema = z.strictObject({
  allowDomains: z.array(glob).default([]).describe("Only these domains may be mapped; none given: all."),
  denyDomains: z.array(glob).default([]).describe("Never mapped; beats allowDomains."),
  namespaces: z.array(label).default([]).describe("Only objects of these namespaces may claim; none given: all."),
  denyNamespaces: z.array(label).default([]).describe("Objects of these namespaces never claim; beats namespaces."),
  maxNamesPerNamespace: z
    .int()
    .min(1)
    .default(1000)
    .describe("Names that one namespace may claim, oldest objects first."),
  claims: z
    .array(claimsSchema)
    .default([])
    .describe(
      "Which namespaces may claim which domains (`namespaces`, `domains`). With any entry, nothing else is mapped.",
    ),
  namespaceAnnotation: z
    .boolean()
    .default(false)
    .describe(
      "A namespace may claim what its annotation switchback.dev/domains lists, and beside `claims` nothing else is mapped. Only where tenants cannot annotate their namespaces.",
    ),
  requireAdmitted: z
    .boolean()
    .default(false)
    .describe(
      "Names wait until a controller has written a load balancer status on their object, or accepted their route.",
    ),
  verifyDns: z
    .enum(["off", "warn", "enforce"])
    .default("warn")
    .describe(
      "Whether the cluster's DNS must resolve a name to its object's load balancer address, which is what makes a hairpin: `warn` flags others in status and metrics, `enforce` does not map them.",
    ),
  dnsServers: z
    .array(z.string().regex(/^([0-9.]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?$/, "must be an IP address, perhaps with a port"))
    .default([])
    .describe("Servers that verifyDns asks (`10.96.0.10`, `[fd00::a]:53`); none given: those of the controller's pod."),
});
