import { shortHash } from "./hash.ts";
import { compareNames, isGlob, parseGlob, show } from "./hostnames.ts";
import { HOSTS_KEY } from "./metadata-keys.ts";
import { getOrAdd } from "./multi-map.ts";
import type { HostLine, PublishedMap, Reason } from "./types.ts";

/**
 * Maximum number of characters of the annotation that are read. The API server allows 256 KiB of annotations on a
 * pod.
 */
const MAX_TEXT = 16 * 1024;
const MAX_ITEMS = 500;
/** Default for the maximum number of names per pod. */
export const DEFAULT_MAX_NAMES = 500;
/** Maximum number of warnings that name an item. One more warning gives the number of the other items. */
const MAX_NAMED = 3;
/** Kubernetes recommends admission warnings of at most 120 characters. */
export const MAX_WARNING = 120;

/** The parsed `switchback.dev/hosts` annotation of a pod. */
interface HostsAnnotation {
  /**
   * Valid items in lower case, sorted, without duplicates. It is `["*"]` if the pod selects everything or has no
   * annotation.
   */
  readonly items: readonly string[];
  /** One warning per ignored item, short enough for admission warnings. */
  readonly warnings: readonly Reason[];
}

/** The names that a selection matches in a map. */
export interface SelectedHosts {
  /**
   * At most `cap` names, in name order. Those that were published first are selected, so a later name displaces none.
   */
  readonly names: readonly string[];
  /** Whether a name is among `names`. */
  readonly has: (name: string) => boolean;
  /** Number of names that the selection matches, regardless of the cap. */
  readonly total: number;
  readonly cap: number;
  /** Hash of the selection, the cap, and the selected names and addresses. */
  readonly revision: string;
  readonly warnings: readonly Reason[];
  readonly addressesOf: (name: string) => readonly string[];
  /** The namespace that has a name. Undefined: the map does not say, or the name is not selected. */
  readonly holderOf: (name: string) => string | undefined;
  /** The names of each address, in name order. Built on first use. */
  readonly byAddress: () => ReadonlyMap<string, ReadonlySet<string>>;
}

/**
 * Parses the annotation: names and patterns, separated by commas or white space. An invalid item is ignored with a
 * warning. If no item is valid, the selection is empty, never "all".
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
 * Creates a function that selects names of one map by annotation text. A plain name costs a look-up, and patterns cost
 * a walk through the map. Callers should cache the result as long as they keep the map.
 */
export function createSelector(map: PublishedMap, cap: number): (annotation: string | undefined) => SelectedHosts {
  return (annotation) => {
    const { items, warnings } = parseHostsAnnotation(annotation);
    const { hosts, unmatched } = choose(map, items, cap);
    const total = hosts.length;
    const selected = new Map(
      hosts
        .slice(0, cap)
        .sort((a, b) => compareNames(a.name, b.name))
        .map((line) => [line.name, line]),
    );
    let byAddress: ReadonlyMap<string, ReadonlySet<string>> | undefined;
    return {
      names: [...selected.keys()],
      has: (name) => selected.has(name),
      total,
      cap,
      revision: revisionOf(items, cap, selected),
      warnings: [
        ...warnings,
        ...warningsFor("item-unmatched", annotation === undefined ? [] : unmatched, "no mapped name matches"),
        ...(total > cap ? [capWarning(total, cap)] : []),
      ],
      addressesOf: (name) => selected.get(name)?.addresses ?? [],
      holderOf: (name) => selected.get(name)?.holder,
      byAddress: () => {
        byAddress ??= groupByAddress(selected);
        return byAddress;
      },
    };
  };
}

function groupByAddress(selected: ReadonlyMap<string, HostLine>): Map<string, Set<string>> {
  const groups = new Map<string, Set<string>>();
  for (const { name, addresses } of selected.values())
    for (const ip of addresses) getOrAdd(groups, ip, () => new Set<string>()).add(name);
  return groups;
}

function capWarning(total: number, cap: number): Reason {
  return warning("many-names", `only the first ${cap} of ${total} mapped names are injected; choose fewer`);
}

/** Returns a warning for each of the first few items, and one warning with the number of the others. */
function warningsFor(code: string, items: readonly string[], text: string): Reason[] {
  const warnings = items.slice(0, MAX_NAMED).map((item) => warning(code, `${text} ${item}`));
  const rest = items.length - warnings.length;
  return rest > 0 ? [...warnings, warning(code, `${rest} more items like that`)] : warnings;
}

function warning(code: string, text: string): Reason {
  return { code, text: `${HOSTS_KEY}: ${text}`.slice(0, MAX_WARNING) };
}

function isPattern(item: string): boolean {
  return item.startsWith("*");
}

/** `*.example.com` -> `example.com`. */
function suffixOf(pattern: string): string {
  return pattern.slice(2);
}

/** The lines that the items select, those that were published first come first, and the items that match none. */
interface Choice {
  readonly hosts: readonly HostLine[];
  readonly unmatched: readonly string[];
}

function choose(map: PublishedMap, items: readonly string[], cap: number): Choice {
  const { hosts } = map;
  if (items[0] === "*") return { hosts, unmatched: hosts.length === 0 ? items : [] };
  const single = new Map(
    items
      .filter((item) => !isPattern(item))
      .flatMap((item) => map.lines.get(item) ?? [])
      .map((line) => [line.name, line]),
  );
  const suffixes = new Set(items.filter(isPattern).map(suffixOf));
  const matched = new Set<string>();
  const isBelow = (name: string): boolean => {
    let found = false;
    for (let dot = name.indexOf("."); dot !== -1; dot = name.indexOf(".", dot + 1)) {
      const suffix = name.slice(dot + 1);
      if (!suffixes.has(suffix)) continue;
      found = true;
      matched.add(suffix);
    }
    return found;
  };
  const mayWalk = suffixes.size > 0 || single.size > cap;
  const isMatched = (item: string) => (isPattern(item) ? matched.has(suffixOf(item)) : single.has(item));
  return {
    hosts: mayWalk ? hosts.filter(({ name }) => isBelow(name) || single.has(name)) : [...single.values()],
    unmatched: items.filter((item) => !isMatched(item)),
  };
}

function revisionOf(items: readonly string[], cap: number, selected: ReadonlyMap<string, HostLine>): string {
  const lines = Array.from(selected.values(), ({ name, addresses }) => `${name} ${addresses.join(" ")}`);
  return shortHash([items.join(","), String(cap), ...lines].join("\n"));
}
