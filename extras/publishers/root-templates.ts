import { parentsOf } from "#hostmap/hostnames.ts";
import { ANY_DEPTH, isWildcard } from "#hostmap/wildcards.ts";
import type { PublisherMap } from "./publisher-map.ts";
import {
  apexOf,
  type BlocksOptions,
  chooseNames,
  healthNameOf,
  isReserved,
  type ServerBlocks,
  TTL_SECONDS,
  tagOf,
  templates,
} from "./server-blocks.ts";

/**
 * Maximum number of names in a template. CoreDNS compiles them to a regular expression, and each question in flight
 * takes memory in proportion to the longest one.
 */
const NAMES_OF_A_TEMPLATE = 100;
/** Maximum number of names. Each question of the block that is not in its cache runs through all templates. */
const MAX_NAMES = 2_000;

/**
 * Plugins for the server block that answers everything, if a Corefile imports `*.override`. Each group of names has a
 * `template` for A and one for AAAA. A question that no template matches goes to the block's other plugins. That
 * includes other types of a mapped name (TXT of DNS-01). Only ANY is answered, too, with the addresses alone (RFC
 * 8482).
 *
 * The `hosts` plugin is not suitable: it answers every type of its names, and a server block can have only one. The
 * first template that matches counts, so exact names come first, then the nearest wildcards.
 */
export function renderRootTemplates(map: PublisherMap, options: Omit<BlocksOptions, "listen" | "first">): ServerBlocks {
  const { publisher, taken, maxBytes } = options;
  const { groups, ...counts } = chooseNames(map, {
    maxBytes,
    maxNames: MAX_NAMES,
    isElsewhere: (name) => isReserved(name) || isBelow(name, taken),
    kindOf: (name) => (isWildcard(name) ? wildcardKind(name) : ""),
    // Each name is in two templates, for A and for AAAA.
    bytesOf: (name) => 2 * escaped(name).length,
  });
  const parts = [templates(healthPattern(publisher), [tagOf(map.revision)], 1)];
  for (const { addresses, names } of groups.sort((a, b) => depthOf(b.names) - depthOf(a.names))) {
    for (let at = 0; at < names.length; at += NAMES_OF_A_TEMPLATE)
      parts.push(templates(patternOf(names.slice(at, at + NAMES_OF_A_TEMPLATE)), addresses, TTL_SECONDS));
  }
  return { text: `${parts.flat().join("\n")}\n`, ...counts };
}

const healthPattern = (publisher: string) => patternOf([healthNameOf(publisher)]);

/** A pattern for names of one kind. The API server has checked the names: letters, digits, hyphens and dots. */
function patternOf(names: readonly string[]): string {
  const [first = ""] = names;
  const labels = !isWildcard(first) ? "" : first.startsWith(ANY_DEPTH) ? "(?:[^.]+[.])+" : "[^.]+[.]";
  return `^${labels}(?:${names.map(escaped).join("|")})[.]$`;
}

function escaped(name: string): string {
  return (apexOf(name) ?? name).replaceAll(".", "[.]");
}

/** Wildcards of one kind have the same number of labels. */
function wildcardKind(name: string): string {
  return `${name.startsWith(ANY_DEPTH) ? ANY_DEPTH : "*."}${apexOf(name)?.split(".").length}`;
}

/**
 * Sort key of a group; the highest comes first. Exact names, then wildcards with more labels; if these are equal,
 * wildcards of one label.
 */
function depthOf([first = ""]: readonly string[]): number {
  if (!isWildcard(first)) return Number.POSITIVE_INFINITY;
  const labels = apexOf(first)?.split(".").length ?? 0;
  return first.startsWith(ANY_DEPTH) ? labels : labels + 0.5;
}

/** Whether another server block answers for the name. CoreDNS asks the block of the longest zone. */
function isBelow(name: string, zones: ReadonlySet<string>): boolean {
  const apex = apexOf(name) ?? name;
  return [apex, ...parentsOf(apex)].some((zone) => zones.has(zone));
}
