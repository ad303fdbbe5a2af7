import { shortHash } from "./hash.ts";
import type { HostAlias } from "./types.ts";

/**
 * The IP of the first alias, the number of aliases, and a digest of all of them: `198.51.100.9 x4 (0123456789ab)`. This
 * is format 1, whose text has no version. A later format begins with its version (`v2 ...`). This release then treats
 * no alias as managed: it removes none, and adds only names that no alias has.
 */
const OWNED = /^(\S+) x([1-9][0-9]{0,5}) \(([0-9a-f]{12})\)$/;
/** The value when no alias was added. */
const NONE = "none";
/**
 * Limits the number of hashed positions, so that a hostile pod with many equal aliases stays cheap. `MAX_HASHED`
 * limits the characters: after that many, no further position is tried. 500 names take 20,000 characters.
 */
const MAX_WINDOWS = 64;
const MAX_HASHED = 1_000_000;

/** Returns the value of `switchback.dev/owned` for consecutive managed aliases in this order. */
export function describeManaged(aliases: readonly HostAlias[]): string {
  const [first] = aliases;
  return first === undefined ? NONE : `${first.ip} x${aliases.length} (${shortHash(canonical(aliases))})`;
}

/**
 * Returns the user's aliases: all except the managed ones that the annotation describes. These are found by digest,
 * even if another webhook moved them. Without an exact match (a forged or stale annotation, an edited alias), no
 * alias counts as managed, and none is removed.
 */
export function withoutManaged(aliases: readonly HostAlias[], annotation: string | undefined): readonly HostAlias[] {
  return splitAliases(aliases, annotation).userAliases;
}

/** Splits aliases into the user's and the managed ones, by the same rule as `withoutManaged`. */
export function splitAliases(
  aliases: readonly HostAlias[],
  annotation: string | undefined,
): { readonly userAliases: readonly HostAlias[]; readonly managedAliases: readonly HostAlias[] } {
  const owned = annotation && OWNED.exec(annotation);
  if (!owned) return { userAliases: aliases, managedAliases: [] };
  const [, firstIp, number, digest] = owned;
  const count = Number(number);
  const last = aliases.length - count;
  // Search from the end, because injection adds them there.
  for (let start = last, tried = 0, hashed = 0; start >= 0 && tried < MAX_WINDOWS && hashed < MAX_HASHED; start -= 1) {
    if (aliases[start]?.ip !== firstIp) continue;
    tried += 1;
    const managedAliases = aliases.slice(start, start + count);
    const text = canonical(managedAliases);
    hashed += text.length;
    if (shortHash(text) !== digest) continue;
    return { userAliases: aliases.toSpliced(start, count), managedAliases };
  }
  return { userAliases: aliases, managedAliases: [] };
}

function canonical(aliases: readonly HostAlias[]): string {
  return JSON.stringify(aliases.map(({ ip, hostnames }) => [ip, hostnames]));
}
