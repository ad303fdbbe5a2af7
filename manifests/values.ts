import * as v from "valibot";
import { configSchema } from "#lib/config/schema.ts";
import { described, optionalSetting } from "#lib/config/values.ts";
import { finite, integer, record, strictObject, text } from "#lib/errors/schemas.ts";

/** Passed to Kubernetes unchanged. The API server checks it. */
const passedThrough = record(v.string(), v.unknown());
const strings = record(v.string(), v.string());
const quantities = record(v.string(), v.union([v.string(), finite]));
const objectName = v.pipe(v.string(), v.regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/));

const probeSchema = strictObject({
  initialDelaySeconds: v.optional(integer(0)),
  periodSeconds: v.optional(integer(1)),
  timeoutSeconds: v.optional(integer(1)),
  failureThreshold: v.optional(integer(1)),
});

const probesSchema = strictObject({
  startup: v.optional(probeSchema),
  liveness: v.optional(probeSchema),
  readiness: v.optional(probeSchema),
});

/** Objects with a name, such as volumes and variables. The API server checks the other fields. */
const namedObjects = v.array(v.looseObject({ name: text }));

/** Settings of all pods, which each component may override. */
const placement = {
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
  extraEnv: optionalSetting(
    namedObjects,
    "More environment variables. SWITCHBACK_* ones override the configuration file.",
  ),
  extraArgs: optionalSetting(v.array(v.string()), "More arguments of the command, such as `--set=log.level=debug`."),
  extraVolumes: optionalSetting(namedObjects, "More volumes of the pods."),
  extraVolumeMounts: optionalSetting(namedObjects, "More volume mounts of the container."),
  probes: optionalSetting(
    probesSchema,
    "Timings of the probes: `startup`, `liveness`, `readiness`. Omitted ones keep their defaults.",
  ),
};

/** Other charts' words for `annotations` and `labels`. Accepted with a warning. */
const synonyms = {
  podAnnotations: optionalSetting(strings, "Use `annotations` instead."),
  podLabels: optionalSetting(strings, "Use `labels` instead."),
};

const spread = optionalSetting(
  v.union([v.array(passedThrough), v.null()]),
  "How the pods are spread. null: by node and zone, where possible. A constraint without a labelSelector gets the " +
    "component's.",
);

const serviceAccountSchema = strictObject({
  create: optionalSetting(v.boolean(), "Create the account. If false, create it before the install."),
  name: optionalSetting(
    v.union([v.literal(""), objectName]),
    "Name of the account, which no other component may use. Default: `switchback-` and the component's name.",
  ),
  annotations: optionalSetting(strings, "Annotations of the account."),
});

const podsSchema = strictObject({
  ...placement,
  topologySpreadConstraints: spread,
  runAsUser: optionalSetting(
    v.union([integer(1), v.null()]),
    "User and group ID of all processes. With null, the platform sets both (OpenShift).",
  ),
  preStopSleepSeconds: optionalSetting(
    integer(0),
    "How long webhook and proxy pods continue to serve after a stop signal, until no Service routes to them.",
  ),
});

const resources = strictObject({ requests: v.optional(quantities), limits: v.optional(quantities) });

const componentSchema = strictObject({
  ...placement,
  ...synonyms,
  topologySpreadConstraints: spread,
  serviceAccount: v.optional(serviceAccountSchema),
  strategy: optionalSetting(
    passedThrough,
    "Strategy of the Deployment. Default: a new pod starts before an old one stops.",
  ),
  replicas: optionalSetting(integer(1), "Number of pods. With two or more, a PodDisruptionBudget keeps one available."),
  nodeFlags: optionalSetting(v.array(v.pipe(v.string(), v.regex(/^--/))), "Flags of the Node.js runtime."),
  resources: optionalSetting(resources, "Requests and limits of the container."),
});

const webhookSchema = strictObject({
  ...componentSchema.entries,
  hostNetwork: optionalSetting(
    v.boolean(),
    "Serve in the network of the node, for clusters whose API server cannot reach pods.",
  ),
});

const allSchema = strictObject({
  ...componentSchema.entries,
  replicas: optionalSetting(
    integer(1, 2),
    "Number of pods: 1, or 2 with a PodDisruptionBudget. For more, use the default profile.",
  ),
});

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
  ...synonyms,
  serviceAccount: v.optional(serviceAccountSchema),
  updateStrategy: optionalSetting(passedThrough, "Update strategy of the DaemonSet."),
  nodeFlags: componentSchema.entries.nodeFlags,
  seLinuxOptions: optionalSetting(
    strings,
    "SELinux context of the agents. With enforcing SELinux, set the type spc_t.",
  ),
  resources: componentSchema.entries.resources,
});

/** Its pods have two containers, whose probes differ. */
const { probes: _probes, ...resolverPlacement } = placement;

const podDnsSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Run the resolvers."),
  image: optionalSetting(v.string(), "Image of CoreDNS, 1.14.5 or newer, best by digest. Required with `enabled`."),
  remove: optionalSetting(
    v.boolean(),
    "With `enabled: false`: delete the resolvers' Services. A pod that still uses them loses all DNS.",
  ),
  ...resolverPlacement,
  ...synonyms,
  topologySpreadConstraints: spread,
  serviceAccount: v.optional(serviceAccountSchema),
  strategy: componentSchema.entries.strategy,
  replicas: optionalSetting(
    integer(1),
    "Pods of each of the two Deployments. With two or more, a PodDisruptionBudget keeps one available.",
  ),
  nodeFlags: componentSchema.entries.nodeFlags,
  resources: optionalSetting(resources, "Requests and limits of the sidecar."),
  coreDns: v.optional(
    strictObject({
      memoryLimit: optionalSetting(v.string(), "GOMEMLIMIT of CoreDNS, below the limit of its container."),
      resources: optionalSetting(resources, "Requests and limits of CoreDNS."),
    }),
  ),
});

const publishersSchema = strictObject({
  remove: optionalSetting(
    v.array(v.picklist(["coredns-import", "coredns", "external-dns"])),
    "Disabled publishers whose names the next upgrade removes.",
  ),
  ...placement,
  ...synonyms,
  topologySpreadConstraints: spread,
  nodeFlags: componentSchema.entries.nodeFlags,
  resources: optionalSetting(resources, "Requests and limits of the containers."),
});

const imageSchema = strictObject({
  repository: optionalSetting(text, "Registry and name of the image."),
  tag: optionalSetting(v.string(), "Default: the chart's appVersion."),
  digest: optionalSetting(
    v.union([v.literal(""), v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/))]),
    "`sha256:...`. Overrides the tag.",
  ),
  pullPolicy: optionalSetting(v.picklist(["Always", "IfNotPresent", "Never"]), "When the image is pulled."),
});

const admissionSchema = strictObject({
  excludedNamespaces: optionalSetting(
    v.array(objectName),
    "Namespaces whose pods are never sent to the webhook. The release's namespace is always excluded.",
  ),
  annotations: optionalSetting(strings, "Annotations of the MutatingWebhookConfiguration."),
  policies: optionalSetting(
    v.boolean(),
    "Render ValidatingAdmissionPolicies for the accounts of controller and agents, if the API server has that API.",
  ),
});

const issuerRefSchema = strictObject({
  name: objectName,
  kind: v.optional(v.picklist(["Issuer", "ClusterIssuer"])),
  group: v.optional(v.string()),
});

const certManagerSchema = strictObject({
  issuerRef: optionalSetting(issuerRefSchema, "The issuer to use. Default: a CA of the release."),
});

const certFilesSchema = strictObject({
  secretName: optionalSetting(v.string(), "Secret with tls.crt and tls.key, mounted in the webhook."),
  caBundle: optionalSetting(v.string(), "PEM certificates that the API server uses to verify the webhook."),
});

const ports = v.optional(v.array(integer(1, 65535)));
const peers = v.optional(v.array(passedThrough));

const networkPolicySchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render NetworkPolicies."),
  apiServer: v.optional(
    strictObject({
      cidrs: optionalSetting(v.array(v.string()), "Addresses of the API server. Empty: any address."),
      ports: described(ports, "Ports of the API server, also those behind its Service."),
    }),
  ),
  dns: v.optional(
    strictObject({
      cidrs: optionalSetting(v.array(v.string()), "Addresses of the DNS servers. Empty: any address."),
      ports: described(ports, "Ports of the DNS servers behind their Service."),
    }),
  ),
  ingressControllers: described(peers, "Peers of a NetworkPolicy that the proxies may connect to. Empty: any."),
  clients: v.optional(
    strictObject({
      webhook: described(peers, "Peers that may connect to the webhook: the API servers. Empty: any."),
      health: described(peers, "Peers that may connect to health ports: API servers, nodes, Prometheus. Empty: any."),
      proxy: described(peers, "Peers that may connect to the proxies. Empty: any."),
      dns: described(peers, "Peers that may ask the resolvers of podDns. Empty: any."),
    }),
  ),
});

const flowControlSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render FlowSchemas and PriorityLevelConfigurations."),
  shares: v.optional(
    strictObject({
      components: optionalSetting(integer(1), "Concurrency shares of controller, webhook and proxies."),
      agents: optionalSetting(integer(1), "Concurrency shares of all agents together."),
    }),
  ),
});

const duration = v.pipe(v.string(), v.regex(/^([0-9]+(ms|[smhdwy]))*$/));

const monitorSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the objects (Prometheus Operator)."),
  labels: optionalSetting(strings, "Labels that Prometheus selects."),
  interval: optionalSetting(duration, "Scrape interval, such as `30s`."),
  scrapeTimeout: optionalSetting(duration, "Default: that of Prometheus."),
  relabelings: optionalSetting(v.array(passedThrough), "Changes of a target's labels before it is scraped."),
  metricRelabelings: optionalSetting(v.array(passedThrough), "Changes of the metrics before they are stored."),
});

const prometheusRuleSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the object (Prometheus Operator)."),
  labels: optionalSetting(strings, "Labels that Prometheus selects."),
  ruleLabels: optionalSetting(strings, "Labels of each alert. They override its own."),
  disabled: optionalSetting(v.array(v.string()), "Names of alerts to omit."),
  runbooks: optionalSetting(
    v.union([v.literal(""), v.pipe(v.string(), v.regex(/^https?:\/\//))]),
    "URL of your copy of the repository with `docs/alerts.md`, for the annotation `runbook_url`.",
  ),
});

const grafanaDashboardSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the ConfigMap."),
  labels: optionalSetting(strings, "Labels that Grafana's sidecar selects."),
  annotations: optionalSetting(strings, "Annotations of the ConfigMap, such as the folder."),
});

const testSchema = strictObject({
  probeNamespace: optionalSetting(
    v.union([v.literal(""), objectName]),
    "Namespace in which `helm test` may create pods, to probe the webhook and the ingress controllers.",
  ),
  resources: optionalSetting(resources, "Requests and limits of the test's container."),
});

const uninstallSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the hooks of `helm uninstall`."),
  force: optionalSetting(v.boolean(), "Continue even if pods still have addresses of this release."),
  timeoutSeconds: optionalSetting(integer(1), "Timeout of the restarts."),
  resources: optionalSetting(resources, "Requests and limits of the hooks' container."),
});

/** The configuration's sections. The release has the `namespace`, and the chart `admission.excludedNamespaces`. */
const { namespace: _release, pods, ...others } = configSchema.entries;
const { excludedNamespaces: _excluded, ...podSettings } = pods.wrapped.entries;
const sections = { ...others, pods: v.optional(strictObject(podSettings)) };

/**
 * The one schema of the chart's values; values.schema.json is generated from it. It is strict, so that a misspelt key
 * stops `helm install`. Defaults live in values.yaml.
 */
export const valuesSchema = strictObject({
  profile: optionalSetting(
    v.picklist(["default", "small"]),
    "`small`: controller, webhook and proxy run in one process, in one Deployment with one ServiceAccount.",
  ),
  image: v.optional(imageSchema),
  imagePullSecrets: optionalSetting(
    v.array(strictObject({ name: objectName })),
    "Secrets with the credentials of the registry.",
  ),
  commonLabels: optionalSetting(strings, "Labels of every object."),
  pods: optionalSetting(podsSchema, "Settings of all pods. Each component may override them."),
  ...synonyms,
  controller: v.optional(componentSchema),
  webhook: v.optional(webhookSchema),
  proxy: v.optional(componentSchema),
  agent: v.optional(agentSchema),
  all: optionalSetting(
    allSchema,
    "The Deployment of `profile: small`, which ignores `controller`, `webhook` and `proxy`.",
  ),
  podDns: optionalSetting(podDnsSchema, "Resolvers that pods can use instead of hostAliases."),
  publishers: optionalSetting(publishersSchema, "Pods of the publishers that `config.publishers` enables."),
  admission: v.optional(admissionSchema),
  certManager: optionalSetting(certManagerSchema, "For `config.certs.mode: cert-manager`."),
  certFiles: optionalSetting(certFilesSchema, "For `config.certs.mode: files`."),
  uninstall: optionalSetting(uninstallSchema, "Hooks of `helm uninstall`."),
  networkPolicy: v.optional(networkPolicySchema),
  flowControl: optionalSetting(flowControlSchema, "API Priority and Fairness for the release's accounts."),
  serviceMonitor: optionalSetting(monitorSchema, "ServiceMonitors of controller, webhook and proxies."),
  podMonitor: optionalSetting(monitorSchema, "PodMonitors of agents and publishers."),
  prometheusRule: optionalSetting(prometheusRuleSchema, "Alerts (docs/alerts.md)."),
  grafanaDashboard: optionalSetting(grafanaDashboardSchema, "A dashboard for Grafana."),
  test: optionalSetting(testSchema, "`helm test`: the doctor, in a pod."),
  config: optionalSetting(strictObject(sections), "The configuration file."),
  // Values that Helm passes to a chart that is a dependency of another.
  global: v.optional(
    v.looseObject({
      imageRegistry: optionalSetting(v.string(), "Registry of the image. Replaces the one in `image.repository`."),
    }),
  ),
  enabled: v.optional(v.boolean()),
});
