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

/** Whether pod DNS set a pod's `dnsConfig`: the annotation lists exactly its nameservers. */
export function holdsResolvers(
  dnsPolicy: string | undefined,
  nameservers: readonly string[],
  annotations: Readonly<Record<string, string>>,
): boolean {
  return dnsPolicy === "None" && nameservers.length > 0 && annotations[RESOLVERS_KEY] === nameservers.join(" ");
}
