import { HOSTS_KEY } from "./metadata-keys.ts";
import type { HostAlias, Reason } from "./types.ts";

/**
 * Maximum length of a line in a pod's hosts file, newline included. musl reads 512 bytes of a line and loses the
 * names after that. Go's resolver drops a whole line over 64 KiB. 480 leaves space for other content on the line.
 */
export const MAX_LINE_BYTES = 480;

/**
 * Maximum number of names on a line of a Windows pod. Windows ignores the names after the ninth. Microsoft documents
 * no limit. goodhosts/hostsfile issue 10 and saltstack/salt issue 49889 (Windows Server 2016) report it.
 */
export const MAX_WINDOWS_NAMES = 9;

/** Whether a pod with this spec runs on Windows. A RuntimeClass has set its nodeSelector before the webhook runs. */
export function isWindows(spec: unknown): boolean {
  const { os, nodeSelector } = Object(spec);
  return Object(os).name === "windows" || Object(nodeSelector)["kubernetes.io/os"] === "windows";
}

/** A name and its addresses. */
export type MappedName = readonly [name: string, addresses: readonly string[]];

/** Converts names, in name order, to hostAliases in the same order. */
export type Packing = (entries: Iterable<MappedName>) => HostAlias[];

/**
 * Packs names into hostAliases with lines of at most `MAX_LINE_BYTES`, so one IP may have several aliases. The API
 * server accepts that when a pod is created, but apply merges hostAliases by IP and would keep only one. Use it only
 * for the patch of a new pod.
 */
export function packLines(entries: Iterable<MappedName>): HostAlias[] {
  return packOnePerAddress(entries).flatMap((alias) => splitLine(alias, MAX_LINE_BYTES));
}

/** Packs names for a Windows pod. Like `packLines`, but with at most `MAX_WINDOWS_NAMES` names on a line. */
export function packWindowsLines(entries: Iterable<MappedName>): HostAlias[] {
  return packOnePerAddress(entries).flatMap((alias) => splitLine(alias, MAX_LINE_BYTES, MAX_WINDOWS_NAMES));
}

/** Packs names into one alias per IP, with no limit on its line. This form survives `kubectl apply`. */
export function packOnePerAddress(entries: Iterable<MappedName>): HostAlias[] {
  const byAddress = new Map<string, HostAlias>();
  for (const [name, addresses] of entries) {
    for (const ip of addresses) {
      const alias = byAddress.get(ip);
      if (alias === undefined) byAddress.set(ip, { ip, hostnames: [name] });
      else alias.hostnames.push(name);
    }
  }
  return [...byAddress.values()];
}

/**
 * Returns the bytes of the line that the kubelet writes for an alias: the IP, a tab before each name, a newline.
 * Names are ASCII.
 */
export function lineBytes(alias: HostAlias): number {
  return alias.hostnames.reduce((sum, name) => sum + 1 + name.length, alias.ip.length + 1);
}

/** Returns the reason why an alias is too long to be written, or undefined if every line is short enough. */
export function longLineReason(aliases: readonly HostAlias[], forWindows = false): Reason | undefined {
  const many = forWindows ? aliases.find(({ hostnames }) => hostnames.length > MAX_WINDOWS_NAMES) : undefined;
  if (many !== undefined) {
    return {
      code: "line-too-long",
      text:
        `the hosts line of ${many.ip} needs ${many.hostnames.length} names, over ${MAX_WINDOWS_NAMES}: Windows would ` +
        `ignore the last of them. Choose fewer names with the annotation ${HOSTS_KEY}`,
    };
  }
  const long = aliases.find((alias) => lineBytes(alias) > MAX_LINE_BYTES);
  if (long === undefined) return undefined;
  return {
    code: "line-too-long",
    text:
      `the ${long.hostnames.length} names of ${long.ip} need a hosts line of ${lineBytes(long)} bytes, over ` +
      `${MAX_LINE_BYTES}: ` +
      `musl (Alpine) would lose the last of them. Choose fewer names with the annotation ${HOSTS_KEY}`,
  };
}

/** Splits an alias into several whose lines have at most `maxBytes` bytes and `maxNames` names. */
export function splitLine(alias: HostAlias, maxBytes: number, maxNames = Number.POSITIVE_INFINITY): HostAlias[] {
  const lines: HostAlias[] = [];
  let line: HostAlias = { ip: alias.ip, hostnames: [] };
  let bytes = lineBytes(line);
  for (const name of alias.hostnames) {
    const isFull = bytes + 1 + name.length > maxBytes || line.hostnames.length >= maxNames;
    if (isFull && line.hostnames.length > 0) {
      lines.push(line);
      line = { ip: alias.ip, hostnames: [] };
      bytes = lineBytes(line);
    }
    line.hostnames.push(name);
    bytes += 1 + name.length;
  }
  return [...lines, line];
}
