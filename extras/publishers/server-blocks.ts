import { isIPv6 } from "node:net";
import { shortHash } from "#hostmap/hash.ts";
import { ANY_DEPTH, isWildcard } from "#hostmap/wildcards.ts";
import type { PublisherMap } from "./publisher-map.ts";
import type { ServerZones } from "./server-zones.ts";

/** What the server blocks of a map depend on. */
export interface BlocksOptions {
  /** The publisher: several may have blocks in one CoreDNS. */
  readonly publisher: string;
  readonly listen: NonNullable<ServerZones["listen"]>;
  /** Zones of other server blocks. */
  readonly taken: ReadonlySet<string>;
  /**
   * Whether these blocks come before all others. CoreDNS refuses a view behind a block without one that has the
   * same zone.
   */
  readonly first: boolean;
  /** Of the records, seconds. */
  readonly ttl: number;
  /** Of the text. */
  readonly maxBytes: number;
}

export interface ServerBlocks {
  readonly text: string;
  readonly names: number;
  /** Names for which there is no room, and names whose zone another server block answers. */
  readonly tooMany: number;
  readonly elsewhere: number;
}

/** An expression with more than 10,000 nodes is refused (expr-lang, conf.DefaultMaxNodes). */
const NAMES_OF_A_VIEW = 4_000;
/** Far above what comes with a name beside itself, twice: quotes, and its zone if no other name has it. */
const BYTES_OF_A_NAME = 16;
const BYTES_OF_A_BLOCK = 600;
/** The tag of a revision is an address of loopback: it leads nowhere. */
const TAG_BYTES = 3;
const INDENT = "    ";

/** Names of one block: with the same addresses and, if they are wildcards, of the same kind and number of labels. */
interface Group {
  readonly addresses: readonly string[];
  readonly names: string[];
}

/**
 * Names that readers ask for to learn which map they have: no name of the public DNS ends with `.invalid` (RFC 6761).
 */
export function healthNameOf(publisher: string): string {
  return `${publisher}.publisher.switchback.invalid`;
}

/** What the health name resolves to with the blocks of a revision. */
export function tagOf(revision: string): string {
  const bytes = Buffer.from(shortHash(revision), "hex");
  return ["127", ...bytes.subarray(0, TAG_BYTES)].join(".");
}

/**
 * Server blocks of CoreDNS that answer A and AAAA of a map's names, and nothing else: a view lets in what they
 * answer, and everything else goes on to the block that it went to before, be it another type of the same name (TXT
 * of DNS-01), another name of the same zone, or another zone. What is asked for other zones meets no view at all.
 *
 * A question finds its block by its zone, in a hash table. The view of a block of names has a list, which CoreDNS
 * compiles to another one. So a question costs the same, however many names there are.
 */
export function renderServerBlocks(map: PublisherMap, options: BlocksOptions): ServerBlocks {
  const { publisher, listen, ttl, maxBytes } = options;
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
      blocks.push(block(names.slice(at, at + NAMES_OF_A_VIEW), addresses, ttl));
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
  /** Of a wildcard: only those of one kind can be in a group. */
  readonly kindOf: (name: string) => string;
  /** What the name itself takes of the text. */
  readonly bytesOf: (name: string) => number;
}

/** Names of a group together; wildcards after the names, since an exact name is preferred. */
export function chooseNames(map: PublisherMap, choice: Choice) {
  let bytes = 2 * BYTES_OF_A_BLOCK;
  let [names, tooMany, elsewhere] = [0, 0, 0];
  const exact = new Map<string, Group>();
  const wild = new Map<string, Group>();
  // If there is no room for all, those that were published first are.
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

/** The name below which a wildcard holds; undefined: it is none. */
export function apexOf(name: string): string | undefined {
  if (name.startsWith(ANY_DEPTH)) return name.slice(ANY_DEPTH.length);
  return name.startsWith("*.") ? name.slice(2) : undefined;
}

/** Nobody but publishers themselves answers what readers ask them by. */
export function isReserved(name: string): boolean {
  return /(?:^|\.)invalid$/.test(name);
}

function isServedElsewhere(name: string, { taken, first }: BlocksOptions): boolean {
  return isReserved(name) || (!first && taken.has(apexOf(name) ?? name));
}

/**
 * The zone by which questions for a name reach its block. CoreDNS asks the blocks of the longest zone first. The
 * zone above the name is that of many names; a name of two labels has its own, as `com` is nobody's.
 */
function zoneFor(name: string, { taken }: BlocksOptions): string {
  const apex = apexOf(name);
  if (apex !== undefined) return apex;
  const parent = name.slice(name.indexOf(".") + 1);
  return parent.includes(".") && !taken.has(parent) && !taken.has(name) ? parent : name;
}

/** The part of the view's expression that knows the names: all of one group. */
function condition(names: readonly string[]): string {
  const [first = ""] = names;
  return isWildcard(first) ? viewOfWildcard(first) : `name() in [${names.map((name) => `'${name}.'`).join(",")}]`;
}

/**
 * What a question has to be beside in the zone of a wildcard, which is the name below which it holds: one label more,
 * or at least one. So it is a count of labels, the same for all wildcards of a block. A pattern with their names would
 * cost each question in one of their zones the time of all.
 */
function viewOfWildcard(name: string): string {
  const labels = apexOf(name)?.split(".").length ?? 0;
  const more = name.startsWith(ANY_DEPTH) ? "(?:[^.]+[.])*" : "";
  return `name() matches '^(?:[^.]+[.]){${labels + 1}}${more}$'`;
}

/**
 * For any zone (`.`): by default a template has those of its block, and CoreDNS compares each question with one after
 * the other. With `pattern` for the names that match alone; all others go on.
 *
 * Without an address of a family: no record, rather than the upstream's.
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
