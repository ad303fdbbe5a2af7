import * as v from "valibot";
import { optionalSetting } from "#lib/config/values.ts";
import { finite, integer, record, strictObject, text } from "#lib/errors/schemas.ts";

// Values of the chart that several components have.

/** Values that go to Kubernetes unchanged. The API server checks them. */
export const passedThrough = record(v.string(), v.unknown());
export const strings = record(v.string(), v.string());
const quantities = record(v.string(), v.union([v.string(), finite]));
export const objectName = v.pipe(v.string(), v.regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/));

/** Objects with a name, such as volumes and variables. The API server checks the other fields. */
const namedObjects = v.array(v.looseObject({ name: text }));

/** Settings of all pods, which each component may override. */
export const placement = {
  priorityClassName: optionalSetting(v.string(), "PriorityClass of the pods."),
  nodeSelector: optionalSetting(strings, "Nodes that may run the pods."),
  tolerations: optionalSetting(v.array(passedThrough), "Taints that the pods tolerate."),
  affinity: optionalSetting(passedThrough, "Affinity of the pods."),
  annotations: optionalSetting(strings, "Annotations of the pods."),
  labels: optionalSetting(strings, "Labels of the pods."),
  dnsPolicy: optionalSetting(
    v.picklist(["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    "How the pods resolve names. Default: ClusterFirst, with hostNetwork ClusterFirstWithHostNet.",
  ),
  dnsConfig: optionalSetting(passedThrough, "DNS servers, search domains and options of the pods."),
  extraEnv: optionalSetting(namedObjects, "More environment variables, such as NODE_EXTRA_CA_CERTS."),
  extraVolumes: optionalSetting(namedObjects, "More volumes of the pods."),
  extraVolumeMounts: optionalSetting(namedObjects, "More volume mounts of the container."),
  securityContext: optionalSetting(
    passedThrough,
    "Security context of the pods. Each key replaces one of ours, which are those of the level restricted.",
  ),
  containerSecurityContext: optionalSetting(passedThrough, "The same of our containers."),
};

/** Settings of pods of Deployments, of which there may be several. */
export const replicated = {
  topologySpreadConstraints: optionalSetting(
    v.array(passedThrough),
    "Topology spread constraints of the pods. Empty: the scheduler spreads them by zone and node if possible.",
  ),
  podDisruptionBudget: optionalSetting(
    v.boolean(),
    "With two or more pods: a PodDisruptionBudget keeps one available.",
  ),
};

export const serviceAccountSchema = strictObject({
  create: optionalSetting(v.boolean(), "Create the account. If false, create it before the install."),
  name: optionalSetting(
    v.union([v.literal(""), objectName]),
    "Name of the account, which no other component may use. Default: `switchback-` and the component's name.",
  ),
});

export const resources = strictObject({ requests: v.optional(quantities), limits: v.optional(quantities) });

export const componentSchema = strictObject({
  ...placement,
  ...replicated,
  serviceAccount: v.optional(serviceAccountSchema),
  replicas: optionalSetting(integer(1), "Number of pods."),
  nodeFlags: optionalSetting(v.array(v.pipe(v.string(), v.regex(/^--/))), "Flags of the Node.js runtime."),
  resources: optionalSetting(resources, "Requests and limits of the container."),
});
