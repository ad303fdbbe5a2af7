// The map has two kinds of wildcards. `*.x` covers one label, as in an Ingress. `**.x` covers any number of labels,
// as Gateway API means its `*.x`. It stands beside `*.x`.

/** How the name of a wildcard at any depth begins. */
export const ANY_DEPTH = "**.";

/** The wildcard at any depth that stands beside the wildcard `*.x`. */
export function anyDepthOf(wildcard: string): string {
  return `*${wildcard}`;
}

/** The name of the plan that a name of the map comes from: `*.x` for `**.x`. */
export function plannedNameOf(name: string): string {
  return name.startsWith(ANY_DEPTH) ? name.slice(1) : name;
}

/** Whether a name of the map is a wildcard of either kind. */
export function isWildcard(name: string): boolean {
  return name.startsWith("*");
}

/**
 * The planned wildcard whose addresses a resolver answers for a name that is not mapped itself: the longest that
 * has it below. Undefined: there is none.
 */
export function wildcardAbove(
  name: string,
  planned: ReadonlyMap<string, { readonly anyDepth?: boolean }>,
): string | undefined {
  const first = name.indexOf(".");
  for (let dot = first; dot !== -1; dot = name.indexOf(".", dot + 1)) {
    const wildcard = `*${name.slice(dot)}`;
    const found = planned.get(wildcard);
    if (found !== undefined && (dot === first || found.anyDepth === true)) return wildcard;
  }
  return undefined;
}
