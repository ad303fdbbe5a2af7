import type { Injection } from "#hostmap/inject.ts";
import { withoutManaged } from "#hostmap/managed-aliases.ts";
import { HOSTS_KEY, INJECTED_KEY, OWNED_KEY, RESOLVERS_KEY, REVISION_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { DNS_REVISION, holdsResolvers } from "#hostmap/pod-dns-marks.ts";
import { MAX_WARNING } from "#hostmap/pod-selection.ts";
import type { Reason } from "#hostmap/types.ts";
import type { AdmittedPod } from "#webhook/admitted-pod.ts";
import { buildDnsConfig, type DnsChange, type PodDnsConfig, type PodDnsSetup } from "./dns-config.ts";

/** The fields of a pod that decide how it resolves names. */
export interface PodResolution extends AdmittedPod {
  readonly namespace: string;
  readonly hostNetwork: boolean;
  /** Undefined means ClusterFirst. */
  readonly dnsPolicy: string | undefined;
  readonly dnsConfig: PodDnsConfig | undefined;
}

/** The desired state of a pod that should resolve through pod DNS. */
export interface DnsInjection extends Injection {
  readonly dns: DnsChange;
}

interface Check {
  readonly text: string;
  readonly applies: (pod: PodResolution) => boolean;
}

/**
 * Reasons why a pod keeps its DNS settings. The first check that applies decides. A `dnsConfig` of ours is not the
 * pod's own.
 */
const CHECKS: readonly Check[] = [
  {
    text: "the pod uses the host's network",
    applies: ({ hostNetwork }) => hostNetwork,
  },
  {
    text: "its dnsPolicy is not ClusterFirst",
    applies: (pod) => !hasOurs(pod) && (pod.dnsPolicy ?? "ClusterFirst") !== "ClusterFirst",
  },
  {
    text: "it has a dnsConfig of its own",
    applies: (pod) => !hasOurs(pod) && !isEmpty(pod.dnsConfig),
  },
  {
    text: `it chooses names by ${HOSTS_KEY}`,
    applies: ({ annotations }) => (annotations[HOSTS_KEY] ?? "*").trim() !== "*",
  },
];

/**
 * Plans the injection of a pod that should resolve through pod DNS, or returns the reason why it gets hostAliases
 * instead. Removes managed aliases of an earlier pass. `setup` is a reason while the resolvers cannot be used.
 */
export function planDnsInjection(pod: PodResolution, setup: PodDnsSetup | Reason): DnsInjection | Reason {
  if ("code" in setup) return instead(setup);
  const check = CHECKS.find(({ applies }) => applies(pod));
  const config = buildDnsConfig(setup, pod.namespace);
  if (check !== undefined || config === undefined) {
    const text = check?.text ?? "its namespace does not form a valid search domain";
    return instead({ code: "dns-not-possible", text });
  }
  const resolvers = describeResolvers(config.nameservers ?? []);
  return {
    userAliases: withoutManaged(pod.hostAliases, pod.annotations[OWNED_KEY]),
    managed: {
      aliases: [],
      annotations: {
        [INJECTED_KEY]: `every name, by pod DNS at ${resolvers}`,
        [REVISION_KEY]: DNS_REVISION,
        [OWNED_KEY]: "none",
        [RESOLVERS_KEY]: resolvers,
      },
    },
    dns: isCurrent(pod, config) ? undefined : { set: config },
  };
}

/** Returns the change of DNS settings for a pod that gets hostAliases: a `dnsConfig` of ours is removed. */
export function withoutResolvers(pod: PodResolution): DnsChange {
  return hasOurs(pod) ? "restore" : undefined;
}

function instead({ code, text }: Reason): Reason {
  return { code, text: `${VIA_KEY}: hostAliases instead: ${text}`.slice(0, MAX_WARNING) };
}

function hasOurs({ dnsPolicy, dnsConfig, annotations }: PodResolution): boolean {
  return holdsResolvers(dnsPolicy, dnsConfig?.nameservers ?? [], annotations);
}

/** Does not compare options: somebody may have changed them after us, and the change stays. */
function isCurrent(pod: PodResolution, { nameservers, searches }: PodDnsConfig): boolean {
  const isSame = (left: readonly string[] = [], right: readonly string[] = []) => left.join(" ") === right.join(" ");
  return (
    hasOurs(pod) &&
    isSame(pod.dnsConfig?.nameservers ?? [], nameservers ?? []) &&
    isSame(pod.dnsConfig?.searches ?? [], searches ?? [])
  );
}

function isEmpty(config: PodDnsConfig | undefined): boolean {
  return [config?.nameservers, config?.searches, config?.options].every((list) => (list ?? []).length === 0);
}

function describeResolvers(nameservers: readonly string[]): string {
  return nameservers.join(" ");
}
