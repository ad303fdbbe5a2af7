import * as v from "valibot";
import type { Config } from "#lib/config/schema.ts";
import { type Section, settingsOf } from "#lib/config/sections.ts";
import { bindPort, domain, optionalSetting, section, setting } from "#lib/config/values.ts";
import { strictObject, text } from "#lib/errors/schemas.ts";

/** Settings of the pod DNS resolvers: CoreDNS, and the sidecar that writes its files. */
const podDnsSchema = strictObject({
  enabled: setting(
    v.boolean(),
    false,
    "Whether the resolvers of pod DNS run; set by the chart. Without them, every pod gets hostAliases.",
  ),
  searches: optionalSetting(
    v.pipe(v.array(domain), v.maxLength(28)),
    "Search domains that pods get after those of the cluster; default: those that the webhook's own pod has from its " +
      "node. Set them if your nodes have different ones.",
  ),
  healthPort: setting(
    bindPort,
    8084,
    "Health and metrics of the sidecar. Change it if a policy of your cluster reserves the port.",
  ),
  upstream: setting(
    v.pipe(v.string(), v.regex(/^[A-Za-z0-9./:[\]-]+$/, "must be a path, or an address with or without a port")),
    "/etc/resolv.conf",
    "Upstream for all other names: a resolv.conf, or a server's address. By default the DNS of the cluster, as for " +
      "any pod. Set it to use a node-local cache.",
  ),
  directory: setting(
    v.pipe(v.string(), v.regex(/^(\/[A-Za-z0-9._-]+)+$/, "must be an absolute path without a trailing slash")),
    "/run/switchback-dns",
    "Directory that the sidecar shares with CoreDNS: Corefile, hosts file and zone file. Change it only outside " +
      "of the " +
      "chart.",
  ),
  resolvConf: setting(
    text,
    "/etc/resolv.conf",
    "The resolv.conf of a pod with dnsPolicy ClusterFirst, from which the webhook rebuilds what pods would have. " +
      "Set it if the webhook's own pod has another policy.",
  ),
});

const schema = section(podDnsSchema);

/** The section of the configuration. */
export const POD_DNS_SECTION: Section<typeof schema> = { name: "podDns", schema };

export type PodDnsSettings = v.InferOutput<typeof podDnsSchema>;

/** The Services of the two resolvers, in the namespace of Switchback. */
export const RESOLVERS: readonly string[] = ["switchback-dns-a", "switchback-dns-b"];

/** One of the two resolvers. */
export interface Resolver extends Pick<PodDnsSettings, "healthPort" | "upstream" | "directory"> {
  /** Address that CoreDNS and its sidecar bind. */
  readonly address: string;
  /** Identifies a rollout of the resolvers, which answer for it. */
  readonly revision: string;
  /**
   * Service of the other resolver. A new pod of this one starts once that one, if it answers at all, answers with the
   * same revision.
   */
  readonly waitFor?: string | undefined;
}

/** Returns the settings of one of the two resolvers. The chart sets as variables what differs between them. */
export function resolverOf(config: Config, env: Readonly<Record<string, string | undefined>>): Resolver {
  return {
    ...settingsOf(config, POD_DNS_SECTION),
    address: config.address,
    revision: env.SWITCHBACK_POD_DNS_REVISION ?? "none",
    waitFor: env.SWITCHBACK_POD_DNS_WAIT_FOR,
  };
}
