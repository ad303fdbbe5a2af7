import { shortHash } from "./hash.ts";
import { compareNames, isGlob, parseGlob, show } from "./hostnames.ts";
import { HOSTS_KEY } from "./metadata-keys.ts";
import type { PublishedMap, Reason } from "./types.ts";

/** Characters of the annotation that are read; the API server allows 256 KiB of annotations on a pod. */
const MAX_TEXT = 16 * 1024;
const MAX_ITEMS = 500;
/** At most this many warnings name an item; one more gives the number of the others. */
const MAX_NAMED = 3;
/** Kubernetes recommends admission warnings of at most 120 characters. */
export const MAX_WARNING = 120;

/** The parsed `switchback.dev/hosts` annotation of a pod. */
interface HostsAnnotation {
  /** Valid items in lower case, sorted, without duplicates; `["*"]` if the pod selects everything or has no annotation. */
  readonly items: readonly string[];
  /** One per ignored item; short enough for admission warnings. */
  readonly warnings: readonly Reason[];
}

/** The names that a selection matches in a map. */
export interface SelectedHosts {
  /** At most `cap` names, in name order. */
  readonly names: readonly string[];
  /** Whether a name is among `names`. */
  readonly has: (name: string) => boolean;
  /** How many names the selection matches, regardless of the cap. */
  readonly total: number;
  readonly cap: number;
  /** Hash of the selection, the cap, and the selected names and addresses. */
  readonly revision: string;
  readonly warnings: readonly Reason[];
  readonly addressesOf: (name: string) => readonly string[];
  /** The names of each address, in name order. Built on first use. */
  readonly byAddress: () => ReadonlyMap<string, ReadonlySet<string>>;
}

/**
 * Parses the annotation: names and patterns, separated by commas or white space. An invalid item is ignored with a warning.
 * If no item is valid, the selection is empty, never "all".
 */
export function parseHostsAnnotation(annotation: string | undefined): HostsAnnotation {
  if (annotation === undefined) return { items: ["*"], warnings: [] };
  const found = annotation
    .slice(0, MAX_TEXT)
    .split(/[\s,]+/)
    .filter((item) => item !== "");
  const items = new Set<string>();
  const bad: string[] = [];
  for (const item of found.slice(0, MAX_ITEMS)) {
    const glob = parseGlob(item);
    if (isGlob(glob)) items.add(glob.text);
    else bad.push(item);
  }
  const warnings = warningsFor("item-invalid", bad.map(show), "accepts names, *.example.com or *; ignored:");
  if (annotation.length > MAX_TEXT || found.length > MAX_ITEMS) {
    warnings.push(
      warning("items-cut", `only ${MAX_ITEMS} items and ${MAX_TEXT} characters are read; ignored the rest`),
    );
  }
  if (items.size === 0) warnings.push(warning("items-none", "no valid name or pattern: nothing is injected"));
  return { items: items.has("*") ? ["*"] : [...items].sort(compareNames), warnings };
}

/**
 * Creates a selector of names from one map by annotation text. A plain name costs a look-up, a pattern the names that it matches:
 * the first pattern builds an index. Callers should still cache the result for as long as they keep the map.
 */
export function createSelector(map: PublishedMap, cap: number): (annotation: string | undefined) => SelectedHosts {
  let suffixes: ReadonlyMap<string, readonly string[]> | undefined;
  const matches = (item: string): readonly string[] => {
    if (!item.startsWith("*")) return map.addressesOf(item) === undefined ? [] : [item];
    suffixes ??= indexSuffixes(map.names);
    return suffixes.get(item.slice(1)) ?? [];
  };
  const unmatched = (item: string): boolean => (item === "*" ? map.size === 0 : matches(item).length === 0);
  const addressesOf = (name: string): readonly string[] => map.addressesOf(name) ?? [];
  return (annotation) => {
    const { items, warnings } = parseHostsAnnotation(annotation);
    const { names, total } =
      items[0] === "*" ? { names: map.first(cap), total: map.size } : firstOf(cap, items.map(matches));
    const selected = new Set(names);
    let byAddress: ReadonlyMap<string, ReadonlySet<string>> | undefined;
    return {
      names,
      has: (name) => selected.has(name),
      total,
      cap,
      revision: revisionOf(items, cap, names, addressesOf),
      warnings: [
        ...warnings,
        ...warningsFor(
          "item-unmatched",
          annotation === undefined ? [] : items.filter(unmatched),
          "no mapped name matches",
        ),
        ...(total > cap ? [capWarning(total, cap)] : []),
      ],
      addressesOf,
      byAddress: () => {
        byAddress ??= groupByAddress(names, addressesOf);
        return byAddress;
      },
    };
  };
}

function groupByAddress(names: readonly string[], addressesOf: SelectedHosts["addressesOf"]): Map<string, Set<string>> {
  const groups = new Map<string, Set<string>>();
  for (const name of names) {
    for (const ip of addressesOf(name)) {
      const group = groups.get(ip) ?? new Set();
      groups.set(ip, group.add(name));
    }
  }
  return groups;
}

function capWarning(total: number, cap: number): Reason {
  return warning("over-cap", `only the first ${cap} of ${total} mapped names are injected; choose fewer`);
}

/** A warning for each of the first few items, and one with the number of the others. */
function warningsFor(code: string, items: readonly string[], text: string): Reason[] {
  const warnings = items.slice(0, MAX_NAMED).map((item) => warning(code, `${text} ${item}`));
  const rest = items.length - warnings.length;
  return rest > 0 ? [...warnings, warning(code, `${rest} more items like that`)] : warnings;
}

function warning(code: string, text: string): Reason {
  return { code, text: `${HOSTS_KEY}: ${text}`.slice(0, MAX_WARNING) };
}

/** `.example.com` -> the names below it, in name order, for every suffix that a pattern can name. */
function indexSuffixes(names: readonly string[]): Map<string, string[]> {
  const index = new Map<string, string[]>();
  for (const name of names) {
    for (let dot = name.indexOf("."); dot !== -1; dot = name.indexOf(".", dot + 1)) {
      const suffix = name.slice(dot);
      const below = index.get(suffix);
      if (below === undefined) index.set(suffix, [name]);
      else below.push(name);
    }
  }
  return index;
}

/** The first `cap` names of the union of sorted lists, and the size of the union. */
function firstOf(cap: number, lists: ReadonlyArray<readonly string[]>): { names: readonly string[]; total: number } {
  const [only = []] = lists;
  const all = lists.length <= 1 ? only : [...new Set(lists.flat())].sort(compareNames);
  return { names: all.slice(0, cap), total: all.length };
}

function revisionOf(
  items: readonly string[],
  cap: number,
  names: readonly string[],
  addressesOf: SelectedHosts["addressesOf"],
): string {
  const lines = names.map((name) => `${name} ${addressesOf(name).join(" ")}`);
  return shortHash([items.join(","), String(cap), ...lines].join("\n"));
}
