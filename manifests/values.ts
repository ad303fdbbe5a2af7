import * as v from "valibot";
import { configSchemaWith } from "#lib/config/schema.ts";
import { type Section, withSections } from "#lib/config/sections.ts";
import { described, optionalSetting } from "#lib/config/values.ts";
import { integer, strictObject, text } from "#lib/errors/schemas.ts";
import { componentSchema, objectName, passedThrough, placement, replicated, strings } from "./pod-values.ts";

const podsSchema = strictObject({
  ...placement,
  ...replicated,
});

const webhookSchema = strictObject({
  ...componentSchema.entries,
  hostNetwork: optionalSetting(
    v.boolean(),
    "Serve in the network of the node, for clusters whose API server cannot reach pods.",
  ),
  timeoutSeconds: optionalSetting(
    integer(1, 30),
    "How long the API server waits for an answer. Without one, a pod starts that much later, and without names.",
  ),
});

const allSchema = strictObject({
  ...componentSchema.entries,
  replicas: optionalSetting(
    integer(1, 2),
    "Number of pods: 1, or 2 with a PodDisruptionBudget. For more, use the default profile.",
  ),
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
    "Render ValidatingAdmissionPolicies for the accounts of controller and agents. If the API server lacks that " +
      "kind, an install fails until you disable them.",
  ),
  tolerated: optionalSetting(
    // Printable, and without what would end a text of CEL.
    v.array(v.pipe(v.string(), v.regex(/^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9/])?(=[ -&(-[\]-~]*)?$/))),
    "Labels and annotations that other webhooks of the cluster add to the objects that Switchback writes. The " +
      "policies allow them: `KEY`, `KEY=VALUE`, or `example.com/` for all keys of that domain.",
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

const serviceSchema = strictObject({
  annotations: optionalSetting(strings, "Annotations of the Services."),
  ipFamilies: optionalSetting(
    v.array(v.picklist(["IPv4", "IPv6"])),
    "IP families of the Services. Empty: the cluster's default.",
  ),
  ipFamilyPolicy: optionalSetting(
    v.picklist(["", "SingleStack", "PreferDualStack", "RequireDualStack"]),
    "How many IP families the Services have. Default: the cluster's.",
  ),
});

const duration = v.pipe(v.string(), v.regex(/^([0-9]+(ms|[smhdwy]))*$/));

const monitorSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the objects (Prometheus Operator)."),
  namespace: optionalSetting(v.union([v.literal(""), objectName]), "Namespace of the objects. Default: the release's."),
  labels: optionalSetting(strings, "Labels that Prometheus selects."),
  interval: optionalSetting(duration, "Scrape interval, such as `30s`."),
  relabelings: optionalSetting(v.array(passedThrough), "Changes of a target's labels before it is scraped."),
});

const prometheusRuleSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the object (Prometheus Operator)."),
  labels: optionalSetting(strings, "Labels that Prometheus selects."),
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

const installCheckSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the hook."),
  timeoutSeconds: optionalSetting(integer(1), "How long the check waits for the webhook."),
});

const uninstallSchema = strictObject({
  enabled: optionalSetting(v.boolean(), "Render the hook of `helm uninstall`."),
  force: optionalSetting(v.boolean(), "Continue even if pods still have addresses of this release."),
  timeoutSeconds: optionalSetting(integer(1), "Time limit for all waits of the hook together."),
});

/**
 * The configuration's sections, without two settings: `namespace` comes from the release, and
 * `pods.excludedNamespaces` from the chart's `admission.excludedNamespaces`.
 */
function configOf(sections: readonly Section[]) {
  const { namespace: _release, pods, ...others } = configSchemaWith(sections).entries;
  const { excludedNamespaces: _excluded, ...podSettings } = pods.wrapped.entries;
  return strictObject({ ...others, pods: v.optional(strictObject(podSettings)) });
}

/** What extras add to the chart's values. */
export interface AddedValues {
  /** Sections of the configuration. */
  readonly config: readonly Section[];
  readonly values: readonly Section[];
}

/**
 * The only schema of the chart's values; values.schema.json is generated from it. The schema is strict, so that a
 * misspelt key stops `helm install`. values.yaml has the defaults.
 */
export function valuesSchemaWith({ config, values }: AddedValues) {
  const core = { ...coreValues, config: optionalSetting(configOf(config), "The configuration file.") };
  return strictObject(withSections(core, values)) as unknown as v.StrictObjectSchema<typeof core, undefined>;
}

const pullSecret = strictObject({ name: objectName });

const coreValues = {
  profile: optionalSetting(
    v.picklist(["default", "small"]),
    "`small`: controller, webhook and proxy run in one process, in one Deployment with one ServiceAccount.",
  ),
  image: v.optional(imageSchema),
  imagePullSecrets: optionalSetting(v.array(pullSecret), "Secrets with the credentials of the registry."),
  commonLabels: optionalSetting(strings, "Labels of every object."),
  commonAnnotations: optionalSetting(strings, "Annotations of every object. `pods.annotations` are those of the pods."),
  pods: optionalSetting(podsSchema, "Settings of all pods. Each component may override them."),
  controller: v.optional(componentSchema),
  webhook: v.optional(webhookSchema),
  proxy: v.optional(componentSchema),
  all: optionalSetting(
    allSchema,
    "The Deployment of `profile: small`, which ignores `controller`, `webhook` and `proxy`.",
  ),
  service: optionalSetting(serviceSchema, "The chart's own Services. The controller makes those that pods connect to."),
  admission: v.optional(admissionSchema),
  certManager: optionalSetting(certManagerSchema, "For `config.certs.mode: cert-manager`."),
  certFiles: optionalSetting(certFilesSchema, "For `config.certs.mode: files`."),
  installCheck: optionalSetting(
    installCheckSchema,
    "A hook after an install or upgrade that waits until the API server calls the webhook.",
  ),
  uninstall: optionalSetting(uninstallSchema, "The hook of `helm uninstall`."),
  networkPolicy: v.optional(networkPolicySchema),
  serviceMonitor: optionalSetting(
    monitorSchema,
    "ServiceMonitors of the components, and PodMonitors of agents and publishers.",
  ),
  prometheusRule: optionalSetting(prometheusRuleSchema, "Alerts (docs/alerts.md)."),
  grafanaDashboard: optionalSetting(grafanaDashboardSchema, "A dashboard for Grafana."),
  extraObjects: optionalSetting(
    v.array(v.union([passedThrough, text])),
    "More objects, as YAML or as text. Both may have template expressions.",
  ),
  config: optionalSetting(configOf([]), "The configuration file."),
  // Values that Helm passes to a subchart. The parent chart's `global` has keys for other charts, too.
  global: v.optional(
    v.looseObject({
      imageRegistry: optionalSetting(v.string(), "Registry of the image. Replaces the one in `image.repository`."),
      imagePullSecrets: optionalSetting(
        v.array(v.union([objectName, pullSecret])),
        "Secrets with the credentials of the registry, as names or as `{ name }`. Added to `imagePullSecrets`.",
      ),
    }),
  ),
  enabled: v.optional(v.boolean()),
};
