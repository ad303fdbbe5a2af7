import { parseHostname } from "./hostnames.ts";
import { getOrAdd } from "./multi-map.ts";
import type { HostLine } from "./types.ts";
import { ANY_DEPTH, isWildcard } from "./wildcards.ts";

/** A hosts file cannot contain a wildcard. So a wildcard is a comment, which writers of DNS read and resolvers skip. */
const WILDCARD_PREFIX = "#wildcard ";
/** The comment at the end of a line is the namespace that has the name. Other readers of hosts files skip it. */
const HOLDER = / # ([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/;

/**
 * Renders names as hosts(5) text, with one line per address and name, so people can grep it and DNS servers can load
 * it. The order of the lines is the order of the names.
 */
export function renderHosts(lines: Iterable<HostLine>): string {
  // join() allocates one flat string. Repeated concatenation would keep every part in memory, several times the size.
  return Array.from(lines, textOf).join("");
}

function textOf({ name, addresses, holder }: HostLine): string {
  const prefix = isWildcard(name) ? WILDCARD_PREFIX : "";
  const comment = holder === undefined ? "" : ` # ${holder}`;
  let text = "";
  for (const address of addresses) text += `${prefix}${address} ${name}${comment}\n`;
  return text;
}

/**
 * Parses hosts(5) text: the published map, or a user's file (several names per line, comments). Addresses of one name
 * are collected in line order, at most 16. Invalid addresses and names are skipped, because the result ends up in a
 * pod's hosts file.
 */
export function parseHosts(text: string): Map<string, readonly string[]> {
  const parser = new HostsParser();
  parser.readAll(text);
  return new Map(Array.from(parser.lines.values(), ({ name, addresses }) => [name, addresses]));
}

/** Parses hosts(5) text line by line. */
export class HostsParser {
  /** The names so far, in the order of their first lines. */
  readonly lines = new Map<string, HostLine>();
  readonly #known: ReadonlyMap<string, HostLine>;
  /** The rest of them, in their order, and the next one. */
  readonly #rest: Iterator<HostLine, undefined>;
  #next: HostLine | undefined;
  /** Equal lists of addresses are one list, because most names have the same few addresses. Empty: invalid. */
  readonly #lists = new Map<string, readonly string[]>();

  /** `known` are lines of an earlier text. A name that they have is valid, and an equal line is used again. */
  constructor(known: ReadonlyMap<string, HostLine> = new Map()) {
    this.#known = known;
    this.#rest = known.values();
    this.#next = this.#rest.next().value;
    const lists = new Set(known.values().map(({ addresses }) => addresses));
    for (const addresses of lists) this.#lists.set(addresses.join(" "), addresses);
  }

  /** Reads a whole text. */
  readAll(text: string): void {
    for (let start = 0; start < text.length; ) start = this.read(text, start);
  }

  /**
   * Reads the line at `start`, or all lines of the next name of `known`, or skips names of `known` that are missing.
   * Returns where to go on. In a new map, names are in their order. Another order only takes longer.
   */
  read(text: string, start: number): number {
    const read = this.#readNext(text, start);
    if (read !== undefined) return read;
    const end = text.indexOf("\n", start);
    const raw = text.slice(start, end === -1 ? text.length : end);
    const { wildcard, address, names } = readHostsLine(raw);
    const [first = ""] = names;
    const isAhead = this.#next !== undefined && this.#known.has(first) && !this.lines.has(first);
    if (isAhead && this.#next?.name !== first) {
      while (this.#next !== undefined && this.#next.name !== first) this.#next = this.#rest.next().value;
      return start;
    }
    const [, holder] = HOLDER.exec(raw) ?? [];
    for (const written of this.#listOf(address).length > 0 ? names : []) {
      const name = this.#nameOf(written, wildcard);
      if (name !== undefined) this.#add(name, address, holder);
    }
    return start + raw.length + 1;
  }

  #readNext(text: string, start: number): number | undefined {
    const known = this.#next;
    if (known === undefined || this.lines.has(known.name)) return undefined;
    const lines = textOf(known);
    // A comparison takes a third of the time of `startsWith`.
    if (text.slice(start, start + lines.length) !== lines) return undefined;
    this.lines.set(known.name, known);
    this.#next = this.#rest.next().value;
    return start + lines.length;
  }

  #add(name: string, address: string, holder: string | undefined): void {
    const before = this.lines.get(name);
    const has = before?.addresses ?? [];
    if (has.length === MAX_ADDRESSES || has.includes(address)) return;
    const addresses = this.#listOf([...has, address].join(" "));
    const known = this.#known.get(name);
    const isSame = known?.addresses === addresses && known.holder === holder;
    // A part of a text retains the whole text, so the name is copied.
    const line = isSame ? known : { name: known?.name ?? copyOf(name), addresses, holder: holder && copyOf(holder) };
    this.lines.set(line.name, line);
  }

  /**
   * Returns the name in lower case, because the API server rejects a pod with upper case. Undefined: the name is
   * invalid.
   */
  #nameOf(written: string, wildcard: boolean): string | undefined {
    if (isWildcard(written) === wildcard && this.#known.has(written)) return written;
    const anyDepth = written.startsWith(ANY_DEPTH);
    const parsed = parseHostname(anyDepth ? written.slice(1) : written);
    if (parsed.kind !== (wildcard ? "wildcard" : "name") || (anyDepth && !wildcard)) return undefined;
    return anyDepth ? `*${parsed.name}` : parsed.name;
  }

  /** `joined` are addresses, separated by spaces. All but the last one have been read before. */
  #listOf(joined: string): readonly string[] {
    return getOrAdd(this.#lists, joined, () => {
      const copied = copyOf(joined).split(" ");
      return isAddress(copied.at(-1) ?? "") ? copied : [];
    });
  }
}

/** Maximum number of addresses of one name. The map has two. Each one takes time for all before it. */
const MAX_ADDRESSES = 16;

function copyOf(text: string): string {
  return JSON.parse(JSON.stringify(text));
}

/**
 * Returns the fields of one line as written. For an empty line or a comment, the address is "" and there are no names.
 */
export function readHostsLine(raw: string): { wildcard: boolean; address: string; names: string[] } {
  const wildcard = raw.startsWith(WILDCARD_PREFIX);
  const line = (wildcard ? raw.slice(WILDCARD_PREFIX.length) : raw).split("#", 1)[0] ?? "";
  const [address = "", ...names] = line.trim().split(/\s+/);
  return { wildcard, address, names };
}

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/** Whether the API server accepts the IP literal in hostAliases. It rejects the whole pod for an invalid one. */
export function isAddress(text: string): boolean {
  return IPV4.test(text) || (/^[0-9a-fA-F:.]+$/.test(text) && URL.canParse(`http://[${text}]/`));
}
