import { spreadHash } from "#hostmap/hash.ts";
import type { TargetConfig } from "#lib/config/schema.ts";

/** One port of one target: the port that the proxy binds, and where it relays to. */
export interface Listener {
  readonly target: string;
  /** Port of the front Service. Pods call this port. */
  readonly port: number;
  /** Port that the proxy binds. It is the targetPort of the front Service. */
  readonly listenPort: number;
  /** Host name or IP literal of the ingress controller. */
  readonly upstream: string;
  /**
   * Set for a discovered target, and for a port that another Service has at the target's address. The proxy relays
   * only to these addresses, and never looks up `upstream`.
   */
  readonly upstreamIPs?: readonly string[];
  readonly upstreamPort: number;
  readonly protocol: "v1" | "v2" | "none";
}

/**
 * Derived listen ports are in [FIRST_PORT, FIRST_PORT + PORT_SPAN): above the privileged ports, below Linux'
 * ephemeral range (32768).
 */
const FIRST_PORT = 15_000;
const PORT_SPAN = 10_000;

/** A port of a target. `upstreamIPs` is set if another Service than the target's has the port. */
type RelayedPort = TargetConfig["ports"][number] & { readonly upstreamIPs?: readonly string[] };

/** A target with all that is known about its ports, including what is not in the configuration. */
type RelayedTarget = Omit<TargetConfig, "ports"> & { readonly ports: readonly RelayedPort[] };

/**
 * Whether a target goes through the proxy. If its own Service has all ports and none needs a header, names map
 * directly to the ingress controller.
 */
export function isRelayed({ ports }: Pick<RelayedTarget, "ports">): boolean {
  return ports.some(({ protocol, upstreamIPs }) => protocol !== "none" || upstreamIPs !== undefined);
}

/**
 * Returns the header that the proxies send. For `auto` it is v1 until a proxy has asked: most ingress controllers
 * accept v1.
 */
export function relayedProtocol(protocol: RelayedPort["protocol"]): Listener["protocol"] {
  return protocol === "auto" ? "v1" : protocol;
}

/** The name of a target's front Service. */
export function frontName(target: string): string {
  return `switchback-${target}`;
}

/** Returns the name for looking up the upstream: a Service's cluster DNS name, or the configured host. */
export function upstreamHost(target: Pick<TargetConfig, "upstream">, clusterDomain: string | undefined): string {
  if ("host" in target.upstream) return target.upstream.host;
  const { name, namespace } = target.upstream.service;
  // Without the domain, the pod's own search list completes the name. With it, one look-up is enough.
  return clusterDomain === undefined
    ? `${name}.${namespace}.svc`
    : `${name}.${namespace}.svc.${clusterDomain.replace(/\.$/, "")}.`;
}

/**
 * Returns the listeners of all relayed targets, in the order of the targets.
 *
 * If the config gives no listen port, a target's port keeps its previous one (`remembered`, by `portKey`). Otherwise
 * the listen port is derived from the target's name and port. The position in the list does not count, so a change of
 * the list moves no port in use.
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
  for (const key of open.filter((each) => !assigned.has(each)).sort()) {
    const port = freePort(key, taken);
    if (port === undefined) break;
    taken.add(port);
    assigned.set(key, port);
  }
  return assigned;
}

/**
 * Undefined: all ports are taken. Targets that were removed from the config count beside the limits of config and
 * discovery.
 */
function freePort(key: string, taken: ReadonlySet<number>): number | undefined {
  if (taken.size >= PORT_SPAN) return undefined;
  let port = FIRST_PORT + (spreadHash(key) % PORT_SPAN);
  while (taken.has(port)) port = FIRST_PORT + ((port - FIRST_PORT + 1) % PORT_SPAN);
  return port;
}

/** Returns the key by which a target's port is remembered. */
export function portKey(target: string, port: number): string {
  return `${target}:${port}`;
}
