// The map has two kinds of wildcards. `*.x` covers one label, as in an Ingress. `**.x` covers any number of labels,
// like `*.x` in Gateway API. `**.x` is written in addition to `*.x`.

/** The first characters of a wildcard at any depth. */
export const ANY_DEPTH = "**.";

/** Returns the wildcard at any depth that accompanies the wildcard `*.x`. */
export function anyDepthOf(wildcard: string): string {
  return `*${wildcard}`;
}

/** Returns the planned name of a name in the map: `*.x` for `**.x`. */
export function plannedNameOf(name: string): string {
  return name.startsWith(ANY_DEPTH) ? name.slice(1) : name;
}

/** Whether a name of the map is a wildcard of either kind. */
export function isWildcard(name: string): boolean {
  return name.startsWith("*");
}

/**
 * Returns the planned wildcard whose addresses a resolver answers for a name that is not mapped itself. This is the
 * longest wildcard above the name. Undefined if there is none.
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
