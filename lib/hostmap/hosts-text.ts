import { parseHostname } from "./hostnames.ts";
import { ANY_DEPTH, isWildcard } from "./wildcards.ts";

/** One published name and its addresses (one, or two when dual-stack). */
export interface HostLine {
  readonly name: string;
  readonly addresses: readonly string[];
  /** When the name was first published, as a sequence number. 0 or missing: unknown. */
  readonly order?: number;
  /** The namespace that has the name. Missing: unknown. */
  readonly holder?: string | undefined;
}

/** A hosts file cannot contain a wildcard. So a wildcard is a comment, which writers of DNS read and resolvers skip. */
const WILDCARD_PREFIX = "#wildcard ";
/**
 * A line may end with the order of its name and the namespace that has it: ` #12 shop`. Other readers of hosts files
 * see a comment.
 */
const ORIGIN = / #([1-9][0-9]{0,14})(?: ([a-z0-9-]{1,63}))?\s*$/;
/** Number of characters of the shortest line with a name, such as `:: a.b`. */
const SHORTEST_LINE = 6;

/**
 * Renders names as hosts(5) text, with one line per address and name, so people can grep it and DNS servers can load
 * it. The caller passes the lines in name order. The first line of a name ends with its order and its holder.
 */
export function renderHosts(lines: Iterable<HostLine>): string {
  const parts: string[] = [];
  for (const { name, addresses, order = 0, holder } of lines) {
    const prefix = isWildcard(name) ? WILDCARD_PREFIX : "";
    const origin = order > 0 ? ` #${order}${holder === undefined ? "" : ` ${holder}`}\n` : "\n";
    for (const [index, address] of addresses.entries()) {
      parts.push(prefix, address, " ", name, index === 0 ? origin : "\n");
    }
  }
  // join() allocates one flat string. Repeated concatenation would keep every part in memory, several times the size.
  return parts.join("");
}

/**
 * Parses hosts(5) text: the published map, or a user's file (several names per line, comments). Addresses of one name
 * are collected in line order. Invalid addresses and names are skipped, because the result ends up in a pod's hosts
 * file. Pass `orders` only for a shard of the map. It receives the order of each name that has one, and `holders` the
 * namespace that has it. Each line of a shard has one name, and the rest of the line is skipped.
 */
export function parseHosts(
  text: string,
  orders?: Map<string, number>,
  holders?: Map<string, string>,
): Map<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const raw of text.split("\n")) {
    if (raw.length < SHORTEST_LINE) continue;
    const { wildcard, address, names } = readHostsLine(raw, orders === undefined ? undefined : 1);
    if (!isAddress(address)) continue;
    const added = names.flatMap((name) => addEntry(found, name, { address, wildcard }) ?? []);
    if (orders !== undefined) readOrigin(raw, added, orders, holders);
  }
  return withSharedAddresses(found);
}

function readOrigin(
  line: string,
  names: readonly string[],
  orders: Map<string, number>,
  holders: Map<string, string> | undefined,
): void {
  const [, order, holder] = ORIGIN.exec(line) ?? [];
  if (order === undefined) return;
  for (const name of names) {
    orders.set(name, Number(order));
    if (holder !== undefined) holders?.set(name, holder);
  }
}

/**
 * Returns the fields of one line as written, with at most `maxNames` names. For an empty line or a comment, the
 * address is "" and there are no names.
 */
export function readHostsLine(raw: string, maxNames?: number): { wildcard: boolean; address: string; names: string[] } {
  const wildcard = raw.startsWith(WILDCARD_PREFIX);
  const line = wildcard ? raw.slice(WILDCARD_PREFIX.length) : (raw.split("#", 1)[0] ?? "");
  const [address = "", ...names] = line.trim().split(/\s+/, maxNames && maxNames + 1);
  return { wildcard, address, names };
}

/**
 * Shares equal lists of addresses, because most names have the same few addresses. The strings are copies that do not
 * retain the whole text.
 */
function withSharedAddresses(found: ReadonlyMap<string, readonly string[]>): Map<string, readonly string[]> {
  const lists = new Map<string, readonly string[]>();
  const shared = new Map<string, readonly string[]>();
  for (const [name, addresses] of found) {
    const key = JSON.stringify(addresses);
    const list = lists.get(key) ?? (JSON.parse(key) as string[]);
    lists.set(key, list);
    shared.set(name, list);
  }
  return shared;
}

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/** Whether the API server accepts the IP literal in hostAliases. It rejects the whole pod for an invalid one. */
export function isAddress(text: string): boolean {
  return IPV4.test(text) || (/^[0-9a-fA-F:.]+$/.test(text) && URL.canParse(`http://[${text}]/`));
}

/**
 * Adds a name in lower case, because the API server rejects a pod with upper case. Returns the added name, or
 * undefined if it is invalid.
 */
function addEntry(
  found: Map<string, string[]>,
  written: string,
  { address, wildcard }: { readonly address: string; readonly wildcard: boolean },
): string | undefined {
  const anyDepth = written.startsWith(ANY_DEPTH);
  const parsed = parseHostname(anyDepth ? written.slice(1) : written);
  if (parsed.kind !== (wildcard ? "wildcard" : "name") || (anyDepth && !wildcard)) return undefined;
  const name = anyDepth ? `*${parsed.name}` : parsed.name;
  const addresses = found.get(name);
  if (addresses === undefined) found.set(name, [address]);
  else if (!addresses.includes(address)) addresses.push(address);
  return name;
}
