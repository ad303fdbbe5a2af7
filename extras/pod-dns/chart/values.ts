import * as v from "valibot";
import type { Section } from "#lib/config/sections.ts";
import { optionalSetting } from "#lib/config/values.ts";
import { integer, strictObject } from "#lib/errors/schemas.ts";
import { componentSchema, placement, replicated, resources, serviceAccountSchema } from "#manifests/pod-values.ts";

const podDnsSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Run the resolvers."),
  image: optionalSetting(v.string(), "Image of CoreDNS, 1.14.5 or newer, best by digest. Required with `enabled`."),
  remove: optionalSetting(
    v.boolean(),
    "With `enabled: false`: delete the resolvers' Services. A pod that still uses them loses all DNS.",
  ),
  ...placement,
  ...replicated,
  serviceAccount: v.optional(serviceAccountSchema),
  replicas: optionalSetting(integer(1), "Pods of each of the two Deployments."),
  nodeFlags: componentSchema.entries.nodeFlags,
  resources: optionalSetting(resources, "Requests and limits of the sidecar."),
  coreDns: v.optional(
    strictObject({
      memoryLimit: optionalSetting(v.string(), "GOMEMLIMIT of CoreDNS, below the limit of its container."),
      resources: optionalSetting(resources, "Requests and limits of CoreDNS."),
    }),
  ),
});

/** The section of the chart's values. */
export const POD_DNS_VALUES: Section = {
  name: "podDns",
  schema: optionalSetting(podDnsSchema, "Resolvers that pods can use instead of hostAliases."),
};
