import { isIPv6 } from "node:net";
import { shortHash } from "#hostmap/hash.ts";
import { ANY_DEPTH, isWildcard } from "#hostmap/wildcards.ts";
import type { PublisherMap } from "./publisher-map.ts";
import type { ServerZones } from "./server-zones.ts";

/** What the server blocks of a map depend on. */
export interface BlocksOptions {
  /** Name of the publisher. Several publishers may have blocks in one CoreDNS. */
  readonly publisher: string;
  readonly listen: NonNullable<ServerZones["listen"]>;
  /** Zones of other server blocks. */
  readonly taken: ReadonlySet<string>;
  /**
   * Whether these blocks come before all others. CoreDNS refuses a block with a view after a block of the same zone
   * without one.
   */
  readonly first: boolean;
  /** Maximum size of the text, in bytes. */
  readonly maxBytes: number;
}

/** TTL of mapped names: how long a client that caches may keep an address. */
export const TTL_SECONDS = 5;

export interface ServerBlocks {
  readonly text: string;
  readonly names: number;
  /** Number of names without room; `elsewhere`: number of names whose zone another server block answers. */
  readonly tooMany: number;
  readonly elsewhere: number;
}

/**
 * Maximum number of names in a view. CoreDNS refuses an expression with more than 10,000 nodes (expr-lang,
 * conf.DefaultMaxNodes).
 */
const NAMES_OF_A_VIEW = 4_000;
/**
 * Far above the bytes that a name needs beside itself: quotes and separators. The name itself counts twice, because
 * it is also a zone if no other name has that zone.
 */
const BYTES_OF_A_NAME = 16;
const BYTES_OF_A_BLOCK = 600;
/** Bytes of the tag of a revision. The tag is a loopback address, so it leads nowhere. */
const TAG_BYTES = 3;
const INDENT = "    ";

/** Names of one block. They have the same addresses. Wildcards also have the same kind and number of labels. */
interface Group {
  readonly addresses: readonly string[];
  readonly names: string[];
}

/**
 * Name that readers ask for to learn which map they have. No name of the public DNS ends with `.invalid` (RFC 6761).
 */
export function healthNameOf(publisher: string): string {
  return `${publisher}.publisher.switchback.invalid`;
}

/** The address of the health name in the blocks of a revision. */
export function tagOf(revision: string): string {
  const bytes = Buffer.from(shortHash(revision), "hex");
  return ["127", ...bytes.subarray(0, TAG_BYTES)].join(".");
}

/**
 * Server blocks of CoreDNS that answer only A and AAAA of a map's names. A view lets in these questions alone. Every
 * other question goes to the same block as before: other types of the same name (TXT of DNS-01), other names of the
 * same zone, and other zones. A question for another zone does not meet a view at all.
 *
 * A question finds its block by its zone, in a hash table. The view of a block has a list of names, which CoreDNS
 * compiles to another hash table. So the cost of a question does not depend on the number of names.
 */
export function renderServerBlocks(map: PublisherMap, options: BlocksOptions): ServerBlocks {
  const { publisher, listen, maxBytes } = options;
  const chosen = chooseNames(map, {
    maxBytes,
    maxNames: Number.POSITIVE_INFINITY,
    isElsewhere: (name) => isServedElsewhere(name, options),
    kindOf: (name) => (isWildcard(name) ? viewOfWildcard(name) : ""),
    bytesOf: (name) => 2 * name.length,
  });
  let view = 0;
  const blocks = [block([healthNameOf(publisher)], [tagOf(map.revision)], 1)];
  function block(names: readonly string[], addresses: readonly string[], recordTtl: number): string {
    view += 1;
    const zones = new Set(names.map((name) => zoneFor(name, options)));
    return [
      `${[...zones].map((zone) => `${zone}:${listen.port}`).join(" ")} {`,
      ...(listen.bind.length === 0 ? [] : [`${INDENT}bind ${listen.bind.join(" ")}`]),
      `${INDENT}view switchback_${publisher.replaceAll("-", "_")}_${view} {`,
      `${INDENT}${INDENT}expr type() in ['A','AAAA'] && (${condition(names)})`,
      `${INDENT}}`,
      `${INDENT}errors`,
      ...templates(undefined, addresses, recordTtl),
      "}",
    ].join("\n");
  }
  for (const { addresses, names } of chosen.groups) {
    for (let at = 0; at < names.length; at += NAMES_OF_A_VIEW) {
      blocks.push(block(names.slice(at, at + NAMES_OF_A_VIEW), addresses, TTL_SECONDS));
    }
  }
  return {
    text: `${blocks.join("\n")}\n`,
    names: chosen.names,
    tooMany: chosen.tooMany,
    elsewhere: chosen.elsewhere,
  };
}

interface Choice {
  readonly maxBytes: number;
  readonly maxNames: number;
  /** Whether another server block answers for the name. */
  readonly isElsewhere: (name: string) => boolean;
  /** Kind of a wildcard. A group only has wildcards of one kind. */
  readonly kindOf: (name: string) => string;
  /** Bytes of the text for the name itself. */
  readonly bytesOf: (name: string) => number;
}

/**
 * Chooses the names that fit, in groups. Wildcards come after exact names, because an exact name takes precedence.
 */
export function chooseNames(map: PublisherMap, choice: Choice) {
  let bytes = 2 * BYTES_OF_A_BLOCK;
  let [names, tooMany, elsewhere] = [0, 0, 0];
  const exact = new Map<string, Group>();
  const wild = new Map<string, Group>();
  // If there is no room for all names, those that were published first stay.
  for (const [name, addresses] of map.entries) {
    if (choice.isElsewhere(name)) {
      elsewhere += 1;
      continue;
    }
    const groups = isWildcard(name) ? wild : exact;
    const key = `${addresses.join(" ")} ${choice.kindOf(name)}`;
    const isNew = !groups.has(key);
    const cost = choice.bytesOf(name) + BYTES_OF_A_NAME + (isNew ? BYTES_OF_A_BLOCK : 0);
    if (bytes + cost > choice.maxBytes || names === choice.maxNames) {
      tooMany += 1;
      continue;
    }
    bytes += cost;
    names += 1;
    const group = groups.get(key) ?? { addresses, names: [] };
    group.names.push(name);
    groups.set(key, group);
  }
  for (const { names: list } of [...exact.values(), ...wild.values()]) list.sort();
  return { groups: [...exact.values(), ...wild.values()], names, tooMany, elsewhere };
}

/** The name below which a wildcard holds; undefined if the name is not a wildcard. */
export function apexOf(name: string): string | undefined {
  if (name.startsWith(ANY_DEPTH)) return name.slice(ANY_DEPTH.length);
  return name.startsWith("*.") ? name.slice(2) : undefined;
}

/** Whether only publishers may answer the name, because it is in the zone of their health names. */
export function isReserved(name: string): boolean {
  return /(?:^|\.)invalid$/.test(name);
}

function isServedElsewhere(name: string, { taken, first }: BlocksOptions): boolean {
  return isReserved(name) || (!first && taken.has(apexOf(name) ?? name));
}

/**
 * The zone by which questions for a name reach its block. CoreDNS asks the blocks of the longest zone first. Usually
 * it is the parent, which many names share. If the parent has one label, it is the name itself, as `com` belongs to
 * nobody. It is also the name itself if another block has the zone of the parent or the name.
 */
function zoneFor(name: string, { taken }: BlocksOptions): string {
  const apex = apexOf(name);
  if (apex !== undefined) return apex;
  const parent = name.slice(name.indexOf(".") + 1);
  return parent.includes(".") && !taken.has(parent) && !taken.has(name) ? parent : name;
}

/** The part of the view's expression that matches the names, which are of one group. */
function condition(names: readonly string[]): string {
  const [first = ""] = names;
  return isWildcard(first) ? viewOfWildcard(first) : `name() in [${names.map((name) => `'${name}.'`).join(",")}]`;
}

/**
 * The condition of a view for wildcards. The block's zone is the name below which a wildcard holds. So the view only
 * counts the labels of a question: one more than the zone, or at least one more. This is the same for all wildcards
 * of a block. A pattern with all their names would make each question in one of their zones as slow as all of them.
 */
function viewOfWildcard(name: string): string {
  const labels = apexOf(name)?.split(".").length ?? 0;
  const more = name.startsWith(ANY_DEPTH) ? "(?:[^.]+[.])*" : "";
  return `name() matches '^(?:[^.]+[.]){${labels + 1}}${more}$'`;
}

/**
 * Templates for any zone (`.`): by default a template has the zones of its block, and CoreDNS compares each question
 * with one zone after the other. With `pattern`, a template answers only names that match, and all others go on.
 *
 * If there is no address of a family, the answer has no record, instead of the upstream's.
 */
export function templates(pattern: string | undefined, addresses: readonly string[], ttl: number): string[] {
  const template = (type: "A" | "AAAA", ofType: readonly string[]) => [
    `template IN ${type} . {`,
    ...(pattern === undefined ? [] : [`${INDENT}match "${pattern}"`]),
    ...(ofType.length === 0 ? [`${INDENT}rcode NOERROR`] : []),
    ...ofType.map((address) => `${INDENT}answer "{{ .Name }} ${ttl} IN ${type} ${address}"`),
    ...(pattern === undefined ? [] : [`${INDENT}fallthrough`]),
    "}",
  ];
  const [four, six] = [addresses.filter((address) => !isIPv6(address)), addresses.filter(isIPv6)];
  return [...template("A", four), ...template("AAAA", six)].map((line) => INDENT + line);
}
