import * as z from "zod";
import { configSchema } from "#lib/config/schema.ts";

/** Passed to Kubernetes as it is: the API server checks it. */
const passedThrough = z.record(z.string(), z.unknown());
const strings = z.record(z.string(), z.string());
const quantities = z.record(z.string(), z.union([z.string(), z.number()]));
const objectName = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/);

const probeSchema = z.strictObject({
  initialDelaySeconds: z.int().min(0).optional(),
  periodSeconds: z.int().min(1).optional(),
  timeoutSeconds: z.int().min(1).optional(),
  failureThreshold: z.int().min(1).optional(),
});

const probesSchema = z.strictObject({
  startup: probeSchema.optional(),
  liveness: probeSchema.optional(),
  readiness: probeSchema.optional(),
});

/** Objects with a name, such as volumes and variables; the rest is the API server's to check. */
const namedObjects = z.array(z.looseObject({ name: z.string().min(1) }));

/** What may be set for all pods, and again for those of one component. */
const placement = {
  priorityClassName: z.string().optional().describe("PriorityClass of the pods."),
  nodeSelector: strings.optional().describe("Nodes that may run the pods."),
  tolerations: z.array(passedThrough).optional().describe("Taints that the pods tolerate."),
  affinity: passedThrough.optional().describe("Affinity of the pods."),
  annotations: strings.optional().describe("Annotations of the pods."),
  labels: strings.optional().describe("Labels of the pods."),
  dnsPolicy: z
    .enum(["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"])
    .optional()
    .describe("How the pods resolve names. Default: ClusterFirst, with hostNetwork ClusterFirstWithHostNet."),
  dnsConfig: passedThrough.optional().describe("DNS servers, search domains and options of the pods."),
  extraEnv: namedObjects
    .optional()
    .describe("More environment variables. SWITCHBACK_* ones override the configuration file."),
  extraArgs: z.array(z.string()).optional().describe("More arguments of the command, such as `--set=log.level=debug`."),
  extraVolumes: namedObjects.optional().describe("More volumes of the pods."),
  extraVolumeMounts: namedObjects.optional().describe("More volume mounts of the container."),
  probes: probesSchema
    .optional()
    .describe("Timings of the probes: `startup`, `liveness`, `readiness`. What is left out keeps its default."),
};

/** Words that other charts have for `annotations` and `labels`: accepted, with a warning. */
const synonyms = {
  podAnnotations: strings.optional().describe("Use `annotations` instead."),
  podLabels: strings.optional().describe("Use `labels` instead."),
};

const spread = z
  .union([z.array(passedThrough), z.null()])
  .optional()
  .describe(
    "How the pods are spread. null: by node and zone, where possible. A constraint without a labelSelector gets the component's.",
  );

const serviceAccountSchema = z.strictObject({
  create: z.boolean().optional().describe("Create the account. If false, create it before the install."),
  name: z
    .union([z.literal(""), objectName])
    .optional()
    .describe("Name of the account, of this component alone. Default: `switchback-` and the component's name."),
  annotations: strings.optional().describe("Annotations of the account."),
});

const podsSchema = z.strictObject({
  ...placement,
  topologySpreadConstraints: spread,
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
  ...synonyms,
  topologySpreadConstraints: spread,
  serviceAccount: serviceAccountSchema.optional(),
  strategy: passedThrough
    .optional()
    .describe("Strategy of the Deployment. Default: a new pod first, then an old one goes."),
  replicas: z
    .int()
    .min(1)
    .optional()
    .describe("Number of pods. With two or more, a PodDisruptionBudget keeps one available."),
  nodeFlags: z.array(z.string().regex(/^--/)).optional().describe("Flags of the Node.js runtime."),
  resources: resources.optional().describe("Requests and limits of the container."),
});

const webhookSchema = componentSchema.extend({
  hostNetwork: z
    .boolean()
    .optional()
    .describe("Serve in the network of the node, for clusters whose API server cannot reach pods."),
});

const allSchema = componentSchema.extend({
  replicas: z
    .int()
    .min(1)
    .max(2)
    .optional()
    .describe("Number of pods: 1, or 2 with a PodDisruptionBudget. For more, use the default profile."),
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
  ...synonyms,
  serviceAccount: serviceAccountSchema.optional(),
  updateStrategy: passedThrough.optional().describe("Update strategy of the DaemonSet."),
  nodeFlags: componentSchema.shape.nodeFlags,
  seLinuxOptions: strings
    .optional()
    .describe("SELinux context of the agents. With enforcing SELinux, set the type spc_t."),
  resources: componentSchema.shape.resources,
});

/** Its pods have two containers, whose probes differ. */
const { probes: _probes, ...resolverPlacement } = placement;

const podDnsSchema = z.strictObject({
  enabled: z.boolean().optional().describe("Run the resolvers."),
  image: z.string().optional().describe("Image of CoreDNS, 1.14.5 or newer, best by digest. Required with `enabled`."),
  remove: z
    .boolean()
    .optional()
    .describe("With `enabled: false`: delete the resolvers' Services. A pod that still has them loses all DNS."),
  ...resolverPlacement,
  ...synonyms,
  topologySpreadConstraints: spread,
  serviceAccount: serviceAccountSchema.optional(),
  strategy: componentSchema.shape.strategy,
  replicas: z
    .int()
    .min(1)
    .optional()
    .describe("Pods of each of the two Deployments. With two or more, a PodDisruptionBudget keeps one available."),
  nodeFlags: componentSchema.shape.nodeFlags,
  resources: resources.optional().describe("Requests and limits of the sidecar."),
  coreDns: z
    .strictObject({
      memoryLimit: z.string().optional().describe("GOMEMLIMIT of CoreDNS, below the limit of its container."),
      resources: resources.optional().describe("Requests and limits of CoreDNS."),
    })
    .optional(),
});

const publishersSchema = z.strictObject({
  remove: z
    .array(z.enum(["coredns-import", "coredns", "external-dns"]))
    .optional()
    .describe("Publishers that are switched off, and whose names the next upgrade takes out."),
  ...placement,
  ...synonyms,
  topologySpreadConstraints: spread,
  nodeFlags: componentSchema.shape.nodeFlags,
  resources: resources.optional().describe("Requests and limits of the containers."),
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
  policies: z
    .boolean()
    .optional()
    .describe(
      "Render ValidatingAdmissionPolicies for the accounts of controller and agents, where the API server has them.",
    ),
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

const ports = z.array(z.int().min(1).max(65535)).optional();
const peers = z.array(passedThrough).optional();

const networkPolicySchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render NetworkPolicies."),
  apiServer: z
    .strictObject({
      cidrs: z.array(z.string()).optional().describe("Addresses of the API server. Empty: any address."),
      ports: ports.describe("Ports of the API server, also those behind its Service."),
    })
    .optional(),
  dns: z
    .strictObject({
      cidrs: z.array(z.string()).optional().describe("Addresses of the DNS servers. Empty: any address."),
      ports: ports.describe("Ports of the DNS servers, those behind their Service."),
    })
    .optional(),
  ingressControllers: peers.describe("Peers of a NetworkPolicy that the proxies may connect to. Empty: any."),
  clients: z
    .strictObject({
      webhook: peers.describe("Peers that may connect to the webhook: the API servers. Empty: any."),
      health: peers.describe("Peers that may connect to health ports: API servers, nodes, Prometheus. Empty: any."),
      proxy: peers.describe("Peers that may connect to the proxies. Empty: any."),
      dns: peers.describe("Peers that may ask the resolvers of podDns. Empty: any."),
    })
    .optional(),
});

const flowControlSchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render FlowSchemas and PriorityLevelConfigurations."),
  shares: z
    .strictObject({
      components: z.int().min(1).optional().describe("Concurrency shares of controller, webhook and proxies."),
      agents: z.int().min(1).optional().describe("Concurrency shares of all agents together."),
    })
    .optional(),
});

const duration = z.string().regex(/^([0-9]+(ms|[smhdwy]))*$/);

const monitorSchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render them (Prometheus Operator)."),
  labels: strings.optional().describe("Labels by which Prometheus selects them."),
  interval: duration.optional().describe("Scrape interval, such as `30s`."),
  scrapeTimeout: duration.optional().describe("Default: that of Prometheus."),
  relabelings: z.array(passedThrough).optional().describe("Changes of a target's labels before it is scraped."),
  metricRelabelings: z.array(passedThrough).optional().describe("Changes of the metrics before they are stored."),
});

const prometheusRuleSchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render it (Prometheus Operator)."),
  labels: strings.optional().describe("Labels by which Prometheus selects it."),
  ruleLabels: strings.optional().describe("Labels of each alert; they take precedence over its own."),
  disabled: z.array(z.string()).optional().describe("Names of alerts to leave out."),
  runbooks: z
    .union([z.literal(""), z.string().regex(/^https?:\/\//)])
    .optional()
    .describe("URL of a copy of the repository, for the annotation `runbook_url`: `docs/alerts.md` is below it."),
});

const grafanaDashboardSchema = z.strictObject({
  enabled: z.boolean().optional().describe("Render the ConfigMap."),
  labels: strings.optional().describe("Labels by which Grafana's sidecar finds it."),
  annotations: strings.optional().describe("Annotations of the ConfigMap, such as the folder."),
});

const testSchema = z.strictObject({
  probeNamespace: z
    .union([z.literal(""), objectName])
    .optional()
    .describe("Namespace in which `helm test` may create pods, to probe the webhook and the ingress controllers."),
  resources: resources.optional().describe("Requests and limits of the test's container."),
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
  profile: z
    .enum(["default", "small"])
    .optional()
    .describe("`small`: controller, webhook and proxy run in one process, in one Deployment with one ServiceAccount."),
  image: imageSchema.optional(),
  imagePullSecrets: z
    .array(z.strictObject({ name: objectName }))
    .optional()
    .describe("Secrets with the credentials of the registry."),
  commonLabels: strings.optional().describe("Labels of every object."),
  pods: podsSchema.optional().describe("Settings of all pods; each component may override them."),
  ...synonyms,
  controller: componentSchema.optional(),
  webhook: webhookSchema.optional(),
  proxy: componentSchema.optional(),
  agent: agentSchema.optional(),
  all: allSchema
    .optional()
    .describe("The one Deployment of `profile: small`; `controller`, `webhook`, `proxy` are then ignored."),
  podDns: podDnsSchema.optional().describe("Resolvers that pods can have in place of hostAliases."),
  publishers: publishersSchema.optional().describe("Pods of the publishers that `config.publishers` switches on."),
  admission: admissionSchema.optional(),
  certManager: certManagerSchema.optional().describe("For `config.certs.mode: cert-manager`."),
  certFiles: certFilesSchema.optional().describe("For `config.certs.mode: files`."),
  uninstall: uninstallSchema.optional().describe("What happens at `helm uninstall`."),
  networkPolicy: networkPolicySchema.optional(),
  flowControl: flowControlSchema.optional().describe("API Priority and Fairness for the release's accounts."),
  serviceMonitor: monitorSchema.optional().describe("ServiceMonitors of controller, webhook and proxies."),
  podMonitor: monitorSchema.optional().describe("PodMonitors of agents and publishers."),
  prometheusRule: prometheusRuleSchema.optional().describe("Alerts; docs/alerts.md."),
  grafanaDashboard: grafanaDashboardSchema.optional().describe("A dashboard for Grafana."),
  test: testSchema.optional().describe("`helm test`: the doctor, in a pod."),
  config: z.strictObject(sections).optional().describe("The configuration file."),
  // Values that Helm passes to a chart that is a dependency of another.
  global: z
    .looseObject({
      imageRegistry: z
        .string()
        .optional()
        .describe("Registry of the image, in place of the one in `image.repository`."),
    })
    .optional(),
  enabled: z.boolean().optional(),
});
