import { RESOLVERS_KEY } from "./metadata-keys.ts";

/**
 * Value of `switchback.dev/revision` of a pod that resolves through pod DNS. Such a pod is current whatever the map
 * is. No hash has this value, and an injection of hostAliases replaces it.
 */
export const DNS_REVISION = "dns";

/** Whether a pod with this revision resolves through pod DNS. Such a pod is never stale. */
export function isByDns(revision: string | undefined): boolean {
  return revision === DNS_REVISION;
}

/** The parts of a pod that show whether it has our resolvers. */
interface PodResolvers {
  readonly dnsPolicy: string | undefined;
  readonly dnsConfig: { readonly nameservers?: readonly string[] | null | undefined } | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Whether pod DNS set the pod's `dnsConfig`: the annotation lists exactly its nameservers. */
export function holdsResolvers(pod: PodResolvers): boolean {
  const nameservers = pod.dnsConfig?.nameservers ?? [];
  const recorded = pod.annotations[RESOLVERS_KEY];
  return pod.dnsPolicy === "None" && nameservers.length > 0 && recorded === nameservers.join(" ");
}
