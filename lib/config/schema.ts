import * as z from "zod";
import { DEFAULT_MAX_NAMES } from "#hostmap/select-hosts.ts";
import {
  agentSchema,
  certsSchema,
  controllerSchema,
  nodeHostsSchema,
  podDnsSchema,
  proxySchema,
  webhookSchema,
} from "./components.ts";
import { crossErrors } from "./cross-checks.ts";
import { DEFAULT_AGENT_SILENCE_SECONDS, DEFAULT_ON_CHANGE, DEFAULT_VIA } from "./defaults.ts";
import { policySchema } from "./policy.ts";
import { publishersSchema } from "./publishers.ts";
import { sourcesSchema } from "./sources.ts";
import { discoverySchema, targetSchema } from "./targets.ts";
import { domain, label, seconds } from "./values.ts";

const mapSchema = z.strictObject({
  vanishSeconds: seconds.default(60).describe("A name stays mapped this long after its last claim is gone."),
  guardNames: z.int().min(1).default(10).describe("The removal guard applies to maps of at least this many names."),
  guardHoldSeconds: seconds.default(300).describe("How long the removal of more than half of the names is held."),
  publicationsPerSecond: z.number().positive().default(2).describe("Maximum average rate of publications."),
  bytesPerSecond: z
    .number()
    .positive()
    .default(200_000)
    .describe(
      "Maximum average rate of published bytes. Beyond 250 agents that follow the map it is lower in proportion: each is sent every byte.",
    ),
});

const injectSchema = z.strictObject({
  maxNames: z
    .int()
    .min(1)
    .max(5000)
    .default(DEFAULT_MAX_NAMES)
    .describe("Maximum number of names per pod; those that were published first are used."),
  warnNames: z.int().min(1).default(200).describe("Status reports a warning for pods with more names."),
});

/** Which pods are injected, and how running pods follow the map. */
const podsSchema = z.strictObject({
  via: z
    .enum(["hosts", "dns"])
    .default(DEFAULT_VIA)
    .describe(
      "How new pods get the names, unless a label of the pod or namespace overrides it: `hosts` by hostAliases, `dns` by the resolvers of pod DNS.",
    ),
  onChange: z
    .enum(["restart", "live", "none"])
    .default(DEFAULT_ON_CHANGE)
    .describe("How running pods follow the map, unless an annotation of the pod, workload or namespace overrides it."),
  excludedNamespaces: z
    .array(label)
    .default(["kube-system", "kube-node-lease", "kube-public"])
    .describe("Namespaces whose pods are never sent to the webhook; Switchback's own is always included."),
  agentSilenceSeconds: seconds
    .default(DEFAULT_AGENT_SILENCE_SECONDS)
    .describe(
      "If an agent has not renewed its Lease for this long, `live` falls back to `restart` for the pods of its node.",
    ),
});

/** Limits on restarts of users' workloads. */
const restartSchema = z.strictObject({
  namespaces: z
    .array(label)
    .default([])
    .describe("Only workloads of these namespaces are restarted; others are only reported."),
  dryRun: z.boolean().default(false).describe("Report what would be restarted, without restarting it."),
  debounceSeconds: seconds
    .default(2)
    .describe("A workload is restarted after its names have been stable for this long."),
  maxDebounceSeconds: seconds
    .default(20)
    .describe("Longest delay of a restart while names keep changing (at least `debounceSeconds`)."),
  minIntervalSeconds: seconds
    .default(30)
    .describe("Shortest time between two restarts of a workload; doubles with each restart."),
  maxIntervalSeconds: seconds.default(3600).describe("Upper limit of that time."),
  dailyBudget: z.int().min(0).default(6).describe("Maximum number of restarts of a workload in any 24 hours."),
  vanishedSeconds: seconds.default(600).describe("Delay of a restart that would only remove names."),
  revertSeconds: seconds
    .default(300)
    .describe("If a restart is reverted within this time, the workload is not restarted again."),
  rolloutSeconds: seconds.default(600).describe("A rollout that takes longer counts as failed."),
  holdAfter: z
    .int()
    .min(1)
    .default(3)
    .describe(
      "All restarts are suspended after this many consecutive restarts, of any workloads, that failed or brought no names.",
    ),
  holdSeconds: seconds.default(3600).describe("How long restarts are suspended."),
});

/** The schema of the configuration file. All settings are defined here. */
const sectionsSchema = z.strictObject({
  namespace: label.default("switchback-system").describe("The namespace of Switchback."),
  strict: z
    .boolean()
    .default(false)
    .describe("Whether a setting that this release does not know is an error; else it is ignored with a warning."),
  clusterDomain: domain.optional().describe("DNS domain of the cluster; default: detected from /etc/resolv.conf."),
  targets: z
    .array(targetSchema)
    .default([
      {
        name: "ingress-nginx",
        upstream: { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } },
        classes: [],
        ports: [
          { port: 80, protocol: "v1" },
          { port: 443, protocol: "v1" },
        ],
        clusterIPs: [],
      },
    ])
    .describe("The ingress controllers to map names to; see below."),
  discovery: discoverySchema.prefault({}),
  policy: policySchema.prefault({}),
  sources: sourcesSchema.prefault({}),
  map: mapSchema.prefault({}),
  inject: injectSchema.prefault({}),
  pods: podsSchema.prefault({}),
  restart: restartSchema.prefault({}),
  podDns: podDnsSchema.prefault({}),
  publishers: publishersSchema.prefault({}),
  webhook: webhookSchema.prefault({}),
  controller: controllerSchema.prefault({}),
  proxy: proxySchema.prefault({}),
  agent: agentSchema.prefault({}),
  nodeHosts: nodeHostsSchema.prefault({}),
  certs: certsSchema.prefault({}),
  log: z
    .strictObject({
      level: z
        .enum(["trace", "debug", "info", "warn", "error"])
        .default("info")
        .describe("Lowest level that is logged."),
      format: z
        .enum(["json", "text"])
        .default("json")
        .describe("Lines of the log: `json` for programs, `text` for people."),
    })
    .prefault({}),
});

/** The sections, with the checks that span several settings. */
export const configSchema = sectionsSchema.superRefine((config, context) => {
  for (const { path, message } of crossErrors(config)) context.addIssue({ code: "custom", path: [...path], message });
});

export type Config = z.infer<typeof sectionsSchema>;
export type CustomSource = Config["sources"]["custom"][number];
export type TargetConfig = Config["targets"][number];
export type ProxyConfig = Config["proxy"];
export type CertsConfig = Config["certs"];
