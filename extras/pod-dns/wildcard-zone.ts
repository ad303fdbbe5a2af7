import { isIPv6 } from "node:net";
import { LeftOut } from "#extras/left-out.ts";
import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";

/** Addresses of wildcards at any depth, by the name below which each holds: `x` for `**.x`. */
export type Wildcards = ReadonlyMap<string, readonly string[]>;

/**
 * Maximum number of labels that a wildcard may lie below the next one. Each label takes two records, and tenants may
 * write wildcards of a hundred labels.
 */
const MAX_LABELS_BELOW = 8;
/**
 * Maximum size of all records, in bytes. CoreDNS needs about ten times as much memory, and twice that while it reads
 * the file again.
 */
const MAX_BYTES = 2 * 1024 * 1024;
/** Minimum number of labels in the name below which a wildcard holds. */
const MIN_LABELS = 2;
/** Maximum number of bytes in a record without its name: an IPv6 address and its type. */
const BYTES_OF_A_RECORD = 64;

interface WildcardChoice {
  readonly kept: Wildcards;
  /**
   * Wildcards without room, and wildcards too many labels below another. Names below the latter get the other's
   * addresses.
   */
  readonly leftOut: LeftOut;
}

/**
 * Chooses the wildcards that get records. A wildcard needs none if it leads to the same addresses as the next one
 * above it. It gets none if it lies too far below that one. If there is no room for all, the first ones get it.
 */
export function chooseWildcards(wildcards: Wildcards): WildcardChoice {
  const kept = new Map<string, readonly string[]>();
  const leftOut = new LeftOut();
  let bytes = 0;
  const fitting = [...wildcards].filter(([apex, { length }]) => {
    const needed = mostBytesOf(apex) * length;
    const fits = bytes + needed <= MAX_BYTES;
    if (fits) bytes += needed;
    else leftOut.add(noRoom(apex));
    return fits;
  });
  const byLabels = fitting
    .map(([apex, addresses]) => ({ apex, addresses, labels: labelsOf(apex) }))
    .sort((a, b) => a.labels - b.labels);
  for (const { apex, addresses, labels } of byLabels) {
    const cover = coverOf(apex, kept);
    if (cover === undefined) kept.set(apex, addresses);
    else if (cover.addresses.join() === addresses.join()) continue;
    else if (labels - labelsOf(cover.apex) > MAX_LABELS_BELOW) leftOut.add(tooDeep(apex, cover.apex));
    else kept.set(apex, addresses);
  }
  return { kept, leftOut };
}

/**
 * Maximum size of a wildcard's records, in bytes. It needs most if the next wildcard above it is as far away as
 * possible and leads elsewhere.
 */
function mostBytesOf(apex: string): number {
  const between = Math.min(MAX_LABELS_BELOW, labelsOf(apex) - MIN_LABELS);
  return Math.max(1, 2 * between) * (apex.length + BYTES_OF_A_RECORD);
}

function noRoom(apex: string): Reason {
  return { code: "dns-no-room", text: `there is no room for ${show(`*.${apex}`)}` };
}

function tooDeep(apex: string, above: string): Reason {
  const text = `${show(`*.${apex}`)} is too far below ${show(`*.${above}`)}, whose addresses its names get`;
  return { code: "dns-no-room", text };
}

/**
 * Renders the records of a zone file for the root. CoreDNS' `file` plugin looks there for names that are not in the
 * hosts file. If a name is not there either, it falls through to the upstream.
 *
 * A DNS wildcard covers any number of labels, but never a name below another name that exists. A name exists if
 * anything below it does (RFC 4592, 2.2). So with `**.x` and `**.c.b.x`, `*.x` does not cover `b.x`, `a.b.x` and
 * `c.b.x`, and nothing else would. They have their own records, with `x`'s addresses.
 *
 * @param wildcards as `chooseWildcards` keeps them.
 * @param ttl TTL of the records, in seconds.
 */
export function wildcardRecords(wildcards: Wildcards, ttl: number): string {
  const records = new Map<string, readonly string[]>();
  for (const [apex, addresses] of wildcards) records.set(`*.${apex}`, addresses);
  for (const apex of wildcards.keys()) {
    const cover = coverOf(apex, wildcards);
    if (cover === undefined) continue;
    for (const name of namesBetween(apex, cover.apex)) {
      records.set(name, cover.addresses);
      if (name !== apex) records.set(`*.${name}`, cover.addresses);
    }
  }
  const lines = [...records].flatMap(([name, addresses]) =>
    addresses.map((address) => `${name}. ${ttl} IN ${isIPv6(address) ? "AAAA" : "A"} ${address}\n`),
  );
  return lines.sort().join("");
}

/** The zone file. CoreDNS reads it again when the serial changes. */
export function wildcardZone(records: string, serial: number, ttl: number): string {
  return `. ${ttl} IN SOA switchback.invalid. nobody.invalid. ${serial} 3600 3600 3600 ${ttl}\n${records}`;
}

/** The nearest wildcard above a name. */
function coverOf(
  name: string,
  wildcards: Wildcards,
): { readonly apex: string; readonly addresses: readonly string[] } | undefined {
  for (let above = parentOf(name); above !== undefined; above = parentOf(above)) {
    const addresses = wildcards.get(above);
    if (addresses !== undefined) return { apex: above, addresses };
  }
  return undefined;
}

/** Returns `name` and the names above it, up to but without `top`. */
function namesBetween(name: string, top: string): string[] {
  const names: string[] = [];
  for (let at: string | undefined = name; at !== undefined && at !== top; at = parentOf(at)) names.push(at);
  return names;
}

function parentOf(name: string): string | undefined {
  const dot = name.indexOf(".");
  return dot === -1 ? undefined : name.slice(dot + 1);
}

function labelsOf(name: string): number {
  return name.split(".").length;
}
