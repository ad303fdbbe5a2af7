import { RESOLVERS_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { settingsOf } from "#lib/config/sections.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { Delivery } from "#webhook/delivery.ts";
import { type Operation, pointer } from "#webhook/json-patch.ts";
import { POD_DNS_SECTION } from "../config.ts";
import type { DnsChange, PodDnsSetup } from "./dns-config.ts";
import { type PodResolution, planDnsInjection, withoutResolvers } from "./inject-dns.ts";
import { readResolution } from "./pod-resolution.ts";
import { watchResolvers } from "./resolver-watch.ts";

const DNS_POLICY = "/spec/dnsPolicy";
const DNS_CONFIG = "/spec/dnsConfig";

/** Gives pods the resolvers of pod DNS. If pod DNS is not enabled, pods get hostAliases, with a reason. */
export function startPodDns(config: Pick<Config, "namespace">, log: Logger): Delivery {
  const settings = settingsOf(config, POD_DNS_SECTION);
  if (!settings.enabled) return deliveryBy(() => NOT_ENABLED);
  const watch = watchResolvers(settings, config.namespace, log);
  return { ...deliveryBy(watch.setup), readinessLine: () => describe(watch.setup()), stop: watch.stop };
}

const NOT_ENABLED: Reason = { code: "dns-not-enabled", text: "this install has no pod DNS (podDns.enabled)" };

/** `setup` returns the resolvers of pod DNS, or the reason why pods cannot get them now. */
export function deliveryBy(setup: () => PodDnsSetup | Reason): Delivery {
  return {
    name: "dns",
    code: "injected-dns",
    annotation: RESOLVERS_KEY,
    read(admitted, pod, namespace) {
      const resolution = readResolution(admitted, pod, namespace);
      if ("code" in resolution) return resolution;
      return {
        give() {
          const injection = planDnsInjection(resolution, setup());
          return "code" in injection ? injection : { injection, changes: operationsOf(injection.dns) };
        },
        takeBack: () => [...operationsOf(withoutResolvers(resolution)), ...annotationRemoval(resolution)],
      };
    },
    readinessLine: () => undefined,
    addMetrics(registry: MetricsRegistry) {
      registry.gauge(
        "switchback_webhook_pod_dns_usable",
        "1 while pods are given the resolvers of pod DNS; 0 also where it is not enabled.",
        () => ("code" in setup() ? 0 : 1),
      );
    },
    async stop() {},
  };
}

/** The line about pod DNS in the webhook's readiness. */
export function describe(setup: PodDnsSetup | Reason): string {
  return `pod DNS: ${"code" in setup ? `not used (${setup.code}: ${setup.text})` : setup.resolvers.join(" ")}`;
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
