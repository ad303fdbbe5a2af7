import { renderHosts } from "#hostmap/hosts-text.ts";
import type { NameProtection } from "#hostmap/protected-names.ts";
import { type DnsMap, dnsMapForm } from "../dns-map.ts";

/** The sidecar's map of these entries. */
export function dnsMapOf(
  revision: string,
  entries: ReadonlyMap<string, readonly string[]>,
  protect: NameProtection = () => undefined,
): DnsMap {
  const { parse, assemble } = dnsMapForm(protect);
  const lines = [...entries].map(([name, addresses]) => ({ name, addresses }));
  return assemble(revision, [parse(renderHosts(lines))]);
}
