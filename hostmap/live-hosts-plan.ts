import { MAX_LINE_BYTES, splitLine } from "./pack.ts";
import type { SelectedHosts } from "./select-hosts.ts";
import type { HostAlias } from "./types.ts";

// What a choice of names makes of a running pod's aliases. A node's agent works this out for each pod after every change of the map, in
// a process that interprets its code (--jitless): sets are compared natively, names are not walked one by one.

/** Ends every line of our block. */
export const TAG = "\t# switchback.dev";

/** The aliases of a pod that are ours, as its hosts file has them. Costs their names: pods with equal ones share it. */
export interface LiveAliases {
  /** By their lines when these are live. */
  readonly all: ReadonlyMap<string, HostAlias>;
  /** What one of the lines begins with. */
  readonly firsts: readonly string[];
}

export function liveAliases(ours: readonly HostAlias[]): LiveAliases {
  const all = new Map(ours.map((alias) => [spelled(alias), alias]));
  return { all, firsts: [...new Set([...all.keys()].map((line) => line.slice(0, 1)))] };
}

/** Which of the aliases a line of the file is, live or silenced: its line when it is live. */
export function aliasOn(line: string, { all, firsts }: LiveAliases): string | undefined {
  if (all.has(line)) return line;
  if (!line.startsWith(SILENT)) return undefined;
  return firsts.map((first) => first + line.slice(1)).find((live) => all.has(live));
}

/** What a choice of names makes of a file, apart from the lines of others in it. */
export interface LivePlan {
  /** Lines of the spec that the map still has, all of each. */
  readonly current: ReadonlySet<string>;
  /** The block's own lines. */
  readonly body: readonly string[];
}

/** Makes the plan for a choice of names, without those in `taken`. */
export type LivePlanner = (aliases: LiveAliases, chosen: SelectedHosts, taken: readonly string[]) => LivePlan;

/** The reference that any planner which remembers must equal. */
export function planLive({ all }: LiveAliases, chosen: SelectedHosts, taken: readonly string[]): LivePlan {
  const names = chosen.byAddress();
  const kept = [...all].filter(([, { ip, hostnames }]) => new Set(hostnames).isSubsetOf(names.get(ip) ?? NONE));
  const others = new Set(taken);
  const body = [...names].flatMap(([ip, mapped]) => {
    const carried = new Set(kept.flatMap(([, alias]) => (alias.ip === ip ? alias.hostnames : [])));
    const hostnames = [...mapped.difference(carried).difference(others)];
    return hostnames.length === 0 ? [] : splitLine({ ip, hostnames }, MAX_LINE_BYTES - TAG.length);
  });
  return { current: new Set(kept.map(([line]) => line)), body: body.map((alias) => `${spelled(alias)}${TAG}`) };
}

const NONE: ReadonlySet<string> = new Set();

/** The kubelet's line for an alias. */
function spelled(alias: HostAlias): string {
  return `${alias.ip}\t${alias.hostnames.join("\t")}`;
}

/** The same made a comment in place: one byte is written, and nothing moves. */
export function silenced(line: string): string {
  return SILENT + line.slice(1);
}

const SILENT = "#";
