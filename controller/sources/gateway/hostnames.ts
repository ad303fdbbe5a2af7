/**
 * Which of a listener's and a route's hostname is what the two have in common, or undefined if they have nothing in common. Either may
 * be a wildcard, which covers every name below it, at any depth, and not the name itself; undefined covers all names
 * (gateway.networking.k8s.io/v1: `HTTPRouteSpec.hostnames`, `Listener.hostname`). Names are in lower case: a Gateway of many listeners
 * asks this very often.
 */
export function narrowerOf(listener: string | undefined, route: string | undefined): "listener" | "route" | undefined {
  if (listener === undefined || route === undefined) return route === undefined ? "listener" : "route";
  if (covers(listener, route)) return "route";
  return covers(route, listener) ? "listener" : undefined;
}

/** Whether every name that `narrow` stands for is one that `wide` stands for. */
function covers(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith("*.") && narrow.endsWith(wide.slice(1)));
}
