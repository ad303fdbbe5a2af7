import { z } from "zod";
import { configSchema } from "../config/schema.ts";

/** Passed to Kubernetes as it is: the API server checks it. */
const passedThrough = z.record(z.string(), z.unknown());
const strings = z.record(z.string(), z.string());
const quantities = z.record(z.string(), z.union([z.string(), z.number()]));
const objectName = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/);

/** What may be set for all three Deployments, and again for one of them. */
const placement = {
  priorityClassName: z.string().optional().describe("PriorityClass of the pods."),
  nodeSelector: strings.optional().describe("Nodes that may run the pods."),
  tolerations: z.array(passedThrough).optional().describe("Taints that the pods tolerate."),
  affinity: passedThrough.optional().describe("Affinity of the pods."),
  annotations: strings.optional().describe("Annotations of the pods."),
  labels: strings.optional().describe("Labels of the pods."),
};

const podsSchema = z.strictObject({
  ...placement,
  runAsUser: z
    .union([z.int().min(1), z.null()])
    .optional()
    .describe("User and group ID of all processes; with null the platform sets both (OpenShift)."),
  preStopSleepSeconds: z
    .int()
    .min(0)
    .optional()
    .describe(
      "How long webhook and proxy pods continue to serve after a stop signal, until no Service routes to them.",
    ),
});

const resources = z.strictObject({ requests: quantities.optional(), limits: quantities.optional() });

const componentSchema = z.strictObject({
  ...placement,
  replicas: z
    .int()
    .min(1)
    .optional()
    .describe("Number of pods. With two or more, a PodDisruptionBudget keeps one available."),
  nodeFlags: z.array(z.string().regex(/^--/)).optional().describe("Flags of the Node.js runtime."),
  resources: resources.optional().describe("Requests and limits of the container."),
});

const agentSchema = z.strictObject({
  enabled: z
    .boolean()
    .optional()
    .describe("Run an agent on every node, as root and with the kubelet's pods directory from the host."),
  createNamespace: z
    .boolean()
    .optional()
    .describe("Create the agents' namespace, with the Pod Security level privileged."),
  ...placement,
  nodeFlags: componentSchema.shape.nodeFlags,
  seLinuxOptions: strings
    .optional()
    .describe("SELinux context of the agents. With enforcing SELinux, set the type spc_t."),
  resources: componentSchema.shape.resources,
});

const imageSchema = z.strictObject({
  repository: z.string().min(1).optional().describe("Registry and name of the image."),
  tag: z.string().optional().describe("Default: the chart's appVersion."),
  digest: z
    .union([z.literal(""), z.string().regex(/^sha256:[0-9a-f]{64}$/)])
    .optional()
    .describe("`sha256:...`; overrides the tag."),
  pullPolicy: z.enum(["Always", "IfNotPresent", "Never"]).optional().describe("When the image is pulled."),
});

const admissionSchema = z.strictObject({
  excludedNamespaces: z
    .array(objectName)
    .optional()
    .describe("Namespaces whose pods are never sent to the webhook. The release's namespace is always excluded."),
  annotations: strings.optional().describe("Annotations of the MutatingWebhookConfiguration."),
});

const issuerRefSchema = z.strictObject({
  name: objectName,
  kind: z.enum(["Issuer", "ClusterIssuer"]).optional(),
  group: z.string().optional(),
});

const certManagerSchema = z.strictObject({
  issuerRef: issuerRefSchema.optional().describe("The issuer to use. Default: a CA of the release."),
});

const certFilesSchema = z.strictObject({
  secretName: z.string().optional().describe("Secret with tls.crt and tls.key, mounted in the webhook."),
  caBundle: z.string().optional().describe("PEM certificates with which the API server verifies the webhook."),
});

const networkPolicySchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render NetworkPolicies. No test of this project enforces them."),
  apiServer: z
    .strictObject({
      cidrs: z.array(z.string()).optional().describe("Addresses of the API server. Empty: any address."),
      ports: z
        .array(z.int().min(1).max(65535))
        .optional()
        .describe("Ports of the API server, also those behind its Service."),
    })
    .optional(),
});

const serviceMonitorSchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render ServiceMonitors (Prometheus Operator)."),
  labels: strings.optional().describe("Labels by which Prometheus selects the ServiceMonitors."),
  interval: z.string().optional().describe("Scrape interval, such as `30s`."),
});

const uninstallSchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render the hooks of `helm uninstall`."),
  force: z.boolean().optional().describe("Continue even if pods still have addresses of this release."),
  timeoutSeconds: z.int().min(1).optional().describe("Timeout of the restarts."),
  resources: resources.optional().describe("Requests and limits of the hooks' container."),
});

/** The configuration file's sections; `namespace` is the release's, and `admission.excludedNamespaces` is a value of the chart. */
const { namespace: _release, pods, ...others } = configSchema.shape;
const sections = { ...others, pods: pods.unwrap().omit({ excludedNamespaces: true }).optional() };

/**
 * The one schema of the chart's values; values.schema.json is generated from it. Strict, so that a misspelt key stops `helm install`.
 * Defaults live in values.yaml.
 */
export const valuesSchema = z.strictObject({
  image: imageSchema.optional(),
  imagePullSecrets: z.array(z.strictObject({ name: objectName })).optional(),
  commonLabels: strings.optional().describe("Labels of every object."),
  pods: podsSchema.optional().describe("Settings of all pods; `controller`, `webhook` and `proxy` may override them."),
  controller: componentSchema.optional(),
  webhook: componentSchema.optional(),
  proxy: componentSchema.optional(),
  agent: agentSchema.optional(),
  admission: admissionSchema.optional(),
  certManager: certManagerSchema.optional().describe("For `config.certs.mode: cert-manager`."),
  certFiles: certFilesSchema.optional().describe("For `config.certs.mode: files`."),
  uninstall: uninstallSchema.optional().describe("What happens at `helm uninstall`."),
  networkPolicy: networkPolicySchema.optional(),
  serviceMonitor: serviceMonitorSchema.optional(),
  config: z.strictObject(sections).optional().describe("The configuration file."),
  // Values that Helm passes to a chart that is a dependency of another.
  global: passedThrough.optional(),
  enabled: z.boolean().optional(),
});
