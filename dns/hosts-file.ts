import { DNS_HEALTH_NAME, revisionHealthName } from "../hostmap/dns-health-name.ts";
import type { MapPart, PublishedMap } from "../hostmap/types.ts";
import { ANY_DEPTH } from "../hostmap/wildcards.ts";

const HEALTHY = "127.0.0.1";

/**
 * Renders the hosts file of CoreDNS: names, and the wildcards of one label, which its `hosts` plugin knows as `*.x`; it prefers exact
 * names. Wildcards at any depth are not in it: see `wildcard-zone.ts`.
 */
export class HostsFileRenderer {
  /** By part: a change of the map renders the shards that it touches. */
  readonly #texts = new WeakMap<MapPart, string>();
  readonly #health: string;

  /** `revision` is that of the rollout. */
  constructor(revision: string) {
    this.#health = `${HEALTHY} ${DNS_HEALTH_NAME} ${revisionHealthName(revision)}\n`;
  }

  /** The text of the whole file. */
  render({ parts }: Pick<PublishedMap, "parts">): string {
    return this.#health + parts.map((part) => this.#textOf(part)).join("");
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
    if (name.startsWith(ANY_DEPTH) || name.endsWith(DNS_HEALTH_NAME)) continue;
    for (const address of addresses) lines.push(address, " ", name, "\n");
  }
  return lines.join("");
}
