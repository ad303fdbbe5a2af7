import { shortHash } from "./hash.ts";
import type { HostAlias } from "./types.ts";

/** Runs of our aliases by IP and a digest of them all: `198.51.100.9 x2, 2001:db8::9 x2 (0123456789ab)`. */
const OWNED = /^(.+) \(([0-9a-f]{12})\)$/;
const RUN = /^\S+ x([1-9][0-9]{0,5})$/;
/** What the annotation says when we added no alias. */
const NONE = "none";
/** Windows whose digest is taken at most, so that a hostile pod of equal aliases costs no more than an honest one. */
const MAX_WINDOWS = 64;

/** The value of `switchback.dev/owned` for aliases of ours that stand next to each other in this order. */
export function describeManaged(aliases: readonly HostAlias[]): string {
  if (aliases.length === 0) return NONE;
  const runs: Array<{ ip: string; count: number }> = [];
  for (const { ip } of aliases) {
    const last = runs.at(-1);
    if (last?.ip === ip) last.count += 1;
    else runs.push({ ip, count: 1 });
  }
  return `${runs.map(({ ip, count }) => `${ip} x${count}`).join(", ")} (${digest(aliases)})`;
}

/**
 * The user's own aliases: all but the block that the annotation describes. The block is found by its digest wherever another
 * webhook has moved it; if it is nowhere as it was written (the annotation is forged or stale, or an alias was edited), nothing
 * counts as ours and nothing is removed.
 */
export function withoutManaged(aliases: readonly HostAlias[], annotation: string | undefined): readonly HostAlias[] {
  return splitAliases(aliases, annotation).own;
}

/** The user's own aliases and ours, as `withoutOwned` tells them apart. */
export function splitAliases(
  aliases: readonly HostAlias[],
  annotation: string | undefined,
): { readonly own: readonly HostAlias[]; readonly ours: readonly HostAlias[] } {
  const owned = annotation === undefined || aliases.length === 0 ? undefined : parseOwned(annotation);
  if (owned === undefined) return { own: aliases, ours: [] };
  const last = aliases.length - owned.count;
  // From the end: that is where we add them.
  for (let start = last, tried = 0; start >= 0 && tried < MAX_WINDOWS; start -= 1) {
    if (aliases[start]?.ip !== owned.firstIp) continue;
    tried += 1;
    const ours = aliases.slice(start, start + owned.count);
    if (digest(ours) === owned.digest) return { own: aliases.toSpliced(start, owned.count), ours };
  }
  return { own: aliases, ours: [] };
}

function parseOwned(text: string): { firstIp: string; count: number; digest: string } | undefined {
  const [, list = "", digest = ""] = OWNED.exec(text) ?? [];
  const runs = list.split(", ").map((run) => ({ ip: run.split(" ", 1)[0] ?? "", count: RUN.exec(run)?.[1] }));
  const [first] = runs;
  if (first === undefined || runs.some((run) => run.count === undefined)) return undefined;
  return { firstIp: first.ip, count: runs.reduce((sum, run) => sum + Number(run.count), 0), digest };
}

function digest(aliases: readonly HostAlias[]): string {
  return shortHash(JSON.stringify(aliases.map(({ ip, hostnames }) => [ip, hostnames])));
}
