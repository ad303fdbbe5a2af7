import { RESOLVERS_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { settingsOf } from "#lib/config/sections.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { PodDns } from "#webhook/injection-decision.ts";
import { type Operation, pointer } from "#webhook/json-patch.ts";
import { POD_DNS_SECTION } from "../config.ts";
import type { DnsChange } from "./dns-config.ts";
import { type PodResolution, planDnsInjection, withoutResolvers } from "./inject-dns.ts";
import { readResolution } from "./pod-resolution.ts";
import { type ResolverWatch, watchResolvers } from "./resolver-watch.ts";

const DNS_POLICY = "/spec/dnsPolicy";
const DNS_CONFIG = "/spec/dnsConfig";

/** Pod DNS of a webhook. */
interface RunningPodDns {
  /** What pod DNS does with one pod. */
  readonly podDns: PodDns;
  stop(): Promise<void>;
}

/**
 * Gives pods the resolvers of pod DNS, as soon as these answer. If pod DNS is not enabled, pods get hostAliases, with
 * a reason. `registry` gets a gauge that says which of the two happens.
 */
export function startPodDns(config: Pick<Config, "namespace">, log: Logger, registry: MetricsRegistry): RunningPodDns {
  const settings = settingsOf(config, POD_DNS_SECTION);
  const watch = settings.enabled ? watchResolvers(settings, config.namespace, log) : NEVER;
  registry.gauge(
    "switchback_webhook_pod_dns_usable",
    "1 while pods are given the resolvers of pod DNS; 0 also where it is not enabled.",
    () => ("code" in watch.setup() ? 0 : 1),
  );
  return { podDns: podDnsBy(watch.setup), stop: watch.stop };
}

const NOT_ENABLED: Reason = { code: "dns-not-enabled", text: "this install has no pod DNS (podDns.enabled)" };
const NEVER: ResolverWatch = { setup: () => NOT_ENABLED, stop: async () => {} };

/** `setup` returns the resolvers of pod DNS, or the reason why pods cannot get them now. */
export function podDnsBy(setup: ResolverWatch["setup"]): PodDns {
  return ({ object, namespace = "" }, pod, isWanted) => {
    if (!isWanted && pod.annotations[RESOLVERS_KEY] === undefined) return { changes: [] };
    const resolution = readResolution(object, pod, namespace);
    if ("code" in resolution) return resolution;
    const injection = isWanted ? planDnsInjection(resolution, setup()) : undefined;
    if (injection !== undefined && !("code" in injection))
      return { changes: operationsOf(injection.dns), given: { code: "injected-dns", injection } };
    const changes = [...operationsOf(withoutResolvers(resolution)), ...annotationRemoval(resolution)];
    return { changes, ...(injection !== undefined && { problem: injection }) };
  };
}

function operationsOf(change: DnsChange): readonly Operation[] {
  if (change === undefined) return [];
  if (change === "restore") {
    return [
      { op: "add", path: DNS_POLICY, value: "ClusterFirst" },
      { op: "remove", path: DNS_CONFIG },
    ];
  }
  return [
    { op: "add", path: DNS_POLICY, value: "None" },
    { op: "add", path: DNS_CONFIG, value: change.set },
  ];
}

/** Removes an annotation that names resolvers, if the pod gets none. */
function annotationRemoval({ annotations }: PodResolution): readonly Operation[] {
  if (annotations[RESOLVERS_KEY] === undefined) return [];
  return [{ op: "remove", path: `/metadata/annotations${pointer(RESOLVERS_KEY)}` }];
}
