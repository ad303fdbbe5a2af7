import { ANY_DEPTH } from "#hostmap/wildcards.ts";
import { DNS_HEALTH_NAME, revisionHealthName } from "./health-name.ts";

const HEALTHY = "127.0.0.1";

/** The first line of the hosts file. `revision` is the rollout's. */
export function healthLine(revision: string): string {
  return `${HEALTHY} ${DNS_HEALTH_NAME} ${revisionHealthName(revision)}\n`;
}

/**
 * Lines of CoreDNS' hosts file: names, and wildcards of one label, which its `hosts` plugin knows as `*.x`. It
 * prefers exact names. Wildcards at any depth are in the zone file (`wildcard-zone.ts`).
 */
export function hostsLines(entries: ReadonlyMap<string, readonly string[]>): string {
  const lines: string[] = [];
  for (const [name, addresses] of entries) {
    // Only Switchback decides whether a resolver is healthy, so the map cannot set these names.
    if (name.startsWith(ANY_DEPTH) || name.endsWith(DNS_HEALTH_NAME)) continue;
    for (const address of addresses) lines.push(address, " ", name, "\n");
  }
  return lines.join("");
}
