import * as v from "valibot";
import type { Section } from "#lib/config/sections.ts";
import { optionalSetting } from "#lib/config/values.ts";
import { strictObject } from "#lib/errors/schemas.ts";
import { componentSchema, placement, serviceAccountSchema, strings } from "#manifests/pod-values.ts";

const agentSchema = strictObject({
  enabled: optionalSetting(
    v.boolean(),
    "Run an agent on every node, as root and with the kubelet's pods directory from the host.",
  ),
  createNamespace: optionalSetting(
    v.boolean(),
    "Create the agents' namespace, with the Pod Security level privileged.",
  ),
  ...placement,
  serviceAccount: v.optional(serviceAccountSchema),
  nodeFlags: componentSchema.entries.nodeFlags,
  seLinuxOptions: optionalSetting(
    strings,
    "SELinux context of the agents. With enforcing SELinux, set the type spc_t.",
  ),
  resources: componentSchema.entries.resources,
});

/** The section of the chart's values. */
export const AGENT_VALUES: Section = {
  name: "agent",
  schema: v.optional(agentSchema),
};
