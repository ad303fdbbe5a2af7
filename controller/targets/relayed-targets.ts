import type { Reason } from "#hostmap/types.ts";
import { MAX_FOUND_PORTS } from "#lib/config/defaults.ts";
import { isRelayed, listenersOf, portKey, relayedProtocol } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { Target } from "./target.ts";

export interface RelayedInput {
  /** The active configured targets, and the discovered targets that have names. */
  readonly wanted: readonly Target[];
  /** The current definition of a target, with or without names. */
  readonly definitionOf: (name: string) => Target | undefined;
  /** Whether Services are read. If so, a discovered target without a definition has no Service any more. */
  readonly discovers: boolean;
  /** The last published targets. */
  readonly remembered: readonly PublishedTarget[];
  /** Addresses of front Services, by target. */
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  readonly clusterDomain: string | undefined;
  readonly maxTargets: number;
  readonly keepMs: number;
  /** Milliseconds since the epoch by the wall clock, as for published times. */
  readonly now: number;
}

export interface RelayedTargets {
  readonly targets: readonly PublishedTarget[];
  /** Why discovered targets, or some of their ports, are not relayed. */
  readonly refused: ReadonlyMap<string, Reason>;
  /** Unused targets that are removed now. */
  readonly dropped: readonly PublishedTarget[];
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
  const { remembered, now, keepMs } = input;
  const { admitted, refused } = admitTargets(input);
  const names = new Set(admitted.map(({ name }) => name));
  const claimed = new Set(admitted.flatMap(({ ports }) => ports.map(({ listenPort }) => listenPort)));
  const kept: PublishedTarget[] = [];
  const dropped: PublishedTarget[] = [];
  const waits: number[] = [];
  for (const target of remembered) {
    if (names.has(target.name)) continue;
    const { unusedSince = new Date(now).toISOString() } = target;
    const leftMs = keepMs - (now - Date.parse(unusedSince));
    // An unused target loses a listen port if the config assigns that port to another target.
    const ports = target.ports.filter(({ listenPort }) => !claimed.has(listenPort));
    if (ports.length === 0 || leftMs <= 0) dropped.push(target);
    else {
      kept.push({ ...observed({ ...target, ports }, input), unusedSince });
      waits.push(leftMs);
    }
  }
  const targets = [...listened(admitted, kept, input), ...kept];
  return {
    targets: targets.sort((a, b) => (a.name < b.name ? -1 : 1)),
    refused,
    dropped,
    nextDropMs: waits.length === 0 ? undefined : Math.min(...waits),
  };
}

/** What counts towards the limits. */
type Usage = readonly [targets: number, ports: number];
/** Stands for all namespaces together. */
const ALL = "";

/**
 * Decides which of the wanted targets are relayed: the configured ones, and discovered ones within the limits.
 * Published targets stay, and count also while no name has them, because pods may hold their addresses. Then existing
 * targets get further ports. Then new targets are added in name order.
 */
function admitTargets({ wanted, remembered, maxTargets }: RelayedInput) {
  const published = new Map(remembered.map((target) => [target.name, target]));
  const used = new Map<string, Usage>();
  const usedBy = (key: string) => used.get(key) ?? [0, 0];
  const use = (namespace: string, more: Usage) => {
    for (const key of new Set([ALL, namespace])) used.set(key, [usedBy(key)[0] + more[0], usedBy(key)[1] + more[1]]);
  };
  for (const { namespace = ALL, ports, upstreamIPs } of remembered)
    if (upstreamIPs !== undefined) use(namespace, [1, ports.length]);
  const isNew = ({ name }: Target) => Number(!published.has(name));
  const inOrder = (one: Target, other: Target) => isNew(one) - isNew(other) || (one.name < other.name ? -1 : 1);
  const isFound = ({ upstreamIPs }: Target) => upstreamIPs !== undefined;
  const relayed = wanted.filter(isRelayed);
  const admitted = relayed.filter((target) => !isFound(target));
  const refused = new Map<string, Reason>();
  for (const target of relayed.filter(isFound).sort(inOrder)) {
    const { name, ports } = target;
    const namespace = namespaceOf(target) ?? ALL;
    const had = published.get(name)?.ports ?? [];
    const more: Usage = [isNew(target), Math.max(0, ports.length - had.length)];
    const isTooMuch = (key: string, share: number) =>
      [maxTargets, MAX_FOUND_PORTS].some((limit, what) => {
        const added = more[what] ?? 0;
        return added > 0 && (usedBy(key)[what] ?? 0) + added > Math.ceil(limit / share);
      });
    const kept = ports.filter(({ port }) => had.some((each) => each.port === port));
    const limit = `${maxTargets} targets (discovery.maxTargets) or ${MAX_FOUND_PORTS} ports`;
    const code = "too-many-targets";
    if (isTooMuch(ALL, 1)) refused.set(name, { code, text: `it would be more than ${limit}` });
    else if (isTooMuch(namespace, 2))
      refused.set(name, { code, text: `the namespace ${namespace} would have more than half of ${limit}` });
    else use(namespace, more);
    if (!refused.has(name)) admitted.push(target);
    else if (kept.length > 0) admitted.push({ ...target, ports: kept });
  }
  return { admitted, refused };
}

function namespaceOf({ upstream }: Target): string | undefined {
  return "service" in upstream ? upstream.service.namespace : undefined;
}

/**
 * Updates an unused target from its Service, and with the configured or decided protocols. Without discovery the
 * Service is not observed, so the last known addresses stay.
 */
function observed(target: PublishedTarget, { discovers, definitionOf }: RelayedInput): PublishedTarget {
  const definition = definitionOf(target.name);
  const isFound = discovers && target.upstreamIPs !== undefined;
  const ports = target.ports.map((entry) => {
    const now = definition?.ports.find(({ port }) => port === entry.port);
    const protocol = relayedProtocol(now?.protocol ?? entry.protocol);
    const isLent = isFound && entry.upstreamIPs !== undefined;
    return { ...entry, protocol, ...(isLent && { upstreamIPs: now?.upstreamIPs ?? [] }) };
  });
  return { ...target, ports, ...(isFound && { upstreamIPs: definition?.upstreamIPs ?? [] }) };
}

function listened(
  wanted: readonly Target[],
  kept: readonly PublishedTarget[],
  { remembered, addresses, clusterDomain }: RelayedInput,
): PublishedTarget[] {
  const ports = new Map(
    remembered.flatMap((target) =>
      target.ports.map(({ port, listenPort }) => [portKey(target.name, port), listenPort] as const),
    ),
  );
  // Kept targets keep their ports, because the allocation treats them as targets with fixed ports.
  const fixed = kept.map(({ name, upstream: host, ports }) => ({
    ...{ name, upstream: { host }, classes: [], clusterIPs: [] },
    ports: ports.map(({ port, listenPort }) => ({ port, listenPort, protocol: "v1" as const })),
  }));
  const byTarget = Map.groupBy(listenersOf([...wanted, ...fixed], clusterDomain, ports), ({ target }) => target);
  return wanted.flatMap((target) => {
    const { name, clusterIPs, upstreamIPs } = target;
    const listeners = byTarget.get(name) ?? [];
    const [first] = listeners;
    if (first === undefined) return [];
    const namespace = namespaceOf(target);
    return {
      name,
      ...(namespace !== undefined && { namespace }),
      upstream: first.upstream,
      ...(upstreamIPs && { upstreamIPs }),
      ports: listeners.map(({ target: _target, upstream: _upstream, ...port }) => port),
      clusterIPs: clusterIPs.length > 0 ? clusterIPs : (addresses.get(name) ?? []),
    };
  });
}
