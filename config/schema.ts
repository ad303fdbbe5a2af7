import { z } from "zod";
import { agentSchema, certsSchema, controllerSchema, proxySchema, webhookSchema } from "./components.ts";
import { policySchema } from "./policy.ts";
import { sourcesSchema } from "./sources.ts";
import { discoverySchema, targetSchema, validateTargets } from "./targets.ts";
import { domain, label, seconds } from "./values.ts";

const mapSchema = z.strictObject({
  vanishSeconds: seconds.default(60).describe("A name whose last claim went away stays mapped this long."),
  guardNames: z.int().min(1).default(10).describe("The removal guard watches maps of at least this many names."),
  guardHoldSeconds: seconds.default(300).describe("How long a loss of more than half of the names is held back."),
  publicationsPerSecond: z.number().positive().default(2).describe("Most publications under churn, on average."),
  bytesPerSecond: z.number().positive().default(200_000).describe("Most bytes published under churn, on average."),
});

const injectSchema = z.strictObject({
  maxNames: z.int().min(1).max(5000).default(500).describe("Names a pod gets at most, first in name order."),
  warnNames: z.int().min(1).default(200).describe("Status warns of pods with more names."),
});

/** Which pods are looked after, and how running ones follow the map. */
const podsSchema = z.strictObject({
  onChange: z
    .enum(["restart", "live", "none"])
    .default("restart")
    .describe("How running pods follow the map unless they, their workload or namespace say otherwise."),
  excludedNamespaces: z
    .array(label)
    .default(["kube-system", "kube-node-lease", "kube-public"])
    .describe("Namespaces that the webhook is never called for; our own is always among them."),
  agentSilenceSeconds: seconds
    .default(600)
    .describe("An agent that was not heard of for this long keeps no pod current: `live` falls back to `restart`."),
});

/** Restarting other people's workloads: every limit of it. */
const restartSchema = z.strictObject({
  namespaces: z
    .array(label)
    .default([])
    .describe("Only workloads of these namespaces are restarted; elsewhere reported."),
  dryRun: z.boolean().default(false).describe("Report what would be restarted, and restart nothing."),
  debounceSeconds: seconds.default(2).describe("A workload's names must have been the same for this long."),
  maxDebounceSeconds: seconds
    .default(20)
    .describe("Names that never rest put a restart off for this long at most (never less than `debounceSeconds`)."),
  minIntervalSeconds: seconds.default(30).describe("Least time between two restarts of a workload; doubles with each."),
  maxIntervalSeconds: seconds.default(3600).describe("What that time grows to at most."),
  dailyBudget: z.int().min(0).default(6).describe("Restarts of one workload in any 24 hours."),
  vanishedSeconds: seconds.default(600).describe("Names that only went away wait this long."),
  revertSeconds: seconds
    .default(300)
    .describe("A restart that is taken back within this time was not wanted: the workload is left alone."),
  rolloutSeconds: seconds.default(600).describe("A rollout that takes longer has failed."),
  holdAfter: z
    .int()
    .min(1)
    .default(3)
    .describe(
      "After this many restarts in a row, of any workloads, that failed or brought no names, none for a while.",
    ),
  holdSeconds: seconds.default(3600).describe("How long that while is."),
});

/** The one schema of the configuration file. Every setting is read from here, once. */
const sectionsSchema = z.strictObject({
  namespace: label.default("switchback-system").describe("Our own namespace."),
  clusterDomain: domain.optional().describe("Found from /etc/resolv.conf when it is not given."),
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
    .describe("The ingress controllers that names lead to; see below."),
  discovery: discoverySchema.prefault({}),
  policy: policySchema.prefault({}),
  sources: sourcesSchema.prefault({}),
  map: mapSchema.prefault({}),
  inject: injectSchema.prefault({}),
  pods: podsSchema.prefault({}),
  restart: restartSchema.prefault({}),
  webhook: webhookSchema.prefault({}),
  controller: controllerSchema.prefault({}),
  proxy: proxySchema.prefault({}),
  agent: agentSchema.prefault({}),
  certs: certsSchema.prefault({}),
  log: z
    .strictObject({
      level: z
        .enum(["trace", "debug", "info", "warn", "error"])
        .default("info")
        .describe("Least level that is logged."),
    })
    .prefault({}),
});

/** The sections, and what they must agree on. */
export const configSchema = sectionsSchema.superRefine((config, context) => {
  validateTargets(config.targets, context);
  const { leaseSeconds, renewDeadlineSeconds, retrySeconds } = config.controller;
  // The waits between two tries are spread by up to a fifth, as in client-go.
  if (!(retrySeconds * 1.2 < renewDeadlineSeconds && renewDeadlineSeconds < leaseSeconds)) {
    const message = "expected 1.2 x retrySeconds < renewDeadlineSeconds < leaseSeconds";
    context.addIssue({ code: "custom", path: ["controller"], message });
  }
  const { minIntervalSeconds, maxIntervalSeconds } = config.restart;
  if (minIntervalSeconds > maxIntervalSeconds) {
    const message = "expected minIntervalSeconds <= maxIntervalSeconds";
    context.addIssue({ code: "custom", path: ["restart"], message });
  }
  const { mode, certFile, keyFile } = config.certs;
  if (mode === "files" && (certFile === undefined || keyFile === undefined)) {
    context.addIssue({ code: "custom", path: ["certs"], message: "mode files needs certFile and keyFile" });
  }
});

export type Config = z.infer<typeof configSchema>;
export type CustomSource = Config["sources"]["custom"][number];
export type TargetConfig = Config["targets"][number];
export type ProxyConfig = Config["proxy"];
export type CertsConfig = Config["certs"];

/** The namespaces whose pods are never sent to the webhook. */
export function excludedNamespaces({ namespace, pods }: Pick<Config, "namespace" | "pods">): ReadonlySet<string> {
  return new Set([...pods.excludedNamespaces, namespace]);
}
