import { MAX_LINE_BYTES, splitLine } from "#hostmap/pack.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";

// Plans the change of a running pod's hosts file for the selected names. The agent does this for each pod of its
// node after every change of the map, without a JIT compiler (--jitless). So names are compared with native Set
// methods, not one by one in loops. Agents run on Linux nodes only, so the lines need no limit of names (`pack.ts`).

/** The comment at the end of every line between the markers of the managed block. */
export const TAG = "\t# switchback.dev";

/**
 * A pod's managed aliases, indexed by their line in the hosts file. The cost of an index grows with its names, so
 * pods with equal aliases share one.
 */
export interface LiveAliases {
  /** Aliases by the line that the kubelet wrote. */
  readonly byLine: ReadonlyMap<string, HostAlias>;
  /** The distinct first characters of these lines. */
  readonly firstChars: readonly string[];
}

export function liveAliases(managedAliases: readonly HostAlias[]): LiveAliases {
  const byLine = new Map(managedAliases.map((alias) => [kubeletLine(alias), alias]));
  return { byLine, firstChars: [...new Set([...byLine.keys()].map((line) => line.slice(0, 1)))] };
}

/** Finds the alias of a line, whether the line is active or commented out; returns the active form of the line. */
export function aliasLineOf(line: string, { byLine, firstChars }: LiveAliases): string | undefined {
  if (byLine.has(line)) return line;
  if (!line.startsWith(COMMENT)) return undefined;
  return firstChars.map((first) => first + line.slice(1)).find((active) => byLine.has(active));
}

/** The managed part of a hosts file. */
export interface LivePlan {
  /** Lines of managed hostAliases that the map still has in full. */
  readonly current: ReadonlySet<string>;
  /** The lines between the markers of the managed block. */
  readonly body: readonly string[];
}

/** Plans the file for the selected names, except those in `taken`. */
export type LivePlanner = (aliases: LiveAliases, selected: SelectedHosts, taken: readonly string[]) => LivePlan;

/** The planner without a cache. Caching planners must return the same. */
export function planLive({ byLine }: LiveAliases, selected: SelectedHosts, taken: readonly string[]): LivePlan {
  const names = selected.byAddress();
  const kept = [...byLine].filter(([, { ip, hostnames }]) => new Set(hostnames).isSubsetOf(names.get(ip) ?? NONE));
  const others = new Set(taken);
  const body = [...names].flatMap(([ip, mapped]) => {
    const unchanged = new Set(kept.flatMap(([, alias]) => (alias.ip === ip ? alias.hostnames : [])));
    const hostnames = [...mapped.difference(unchanged).difference(others)];
    return hostnames.length === 0 ? [] : splitLine({ ip, hostnames }, MAX_LINE_BYTES - TAG.length);
  });
  return { current: new Set(kept.map(([line]) => line)), body: body.map((alias) => `${kubeletLine(alias)}${TAG}`) };
}

const NONE: ReadonlySet<string> = new Set();

/** The line that the kubelet writes for an alias. */
function kubeletLine(alias: HostAlias): string {
  return `${alias.ip}\t${alias.hostnames.join("\t")}`;
}

/** Comments a line out in place: one byte changes and nothing moves. */
export function commentedOut(line: string): string {
  return COMMENT + line.slice(1);
}

const COMMENT = "#";
