import type { NameProtection } from "#hostmap/protected-names.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { type DnsMap, toDnsMap } from "../dns-map.ts";

/** The sidecar's map of these entries. */
export function dnsMapOf(
  revision: string,
  entries: ReadonlyMap<string, readonly string[]>,
  protect: NameProtection = () => undefined,
): DnsMap {
  return toDnsMap(publishedMapOf(revision, entries), protect);
}
