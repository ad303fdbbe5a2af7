import { parseHostname } from "./hostnames.ts";

/** One published name: the addresses it leads to (one, or two when dual-stack). */
export interface HostLine {
  readonly name: string;
  readonly addresses: readonly string[];
}

/** A wildcard cannot stand in a hosts file; it is kept in a comment, which a DNS publisher reads and resolvers skip. */
const WILDCARD_PREFIX = "#wildcard ";

/**
 * hosts(5) text of some names: a line an address and name, so that people can grep it and DNS servers can load it.
 * The caller gives the lines in name order.
 */
export function renderHosts(lines: Iterable<HostLine>): string {
  const parts: string[] = [];
  for (const { name, addresses } of lines) {
    const prefix = name.startsWith("*.") ? WILDCARD_PREFIX : "";
    for (const address of addresses) parts.push(prefix, address, " ", name, "\n");
  }
  // A joined text is one piece; one that was added up keeps its parts in memory, several times its size.
  return parts.join("");
}

/**
 * Reads hosts(5) text: ours, or a file of an operator's (several names a line, comments). Entries of one name are joined in the
 * order of their lines. An address or a name that we would not write is left out: what is read here ends in a pod's hosts file.
 */
export function parseHosts(text: string): Map<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const raw of text.split("\n")) {
    const wildcard = raw.startsWith(WILDCARD_PREFIX);
    const line = wildcard ? raw.slice(WILDCARD_PREFIX.length) : (raw.split("#", 1)[0] ?? "");
    const [address, ...names] = line.trim().split(/\s+/);
    if (address === undefined || !isAddress(address)) continue;
    for (const name of names) addEntry(found, name, { address, wildcard });
  }
  return sharingAddresses(found);
}

/** Most names lead to the same few addresses: they share one list, made of strings that do not keep the whole text in memory. */
function sharingAddresses(found: ReadonlyMap<string, readonly string[]>): Map<string, readonly string[]> {
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

/** An IP literal that the API server takes in hostAliases; it refuses the whole pod for any other. */
function isAddress(text: string): boolean {
  return IPV4.test(text) || (/^[0-9a-fA-F:.]+$/.test(text) && URL.canParse(`http://[${text}]/`));
}

/** Upper case is folded: the API server refuses a pod for it. */
function addEntry(
  found: Map<string, string[]>,
  written: string,
  { address, wildcard }: { readonly address: string; readonly wildcard: boolean },
): void {
  const parsed = parseHostname(written);
  if (parsed.kind !== (wildcard ? "wildcard" : "name")) return;
  const { name } = parsed;
  const addresses = found.get(name);
  if (addresses === undefined) found.set(name, [address]);
  else if (!addresses.includes(address)) addresses.push(address);
}
