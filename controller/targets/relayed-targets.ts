import type { Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { isRelayed, listenersOf, portKey, relayedProtocol } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { TargetCatalog } from "./resolver.ts";
import type { FoundTarget } from "./service-view.ts";
import { admitTargets, type TargetLimits } from "./target-quota.ts";

export interface RelayedInput {
  /** The active configured targets. */
  readonly configured: readonly TargetConfig[];
  /** Discovered targets that have names. No configured target has one of theirs. */
  readonly found: readonly FoundTarget[];
  /** The current definitions of discovered targets, with or without names. */
  readonly catalog: Pick<TargetCatalog, "discovers" | "found">;
  /** The last published targets. */
  readonly remembered: readonly PublishedTarget[];
  /** Addresses of front Services, by target. */
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  readonly clusterDomain: string | undefined;
  readonly limits: TargetLimits;
  readonly keepMs: number;
  /** Milliseconds since the epoch by the wall clock, as for published times. */
  readonly now: number;
}

export interface RelayedTargets {
  readonly targets: readonly PublishedTarget[];
  /** Why discovered targets, or some of their ports, are not relayed. */
  readonly refused: ReadonlyMap<string, Reason>;
  /** Unused targets that are removed now. */
  readonly dropped: readonly string[];
  /** Delay until the next unused target is due for removal, in milliseconds. */
  readonly nextDropMs: number | undefined;
}

/**
 * Computes the targets that proxies relay: those in use, and those that pods may still connect to. An existing target
 * keeps its listen ports when other targets are added or removed. The Service of a discovered target may be deleted,
 * or get another type. Then the proxies relay nothing for the target, but it keeps its front Service and listen ports,
 * because pods hold the address.
 */
export function relayedTargets(input: RelayedInput): RelayedTargets {
  const { configured, found, remembered, limits, now, keepMs } = input;
  const unusedMs = (since: string) => now - Date.parse(since);
  const { admitted, refused } = admitTargets(found, remembered, limits);
  const wanted = [...configured, ...admitted].filter(isRelayed);
  const names = new Set(wanted.map(({ name }) => name));
  const unused = remembered
    .filter(({ name }) => !names.has(name))
    .map((target) => ({
      ...observed(target, input),
      unusedSince: target.unusedSince ?? new Date(now).toISOString(),
    }));
  const claimed = new Set(wanted.flatMap(({ ports }) => ports.map(({ listenPort }) => listenPort)));
  const [kept, dropped] = partition(
    // An unused target loses a listen port if the config assigns that port to another target.
    unused.map((target) => ({ ...target, ports: target.ports.filter(({ listenPort }) => !claimed.has(listenPort)) })),
    ({ unusedSince, ports }) => ports.length > 0 && unusedMs(unusedSince) < keepMs,
  );
  const targets = [...listened(wanted, kept, input), ...kept];
  const waits = kept.map(({ unusedSince }) => keepMs - unusedMs(unusedSince));
  return {
    targets: targets.sort((a, b) => (a.name < b.name ? -1 : 1)),
    refused,
    dropped: dropped.map(({ name }) => name),
    nextDropMs: waits.length === 0 ? undefined : Math.min(...waits),
  };
}

/**
 * Updates an unused target from its Service, and with the configured or decided protocols. Without discovery the
 * Service is not observed, so the last known addresses stay.
 */
function observed(target: PublishedTarget, { catalog, configured }: RelayedInput): PublishedTarget {
  const isFound = catalog.discovers && target.upstreamIPs !== undefined;
  const found = isFound ? catalog.found(target.name) : undefined;
  const definition = configured.find(({ name }) => name === target.name) ?? found;
  const ports = target.ports.map((entry) => {
    const { protocol = entry.protocol } = definition?.ports.find(({ port }) => port === entry.port) ?? {};
    const { upstreamIPs = [] } = found?.ports.find(({ port }) => port === entry.port) ?? {};
    const lent = isFound && entry.upstreamIPs !== undefined ? { upstreamIPs } : {};
    return { ...entry, protocol: relayedProtocol(protocol), ...lent };
  });
  return { ...target, ports, ...(isFound && { upstreamIPs: found?.upstreamIPs ?? [] }) };
}

function listened(
  wanted: readonly (TargetConfig | FoundTarget)[],
  kept: readonly PublishedTarget[],
  { remembered, addresses, clusterDomain }: RelayedInput,
): PublishedTarget[] {
  const ports = new Map(
    remembered.flatMap((target) =>
      target.ports.map(({ port, listenPort }) => [portKey(target.name, port), listenPort] as const),
    ),
  );
  // Kept targets keep their ports, because the allocation treats them as targets with fixed ports.
  const fixed = kept.map((target) => ({
    ...{ name: target.name, upstream: { host: target.upstream }, classes: [], clusterIPs: [] },
    ports: target.ports.map((port) => ({ ...port, protocol: "v1" as const })),
  }));
  const listeners = listenersOf([...wanted, ...fixed], clusterDomain, ports);
  const byTarget = Map.groupBy(listeners, ({ target }) => target);
  return wanted.flatMap((target) => {
    const { name, clusterIPs } = target;
    const targetListeners = byTarget.get(name) ?? [];
    const [first] = targetListeners;
    if (first === undefined) return [];
    return {
      name,
      upstream: first.upstream,
      ...("upstreamIPs" in target && { upstreamIPs: target.upstreamIPs }),
      ports: targetListeners.map(({ target: _target, upstream: _upstream, ...port }) => port),
      clusterIPs: clusterIPs.length > 0 ? clusterIPs : (addresses.get(name) ?? []),
    };
  });
}

function partition<T>(list: readonly T[], test: (item: T) => boolean): [T[], T[]] {
  return [list.filter(test), list.filter((item) => !test(item))];
}
