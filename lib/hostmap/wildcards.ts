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
