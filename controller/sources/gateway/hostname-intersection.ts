/**
 * Which hostname is the intersection of a listener's and a route's hostname; undefined: they do not intersect. Either
 * may be a wildcard, which covers every name below it, at any depth, but not the name itself. An undefined hostname
 * covers all names (gateway.networking.k8s.io/v1: `HTTPRouteSpec.hostnames`, `Listener.hostname`). Names must already
 * be in lower case, because a Gateway with many listeners calls this very often.
 */
export function narrowerOf(listener: string | undefined, route: string | undefined): "listener" | "route" | undefined {
  if (listener === undefined || route === undefined) return route === undefined ? "listener" : "route";
  if (covers(listener, route)) return "route";
  return covers(route, listener) ? "listener" : undefined;
}

/** Whether `wide` covers every name that `narrow` covers. */
function covers(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith("*.") && narrow.endsWith(wide.slice(1)));
}
