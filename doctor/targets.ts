import type { TargetConfig } from "#lib/config/schema.ts";
import { isRelayed, relayedProtocol } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { type ClusterFacts, type ObjectName, objectKey } from "./facts.ts";

/**
 * `published`: the proxies relay to it. `direct`: names resolve to its Service, without a proxy. `unused`: no name
 * uses it, but pods may still hold its address, so it stays published. `waiting`: it needs a relay and is not
 * published yet. `withheld`: it stays unpublished until it is known which header its ingress controller expects.
 * `idle`: it is the default target, and its Service does not exist.
 */
type TargetState = "published" | "direct" | "unused" | "waiting" | "withheld" | "idle";

/** A target in effect, configured or discovered. */
export interface Target {
  readonly name: string;
  readonly state: TargetState;
  /** The ingress controller: a Service of the cluster, or a hostname. */
  readonly upstream: ObjectName | string;
  readonly ports: readonly TargetPort[];
  /** Whether it has a front Service: it is relayed, and the configuration sets no addresses. */
  readonly fronted: boolean;
}

interface TargetPort {
  readonly port: number;
  readonly upstreamPort: number;
  readonly protocol: "v1" | "v2" | "none";
  /** Port on which the proxy listens for it; undefined if it is not relayed. */
  readonly listenPort: number | undefined;
}

/**
 * All targets, sorted by name: the published ones, the others in the configuration, and the others in the controller's
 * status.
 */
export function targetsOf({ install, services }: ClusterFacts): readonly Target[] {
  const config = install.config.known ? install.config.value : undefined;
  const configured = config?.targets ?? [];
  const published = (install.targets.known ? install.targets.value : undefined) ?? [];
  const existing = new Set((services.known ? services.value : []).map(objectKey));
  const relayed = published.map((target) => publishedTarget(target, configured));
  const names = new Set(relayed.map(({ name }) => name));
  const unpublished = configured
    .filter(({ name }) => !names.has(name))
    .map((target) => {
      if (!config?.discovery.detect || target.ports.every(({ protocol }) => protocol !== "auto"))
        return configuredTarget(target, configured, existing);
      return askedTarget(configuredTarget(target, configured, existing), install);
    });
  const discovered = (install.status.known ? install.status.value.targets : []).filter((target) => {
    const { name } = target;
    return !target.relayed && !names.has(name) && !configured.some((other) => other.name === name);
  });
  return [...relayed, ...unpublished, ...discovered.map(directTarget)].toSorted((one, other) =>
    one.name < other.name ? -1 : 1,
  );
}

/**
 * The target that has this Service as its ingress controller. A withheld target does not count, because it has no
 * names.
 */
export function targetBehind(targets: readonly Target[], service: ObjectName): Target | undefined {
  const matching = targets.filter(
    ({ upstream, state }) =>
      state !== "withheld" && typeof upstream !== "string" && objectKey(upstream) === objectKey(service),
  );
  // A target in use takes precedence over one that is kept for older pods.
  return matching.find(({ state }) => state !== "unused") ?? matching[0];
}

/** The target's entry for a port of its upstream. */
export function entryFor(target: Target | undefined, upstreamPort: number): TargetPort | undefined {
  return target?.ports.find((entry) => entry.upstreamPort === upstreamPort);
}

/** A Service's DNS name, as `upstreamHost` of lib/documents/listeners.ts renders it. */
const SERVICE_HOST = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.|$)/;

function publishedTarget(
  { name, upstream, ports, unusedSince }: PublishedTarget,
  configured: readonly TargetConfig[],
): Target {
  const [, service = "", namespace = ""] = SERVICE_HOST.exec(upstream) ?? [];
  return {
    name,
    state: unusedSince === undefined ? "published" : "unused",
    upstream: service === "" ? upstream : { namespace, name: service },
    ports,
    fronted: (configured.find((target) => target.name === name)?.clusterIPs.length ?? 0) === 0,
  };
}

function configuredTarget(target: TargetConfig, all: readonly TargetConfig[], existing: ReadonlySet<string>): Target {
  const { name, upstream, ports, classes, clusterIPs } = target;
  const service = "service" in upstream ? upstream.service : undefined;
  // As in controller/targets/discovery.ts, a target without classes is the default. It counts only if its Service
  // exists.
  const idle = service !== undefined && classes.length === 0 && all.length === 1 && !existing.has(objectKey(service));
  const state = idle ? "idle" : isRelayed(target) ? "waiting" : "direct";
  return {
    name,
    state,
    upstream: service ?? ("host" in upstream ? upstream.host : ""),
    ports: ports.map(({ port, upstreamPort = port, protocol }) => ({
      port,
      upstreamPort,
      protocol: relayedProtocol(protocol),
      listenPort: undefined,
    })),
    fronted: state === "waiting" && clusterIPs.length === 0,
  };
}

/**
 * The state of a target whose ingress controller is probed for its protocol. Without addresses in the map the target
 * has no names.
 */
function askedTarget(target: Target, { map, status }: Pick<ClusterFacts["install"], "map" | "status">): Target {
  if (target.state !== "waiting") return target;
  const isThis = ({ name }: { readonly name: string }) => name === target.name;
  const addresses = map.known ? map.value?.targets.find(isThis)?.clusterIPs : undefined;
  if (addresses === undefined || addresses.length === 0) return { ...target, state: "withheld", fronted: false };
  if (!status.known || status.value.targets.find(isThis)?.relayed !== false) return target;
  const ports = target.ports.map((port) => ({ ...port, protocol: "none" as const }));
  return { ...target, state: "direct", ports, fronted: false };
}

interface DiscoveredTarget {
  readonly name: string;
  readonly upstream: string;
  readonly ports: readonly { readonly port: number }[];
}

function directTarget({ name, upstream, ports }: DiscoveredTarget): Target {
  const [namespace = "", service = ""] = upstream.split("/");
  return {
    name,
    state: "direct",
    upstream: { namespace, name: service },
    ports: ports.map(({ port }) => ({ port, upstreamPort: port, protocol: "none", listenPort: undefined })),
    fronted: false,
  };
}
