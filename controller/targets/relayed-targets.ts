import type { TargetConfig } from "../../config/schema.ts";
import { isRelayed, type Listener, listenersOf, portKey } from "../../snapshot/listeners.ts";
import type { PublishedTarget } from "../../snapshot/targets-format.ts";

export interface RelayedInput {
  /** Configured targets that are active. */
  readonly configured: readonly TargetConfig[];
  /** Discovered targets that have names. */
  readonly found: readonly TargetConfig[];
  /** The targets that were published last. */
  readonly remembered: readonly PublishedTarget[];
  /** Addresses of front Services, by target. */
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  readonly clusterDomain: string | undefined;
  /** Maximum number of discovered targets. */
  readonly maxFound: number;
  readonly keepMs: number;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export interface RelayedTargets {
  readonly targets: readonly PublishedTarget[];
  /** Discovered targets over the limit. */
  readonly waiting: readonly string[];
  /** Unused targets that are removed now. */
  readonly dropped: readonly string[];
  /** When the next unused target is due for removal. */
  readonly nextDrop: number | undefined;
}

/**
 * Computes the targets that proxies relay: those in use, and those that pods may still connect to. An existing target keeps its
 * listen ports when other targets are added or removed.
 */
export function relayedTargets(input: RelayedInput): RelayedTargets {
  const { configured, found, remembered, now, keepMs } = input;
  const before = new Map(remembered.map((target) => [target.name, target]));
  const { fitting, waiting } = admit(input, before);
  const wanted = [...configured, ...fitting].filter(isRelayed);
  const names = new Set(wanted.map(({ name }) => name));
  const unused = remembered
    .filter(({ name }) => !names.has(name))
    .map((target) => ({ ...target, unusedSince: target.unusedSince ?? new Date(now).toISOString() }));
  const claimed = new Set(wanted.flatMap(({ ports }) => ports.map(({ listenPort }) => listenPort)));
  const [kept, dropped] = partition(
    // An unused target loses a listen port that the config assigns to another target.
    unused.map((target) => ({ ...target, ports: target.ports.filter(({ listenPort }) => !claimed.has(listenPort)) })),
    ({ unusedSince, ports }) => ports.length > 0 && Date.parse(unusedSince) + keepMs > now,
  );
  const targets = [...listened(wanted, kept, input), ...kept];
  const deadlines = kept.map(({ unusedSince }) => Date.parse(unusedSince) + keepMs);
  return {
    targets: targets.sort((a, b) => (a.name < b.name ? -1 : 1)),
    waiting: [...waiting, ...found.filter(({ name }) => configured.some((target) => target.name === name))].map(
      ({ name }) => name,
    ),
    dropped: dropped.map(({ name }) => name),
    nextDrop: deadlines.length === 0 ? undefined : Math.min(...deadlines),
  };
}

/** Existing targets stay; new ones over the limit wait, in name order. The name of a configured target is reserved. */
function admit({ configured, found, maxFound }: RelayedInput, before: ReadonlyMap<string, PublishedTarget>) {
  const discovered = found.filter(({ name }) => !configured.some((target) => target.name === name));
  const [old, fresh] = partition(discovered, ({ name }) => before.has(name));
  const order = [...old, ...fresh.toSorted((a, b) => (a.name < b.name ? -1 : 1))];
  return { fitting: order.slice(0, maxFound), waiting: order.slice(maxFound) };
}

function listened(
  wanted: readonly TargetConfig[],
  kept: readonly PublishedTarget[],
  { remembered, addresses, clusterDomain }: RelayedInput,
): PublishedTarget[] {
  const ports = new Map(
    remembered.flatMap((target) =>
      target.ports.map(({ port, listenPort }) => [portKey(target.name, port), listenPort] as const),
    ),
  );
  // Kept targets retain their ports: they enter the allocation as targets with fixed ports.
  const fixed = kept.map((target) => fixedTarget(target.name, target.ports));
  const listeners = listenersOf([...wanted, ...fixed], clusterDomain, ports);
  return wanted.map(({ name, clusterIPs }) => {
    const targetListeners = listeners.filter(({ target }) => target === name);
    return {
      name,
      upstream: targetListeners[0]?.upstream ?? "",
      ports: targetListeners.map(({ port, listenPort, upstreamPort, protocol }) => ({
        port,
        listenPort,
        upstreamPort,
        protocol,
      })),
      clusterIPs: clusterIPs.length > 0 ? clusterIPs : (addresses.get(name) ?? []),
    };
  });
}

function fixedTarget(name: string, ports: ReadonlyArray<Pick<Listener, "port" | "listenPort">>): TargetConfig {
  return {
    name,
    upstream: { host: "localhost" },
    classes: [],
    clusterIPs: [],
    ports: ports.map(({ port, listenPort }) => ({ port, listenPort, protocol: "v1" })),
  };
}

function partition<T>(list: readonly T[], test: (item: T) => boolean): [T[], T[]] {
  return [list.filter(test), list.filter((item) => !test(item))];
}
