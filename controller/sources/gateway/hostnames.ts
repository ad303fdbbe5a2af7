import { foldCase } from "../../../hostmap/hostnames.ts";

/**
 * The name that a listener and a route serve together, or nothing if they have none in common. Either may be a wildcard, which stands
 * for every name below it, at any depth, and not for the name itself; undefined stands for all names
 * (gateway.networking.k8s.io/v1: `HTTPRouteSpec.hostnames`, `Listener.hostname`). Case does not count (RFC 4343).
 */
export function intersect(listener: string | undefined, route: string | undefined): string | undefined {
  const side = narrowerOf(listener && foldCase(listener), route && foldCase(route));
  return side === "listener" ? listener : side && route;
}

/** Which of the two is what they have in common. Names are in lower case: a Gateway of many listeners asks this very often. */
export function narrowerOf(listener: string | undefined, route: string | undefined): "listener" | "route" | undefined {
  if (listener === undefined || route === undefined) return route === undefined ? "listener" : "route";
  if (covers(listener, route)) return "route";
  return covers(route, listener) ? "listener" : undefined;
}

/** Whether every name that `narrow` stands for is one that `wide` stands for. */
function covers(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith("*.") && narrow.endsWith(wide.slice(1)));
}
