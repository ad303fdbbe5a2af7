import { HOSTS_KEY } from "./metadata-keys.ts";
import type { HostAlias, Reason } from "./types.ts";

/**
 * Longest line of a pod's hosts file, its newline included. musl reads 512 bytes of a line and loses the names behind them;
 * Go's resolver drops a whole line over 64 KiB. 480 leaves room for what else may stand on a line.
 */
export const MAX_LINE_BYTES = 480;

/** A name and the addresses it leads to. */
export type MappedName = readonly [name: string, addresses: readonly string[]];

/** A way to turn names into hostAliases; names come, and stay, in name order. */
export type Packing = (entries: Iterable<MappedName>) => HostAlias[];

/**
 * Names as hostAliases whose lines have at most `MAX_LINE_BYTES`: several aliases of one IP. The API server accepts those when a
 * pod is created, but anything that applies merges hostAliases by IP and loses them: only for the patch of a new pod.
 */
export function packLines(entries: Iterable<MappedName>): HostAlias[] {
  return packOnePerAddress(entries).flatMap((alias) => splitLine(alias, MAX_LINE_BYTES));
}

/** Names as hostAliases, one alias an IP whatever the length of its line: the form that survives `kubectl apply`. */
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

/** Bytes of the line that the kubelet writes for an alias: the IP, a tab and a name each, a newline. Names are ASCII. */
export function lineBytes(alias: HostAlias): number {
  return alias.hostnames.reduce((sum, name) => sum + 1 + name.length, alias.ip.length + 1);
}

/** Why an alias must not be written as it is, or undefined when every line is short enough. */
export function longLineReason(aliases: readonly HostAlias[]): Reason | undefined {
  const long = aliases.find((alias) => lineBytes(alias) > MAX_LINE_BYTES);
  if (long === undefined) return undefined;
  return {
    code: "line-too-long",
    text:
      `the ${long.hostnames.length} names of ${long.ip} make a hosts line of ${lineBytes(long)} bytes, over ${MAX_LINE_BYTES}: ` +
      `musl (Alpine) would lose the last of them. Choose fewer with the annotation ${HOSTS_KEY}`,
  };
}

/** An alias as several of at most so many bytes a line. */
export function splitLine(alias: HostAlias, maxBytes: number): HostAlias[] {
  const lines: HostAlias[] = [];
  let line: HostAlias = { ip: alias.ip, hostnames: [] };
  let bytes = lineBytes(line);
  for (const name of alias.hostnames) {
    if (bytes + 1 + name.length > maxBytes && line.hostnames.length > 0) {
      lines.push(line);
      line = { ip: alias.ip, hostnames: [] };
      bytes = lineBytes(line);
    }
    line.hostnames.push(name);
    bytes += 1 + name.length;
  }
  return [...lines, line];
}
