import type { TargetConfig } from "#lib/config/schema.ts";

/** One port of one target: what the proxy binds, and where it relays to. */
export interface Listener {
  readonly target: string;
  /** Port of the front Service, the one that pods call. */
  readonly port: number;
  /** Port that the proxy binds; the front Service's targetPort. */
  readonly listenPort: number;
  /** Host name or IP literal of the ingress controller. */
  readonly upstream: string;
  /**
   * Of a discovered target, or of a port that another Service has at its address: the only addresses that it is
   * relayed to; `upstream` is then never looked up.
   */
  readonly upstreamIPs?: readonly string[];
  readonly upstreamPort: number;
  readonly protocol: "v1" | "v2" | "none";
}

/**
 * Derived listen ports lie in [FIRST, FIRST + SPAN): above the privileged ports, below Linux' ephemeral range (32768).
 */
const FIRST_PORT = 15_000;
const PORT_SPAN = 10_000;

/** A port of a target. `upstreamIPs` are set if another Service than the target's has it. */
type RelayedPort = TargetConfig["ports"][number] & { readonly upstreamIPs?: readonly string[] };

/** A target, with what is known of its ports beyond the configuration. */
type RelayedTarget = Omit<TargetConfig, "ports"> & { readonly ports: readonly RelayedPort[] };

/**
 * Whether a target goes through the proxy. If its own Service has all ports and none wants a header, names map straight
 * to the ingress controller.
 */
export function isRelayed({ ports }: Pick<RelayedTarget, "ports">): boolean {
  return ports.some(({ protocol, upstreamIPs }) => protocol !== "none" || upstreamIPs !== undefined);
}

/** The header that the proxies send. `auto` is v1 where nobody has asked: most ingress controllers take it. */
export function relayedProtocol(protocol: RelayedPort["protocol"]): Listener["protocol"] {
  return protocol === "auto" ? "v1" : protocol;
}

/** The name of a target's front Service. */
export function frontName(target: string): string {
  return `switchback-${target}`;
}

/** The name under which the upstream is looked up: a Service's cluster DNS name, or the host as it was given. */
export function upstreamHost(target: Pick<TargetConfig, "upstream">, clusterDomain: string | undefined): string {
  if ("host" in target.upstream) return target.upstream.host;
  const { name, namespace } = target.upstream.service;
  // Without the domain the pod's own search list completes the name; with it, one look-up is enough.
  return clusterDomain === undefined
    ? `${name}.${namespace}.svc`
    : `${name}.${namespace}.svc.${clusterDomain.replace(/\.$/, "")}.`;
}

/**
 * The listeners of all relayed targets, in their order.
 * If the config gives no listen port, a target's port keeps the one that it had (`remembered`, by `portKey`). Else it
 * is derived from the target's name and port. Its place in the list does not count, so a changed list moves no port
 * in use. If no listen port is free, the port is left out. The limits of config and discovery are far below that.
 */
export function listenersOf(
  targets: readonly RelayedTarget[],
  clusterDomain?: string,
  remembered: ReadonlyMap<string, number> = new Map(),
): Listener[] {
  const relayed = targets.filter(isRelayed);
  const ports = assignListenPorts(relayed, remembered);
  return relayed.flatMap((target) =>
    target.ports.flatMap(({ port, upstreamPort = port, protocol, upstreamIPs }) => {
      const listenPort = ports.get(portKey(target.name, port));
      if (listenPort === undefined) return [];
      const upstream = upstreamHost(target, clusterDomain);
      return [
        {
          target: target.name,
          port,
          listenPort,
          upstream,
          upstreamPort,
          protocol: relayedProtocol(protocol),
          ...(upstreamIPs && { upstreamIPs }),
        },
      ];
    }),
  );
}

function assignListenPorts(
  targets: readonly RelayedTarget[],
  remembered: ReadonlyMap<string, number>,
): Map<string, number> {
  const assigned = new Map<string, number>();
  const open: string[] = [];
  for (const target of targets) {
    for (const { port, listenPort } of target.ports) {
      if (listenPort === undefined) open.push(portKey(target.name, port));
      else assigned.set(portKey(target.name, port), listenPort);
    }
  }
  const taken = new Set(assigned.values());
  for (const key of open) {
    const port = remembered.get(key);
    if (port === undefined || taken.has(port)) continue;
    taken.add(port);
    assigned.set(key, port);
  }
  const rest = open.filter((each) => !assigned.has(each)).sort();
  for (const [key, port] of derivePorts(rest, taken)) assigned.set(key, port);
  return assigned;
}

/**
 * Derives free ports in key order, so that which of two colliding keys moves on does not depend on the config's order.
 */
function derivePorts(keys: readonly string[], taken: Set<number>): Map<string, number> {
  const derived = new Map<string, number>();
  const isInSpan = (port: number) => port >= FIRST_PORT && port < FIRST_PORT + PORT_SPAN;
  let left = PORT_SPAN - [...taken].filter(isInSpan).length;
  for (const key of keys) {
    if (left === 0) break;
    let port = FIRST_PORT + (fnv1a(key) % PORT_SPAN);
    while (taken.has(port)) port = FIRST_PORT + ((port - FIRST_PORT + 1) % PORT_SPAN);
    left -= 1;
    taken.add(port);
    derived.set(key, port);
  }
  return derived;
}

/** How a target's port is remembered. */
export function portKey(target: string, port: number): string {
  return `${target}:${port}`;
}

/** FNV-1a, 32 bits: spreads the few keys of a config; nothing depends on it being hard to collide. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash;
}
