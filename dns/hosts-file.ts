import { DNS_HEALTH_NAME } from "../hostmap/dns-health-name.ts";
import type { MapPart, PublishedMap } from "../hostmap/types.ts";
import { ANY_DEPTH } from "../hostmap/wildcards.ts";

const HEALTH_LINE = `127.0.0.1 ${DNS_HEALTH_NAME}\n`;

/**
 * Renders the hosts file of CoreDNS: names, and the wildcards of one label, which its `hosts` plugin knows as `*.x`; it prefers exact
 * names. Wildcards at any depth are not in it: see `wildcard-zone.ts`.
 */
export class HostsFileRenderer {
  /** By part: a change of the map renders the shards that it touches. */
  readonly #texts = new WeakMap<MapPart, string>();

  /** The text of the whole file. */
  render({ parts }: Pick<PublishedMap, "parts">): string {
    return HEALTH_LINE + parts.map((part) => this.#textOf(part)).join("");
  }

  #textOf(part: MapPart): string {
    const known = this.#texts.get(part);
    if (known !== undefined) return known;
    const text = linesOf(part);
    this.#texts.set(part, text);
    return text;
  }
}

function linesOf({ entries }: MapPart): string {
  const lines: string[] = [];
  for (const [name, addresses] of entries) {
    // Nobody but us decides whether a resolver is healthy.
    if (name.startsWith(ANY_DEPTH) || name === DNS_HEALTH_NAME) continue;
    for (const address of addresses) lines.push(address, " ", name, "\n");
  }
  return lines.join("");
}
