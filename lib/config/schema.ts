import * as v from "valibot";
import { DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import { integer, strictObject } from "#lib/errors/schemas.ts";
import { certsSchema, controllerSchema, proxySchema, webhookSchema } from "./components.ts";
import { DEFAULT_AGENT_SILENCE_SECONDS, DEFAULT_DELIVERY, DEFAULT_ON_CHANGE } from "./defaults.ts";
import { policySchema } from "./policy.ts";
import { type Section, withSections } from "./sections.ts";
import { sourcesSchema } from "./sources.ts";
import { discoverySchema, targetSchema } from "./targets.ts";
import { domain, label, optionalSetting, positive, seconds, section, setting } from "./values.ts";

const mapSchema = strictObject({
  vanishSeconds: setting(seconds, 60, "A name stays mapped this long after its last claim is gone."),
  guardNames: setting(integer(1), 10, "The removal guard applies to maps of at least this many names."),
  guardHoldSeconds: setting(seconds, 300, "How long the removal of more than half of the names is held."),
  publicationsPerSecond: setting(positive, 2, "Maximum average rate of publications."),
  bytesPerSecond: setting(
    positive,
    200_000,
    "Maximum average rate of published bytes. Beyond 250 agents that follow the map it is lower in proportion: each " +
      "is sent every byte.",
  ),
});

const injectSchema = strictObject({
  maxNames: setting(
    integer(1, 5000),
    DEFAULT_MAX_NAMES,
    "Maximum number of names per pod; those that were published first are used.",
  ),
  warnNames: setting(integer(1), 200, "Status reports a warning for pods with more names."),
});

/** Which pods are injected, and how running pods follow the map. */
const podsSchema = strictObject({
  via: setting(
    v.picklist(["hosts", "dns"]),
    DEFAULT_DELIVERY,
    "How new pods get the names, unless a label of the pod or namespace overrides it: `hosts` by hostAliases, `dns` " +
      "by the resolvers of pod DNS.",
  ),
  onChange: setting(
    v.picklist(["restart", "live", "none"]),
    DEFAULT_ON_CHANGE,
    "How running pods follow the map, unless an annotation of the pod, workload or namespace overrides it.",
  ),
  excludedNamespaces: setting(
    v.array(label),
    ["kube-system", "kube-node-lease", "kube-public"],
    "Namespaces whose pods are never sent to the webhook; Switchback's own is always included.",
  ),
  agentSilenceSeconds: setting(
    seconds,
    DEFAULT_AGENT_SILENCE_SECONDS,
    "If an agent has not renewed its Lease for this long, `live` falls back to `restart` for the pods of its node.",
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
    "Only workloads of these namespaces, and of `optIn.namespaces`, are restarted; others are only reported.",
  ),
  debounceSeconds: setting(
    seconds,
    2,
    "A workload is restarted after its names have been stable for this long, or changing for ten times as long.",
  ),
  minIntervalSeconds: setting(
    seconds,
    30,
    "Shortest time between two restarts of a workload; doubles up to an hour with each restart that names of a " +
      "namespace cause.",
  ),
  dailyBudget: setting(
    integer(0),
    6,
    "Maximum number of restarts of a workload in 24 hours; the namespaces of the names share it.",
  ),
  rolloutSeconds: setting(seconds, 600, "A rollout that takes longer counts as failed."),
});

/**
 * The core's schema of the configuration file, with one entry per section. `parseConfig` adds the checks that span
 * several settings.
 */
export const configSchema = strictObject({
  namespace: setting(label, "switchback-system", "The namespace of Switchback."),
  strict: setting(
    v.boolean(),
    false,
    "Whether a setting that this release does not know is an error; else it is ignored with a warning.",
  ),
  clusterDomain: optionalSetting(domain, "DNS domain of the cluster; default: detected from /etc/resolv.conf."),
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
    "The ingress controllers to map names to; see below.",
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
      level: setting(v.picklist(["trace", "debug", "info", "warn", "error"]), "info", "Lowest level that is logged."),
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
