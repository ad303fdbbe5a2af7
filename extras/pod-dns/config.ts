import * as v from "valibot";
import { type Section, settingsOf } from "#lib/config/sections.ts";
import { bindPort, domain, label, optionalSetting, port, secondsFrom, section, setting } from "#lib/config/values.ts";
import { integer, strictObject, text } from "#lib/errors/schemas.ts";

/** Settings of the pod DNS resolvers: CoreDNS, and the sidecar that writes its files. */
const podDnsSchema = strictObject({
  enabled: setting(
    v.boolean(),
    false,
    "Whether the resolvers of pod DNS run; set by the chart. Without them, every pod gets hostAliases.",
  ),
  resolvers: setting(
    v.pipe(v.array(label), v.length(2)),
    ["switchback-dns-a", "switchback-dns-b"],
    "The two Services of the resolvers, in the namespace of Switchback; set by the chart.",
  ),
  revision: setting(
    label,
    "none",
    "Identifies a rollout of the resolvers, which answer for it. In the chart, " + "SWITCHBACK_POD_DNS_REVISION.",
  ),
  waitFor: optionalSetting(
    label,
    "Service of the other resolver. A new pod of this one starts once that one, if it answers at all, answers with " +
      "the same revision. In the chart, SWITCHBACK_POD_DNS_WAIT_FOR.",
  ),
  searches: optionalSetting(
    v.pipe(v.array(domain), v.maxLength(28)),
    "Search domains that pods get after those of the cluster; default: those that the webhook's own pod has from its " +
      "node.",
  ),
  address: setting(v.string(), "::", "Address that CoreDNS and its sidecar bind."),
  port: setting(port, 1053, "Look-ups, UDP and TCP."),
  healthPort: setting(bindPort, 8084, "Health and metrics of the sidecar."),
  coreDnsHealthPort: setting(port, 8085, "CoreDNS' plugin `health`."),
  coreDnsReadyPort: setting(port, 8086, "CoreDNS' plugin `ready`."),
  coreDnsMetricsPort: setting(port, 9153, "CoreDNS' metrics."),
  upstream: setting(
    v.pipe(v.string(), v.regex(/^[A-Za-z0-9./:[\]-]+$/, "must be a path, or an address with or without a port")),
    "/etc/resolv.conf",
    "Upstream for all other names: a resolv.conf, or a server's address. By default the DNS of the cluster, as for " +
      "any pod.",
  ),
  directory: setting(
    v.pipe(v.string(), v.regex(/^(\/[A-Za-z0-9._-]+)+$/, "must be an absolute path without a trailing slash")),
    "/run/switchback-dns",
    "Directory that the sidecar shares with CoreDNS: Corefile, hosts file and zone file.",
  ),
  ttlSeconds: setting(secondsFrom(1), 5, "TTL of mapped names: how long a client that caches may keep an address."),
  reloadMs: setting(integer(50, 60_000), 100, "How often CoreDNS looks whether the map has changed, milliseconds."),
  resolvConf: setting(
    text,
    "/etc/resolv.conf",
    "The resolv.conf of a pod with dnsPolicy ClusterFirst, from which the webhook rebuilds what pods would have.",
  ),
});

const schema = section(podDnsSchema);

/** The section of the configuration. */
export const POD_DNS_SECTION: Section<typeof schema> = { name: "podDns", schema };

export type PodDnsSettings = v.InferOutput<typeof podDnsSchema>;

/** Returns the settings of one of the two resolvers. The chart sets as variables what differs between them. */
export function settingsOfResolver(
  config: object,
  { SWITCHBACK_POD_DNS_REVISION, SWITCHBACK_POD_DNS_WAIT_FOR }: Readonly<Record<string, string | undefined>>,
): PodDnsSettings {
  const { revision, waitFor, ...settings } = settingsOf(config, POD_DNS_SECTION);
  return {
    ...settings,
    revision: SWITCHBACK_POD_DNS_REVISION ?? revision,
    waitFor: SWITCHBACK_POD_DNS_WAIT_FOR ?? waitFor,
  };
}
