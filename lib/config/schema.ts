import * as v from "valibot";
import { DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import { integer, strictObject } from "#lib/errors/schemas.ts";
import { certsSchema, controllerSchema, proxySchema, webhookSchema } from "./components.ts";
import { DEFAULT_AGENT_SILENCE_SECONDS, MAX_DAILY_BUDGET } from "./defaults.ts";
import { policySchema } from "./policy.ts";
import { type Section, withSections } from "./sections.ts";
import { sourcesSchema } from "./sources.ts";
import { discoverySchema, targetSchema } from "./targets.ts";
import { domain, label, optionalSetting, seconds, secondsFrom, section, setting } from "./values.ts";

const mapSchema = strictObject({
  vanishSeconds: setting(
    seconds,
    60,
    "A name stays mapped this long after its last claim is gone. Raise it if your deployments delete and recreate " +
      "Ingresses for longer.",
  ),
  guardHoldSeconds: setting(
    seconds,
    300,
    "How long the removal of more than half of the names is held, of at least ten; 0 disables it. Raise it if " +
      "you need " +
      "longer to notice that somebody deleted them by mistake.",
  ),
});

const injectSchema = strictObject({
  maxNames: setting(
    integer(1, 5000),
    DEFAULT_MAX_NAMES,
    "Maximum number of names per pod; those that were published first are used. Lower it if large pods load the API " +
      "server; pods can select names instead.",
  ),
});

/** Which pods are injected, and how running pods follow the map. */
const podsSchema = strictObject({
  via: setting(
    v.picklist(["hosts", "dns"]),
    "hosts",
    "How new pods get the names, unless a label of the pod or namespace overrides it: `hosts` by hostAliases, `dns` " +
      "by the resolvers of pod DNS. Change it if pods need more names than a hosts file should have.",
  ),
  onChange: setting(
    v.picklist(["restart", "live", "none"]),
    "restart",
    "How running pods follow the map, unless an annotation of the pod, workload or namespace overrides it. Set " +
      "`none` " +
      "if Switchback must restart nothing, `live` if agents run.",
  ),
  excludedNamespaces: setting(
    v.array(label),
    ["kube-system", "kube-node-lease", "kube-public"],
    "Namespaces whose pods are never sent to the webhook; Switchback's own is always included. Add those that " +
      "must start without any webhook.",
  ),
  agentSilenceSeconds: setting(
    // An agent renews its Lease every 30 s.
    secondsFrom(40),
    DEFAULT_AGENT_SILENCE_SECONDS,
    "If an agent has not renewed its Lease for this long, `live` falls back to `restart` for the pods of its node. " +
      "Raise it if nodes are away for longer.",
  ),
});

/** Which namespaces opt in by name. */
const optInSchema = strictObject({
  namespaces: setting(
    v.array(label),
    [],
    "Namespaces that opt in by name, without a label. Their workloads are restarted as those of " +
      "`restart.namespaces` are. The label `switchback.dev/inject: disabled` of the namespace or pod wins.",
  ),
});

/** Limits on restarts of users' workloads. */
const restartSchema = strictObject({
  namespaces: setting(
    v.array(label),
    [],
    "Only workloads of these namespaces, and of `optIn.namespaces`, are restarted; others are only reported. Add " +
      "those " +
      "whose pods should follow new names by themselves.",
  ),
  minIntervalSeconds: setting(
    seconds,
    30,
    "Shortest time between two restarts of a workload; doubles up to an hour with each restart that names of a " +
      "namespace cause. Raise it if your workloads start slowly.",
  ),
  dailyBudget: setting(
    integer(0, MAX_DAILY_BUDGET),
    6,
    "Maximum number of restarts of a workload in 24 hours; the namespaces of the names share it. Raise it if names " +
      "that your pods need change more often; 0 forbids restarts.",
  ),
  rolloutSeconds: setting(
    seconds,
    600,
    "A rollout that takes longer counts as failed. Raise it if a rollout of your largest workload takes longer.",
  ),
});

/**
 * The core's schema of the configuration file, with one entry per section. `parseConfig` adds the checks that span
 * several settings.
 */
export const configSchema = strictObject({
  namespace: setting(label, "switchback-system", "The namespace of Switchback; set by the chart."),
  strict: setting(
    v.boolean(),
    false,
    "Whether a setting that this release does not know is an error; else it is ignored with a warning. Enable it " +
      "if a " +
      "typing error must stop a rollout.",
  ),
  address: setting(
    v.string(),
    "::",
    "Address that the ports bind, except the relay's (`proxy.address`). Change it if a port must not be open on all " +
      "addresses of a node.",
  ),
  clusterDomain: optionalSetting(
    domain,
    "DNS domain of the cluster; default: detected from /etc/resolv.conf. Set it if pods have another search list.",
  ),
  targets: setting(
    v.array(targetSchema),
    [
      {
        name: "ingress-nginx",
        upstream: { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } },
        classes: [],
        ports: [
          { port: 80, protocol: "auto" },
          { port: 443, protocol: "auto" },
        ],
        clusterIPs: [],
      },
    ],
    "The ingress controllers to map names to; see below. Needed for those without a LoadBalancer Service.",
  ),
  discovery: section(discoverySchema),
  policy: section(policySchema),
  sources: section(sourcesSchema),
  map: section(mapSchema),
  inject: section(injectSchema),
  pods: section(podsSchema),
  optIn: section(optInSchema),
  restart: section(restartSchema),
  webhook: section(webhookSchema),
  controller: section(controllerSchema),
  proxy: section(proxySchema),
  certs: section(certsSchema),
  log: section(
    strictObject({
      level: setting(
        v.picklist(["trace", "debug", "info", "warn", "error"]),
        "info",
        "Lowest level that is logged. Set `debug` to see each decision.",
      ),
    }),
  ),
});

/** The schema with the sections of extras, whose settings `settingsOf` returns. */
export function configSchemaWith(sections: readonly Section[]): typeof configSchema {
  return strictObject(withSections(configSchema.entries, sections)) as unknown as typeof configSchema;
}

export type Config = v.InferOutput<typeof configSchema>;
export type CustomSource = Config["sources"]["custom"][number];
export type TargetConfig = Config["targets"][number];
export type ProxyConfig = Config["proxy"];
export type CertsConfig = Config["certs"];
