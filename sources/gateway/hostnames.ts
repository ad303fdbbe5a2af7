import { foldCase } from "../../hosts/names.ts";

/**
 * The name that a listener and a route serve together, or nothing if they have none in common. Either may be a wildcard, which stands
 * for every name below it, at any depth, and not for the name itself; undefined stands for all names
 * (gateway.networking.k8s.io/v1: `HTTPRouteSpec.hostnames`, `Listener.hostname`). Case does not count (RFC 4343).
 */
export function intersect(listener: string | undefined, route: string | undefined): string | undefined {
  if (listener === undefined) return route;
  if (route === undefined) return listener;
  const wide = foldCase(listener);
  const narrow = foldCase(route);
  if (covers(wide, narrow)) return route;
  return covers(narrow, wide) ? listener : undefined;
}

/** Whether every name that `narrow` stands for is one that `wide` stands for. */
function covers(wide: string, narrow: string): boolean {
  return (
    wide === narrow || (wide.startsWith("*.") && narrow.length > wide.length - 1 && narrow.endsWith(wide.slice(1)))
  );
}
