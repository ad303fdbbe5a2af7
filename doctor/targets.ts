import type { TargetConfig } from "../config/schema.ts";
import { isRelayed } from "../snapshot/listeners.ts";
import type { PublishedTarget } from "../snapshot/targets-format.ts";
import { type ClusterFacts, type ObjectName, objectKey } from "./facts.ts";

/**
 * `published`: the proxies were told of it. `direct`: names lead straight to its Service, no proxy is involved. `unused`: published
 * for pods that may still hold its address, though no name leads to it. `waiting`: it wants a relay, and the proxies were not told.
 * `idle`: the default target, which counts only where its Service is.
 */
type TargetState = "published" | "direct" | "unused" | "waiting" | "idle";

/** A target as it is in force, configured or found. */
export interface Target {
  readonly name: string;
  readonly state: TargetState;
  /** The ingress controller: a Service of the cluster, or a host. */
  readonly upstream: ObjectName | string;
  readonly ports: readonly TargetPort[];
  /** Whether it has a front Service of its own: it is relayed, and the config gives no addresses. */
  readonly fronted: boolean;
}

interface TargetPort {
  readonly port: number;
  readonly upstreamPort: number;
  readonly protocol: "v1" | "v2" | "none";
  /** Where the proxy listens for it; undefined where none does. */
  readonly listenPort: number | undefined;
}

/** Every target: what the proxies were told, then what the config has beside, then what the controller says it found beside. */
export function targetsOf({ install, services }: ClusterFacts): readonly Target[] {
  const config = install.config.known ? install.config.value : undefined;
  const configured = config?.targets ?? [];
  const published = (install.targets.known ? install.targets.value : undefined) ?? [];
  const there = new Set((services.known ? services.value : []).map(objectKey));
  const told = published.map((target) => publishedTarget(target, configured));
  const names = new Set(told.map(({ name }) => name));
  const own = configured
    .filter(({ name }) => !names.has(name))
    .map((target) => configuredTarget(target, configured, there));
  const found = (install.status.known ? install.status.value.targets : []).filter(({ name, relayed }) => {
    return !relayed && !names.has(name) && !configured.some((target) => target.name === name);
  });
  return [...told, ...own, ...found.map(directTarget)].toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** The target whose ingress controller is this Service. */
export function targetBehind(targets: readonly Target[], service: ObjectName): Target | undefined {
  const of = targets.filter(
    ({ upstream }) => typeof upstream !== "string" && objectKey(upstream) === objectKey(service),
  );
  // One that is in use before one that is kept for pods of earlier.
  return of.find(({ state }) => state !== "unused") ?? of[0];
}

/** The entry of a target for a port of its upstream. */
export function entryFor(target: Target | undefined, upstreamPort: number): TargetPort | undefined {
  return target?.ports.find((entry) => entry.upstreamPort === upstreamPort);
}

/** A Service's name in the cluster's DNS, as `upstreamHost` of snapshot/listeners.ts makes it. */
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

function configuredTarget(target: TargetConfig, all: readonly TargetConfig[], there: ReadonlySet<string>): Target {
  const { name, upstream, ports, classes, clusterIPs } = target;
  const service = "service" in upstream ? upstream.service : undefined;
  // As controller/targets/discovery.ts has it: without classes it is for whatever is not found, where its Service is.
  const idle = service !== undefined && classes.length === 0 && all.length === 1 && !there.has(objectKey(service));
  const state = idle ? "idle" : isRelayed(target) ? "waiting" : "direct";
  return {
    name,
    state,
    upstream: service ?? ("host" in upstream ? upstream.host : ""),
    ports: ports.map(({ port, upstreamPort = port, protocol }) => ({
      port,
      upstreamPort,
      protocol,
      listenPort: undefined,
    })),
    fronted: state === "waiting" && clusterIPs.length === 0,
  };
}

interface FoundTarget {
  readonly name: string;
  readonly upstream: string;
  readonly ports: readonly { readonly port: number }[];
}

function directTarget({ name, upstream, ports }: FoundTarget): Target {
  const [namespace = "", service = ""] = upstream.split("/");
  return {
    name,
    state: "direct",
    upstream: { namespace, name: service },
    ports: ports.map(({ port }) => ({ port, upstreamPort: port, protocol: "none", listenPort: undefined })),
    fronted: false,
  };
}
