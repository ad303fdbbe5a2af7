import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { type ClusterFacts, type ObjectName, objectKey } from "./facts.ts";

/** A target that the controller has published. */
export interface Target {
  readonly name: string;
  /** The ingress controller: a Service of the cluster, or a hostname. */
  readonly upstream: ObjectName | string;
  /** The ports that proxies relay. Empty: its names lead to its own Service, or it has no names yet. */
  readonly ports: PublishedTarget["ports"];
  /** The addresses of its names; empty until it has names. */
  readonly clusterIPs: readonly string[];
  /** What its ingress controller answered when the proxies asked which header it expects, for each port asked. */
  readonly answers: readonly (HeaderAnswer | undefined)[];
  /** Whether no name leads to it any more. It stays published for older pods. */
  readonly unused: boolean;
}

/** A Service's DNS name, as `upstreamHost` of lib/documents/listeners.ts renders it. */
const SERVICE_HOST = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.|$)/;

/** The published targets, sorted by name. */
export function targetsOf({ install }: Pick<ClusterFacts, "install">): readonly Target[] {
  const published = (install.targets.known ? install.targets.value : undefined) ?? [];
  return published.map(asTarget).toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function asTarget({ name, upstream, ports, clusterIPs, ask = [], unusedSince }: PublishedTarget): Target {
  const [, service = "", namespace = ""] = SERVICE_HOST.exec(upstream) ?? [];
  return {
    name,
    upstream: service === "" ? upstream : { namespace, name: service },
    ports,
    clusterIPs,
    answers: ask.map(({ answer }) => answer),
    unused: unusedSince !== undefined,
  };
}

/**
 * The target that has this Service as its ingress controller, or whose names lead to its ClusterIP. One in use takes
 * precedence.
 */
export function targetBehind(
  targets: readonly Target[],
  service: ObjectName & { readonly clusterIPs?: readonly string[] },
): Target | undefined {
  const isDirect = ({ ports, clusterIPs }: Target) =>
    ports.length === 0 && clusterIPs.some((address) => service.clusterIPs?.includes(address));
  const isBehind = ({ upstream }: Target) => typeof upstream !== "string" && objectKey(upstream) === objectKey(service);
  const matching = targets.filter((target) => isBehind(target) || isDirect(target));
  return matching.find(isMapped) ?? matching[0];
}

/** Whether names lead to the target. */
export function isMapped({ clusterIPs, unused }: Target): boolean {
  return clusterIPs.length > 0 && !unused;
}

/** The target's entry for a port of its upstream. */
export function entryFor(
  target: Target | undefined,
  upstreamPort: number,
): PublishedTarget["ports"][number] | undefined {
  return target?.ports.find((entry) => entry.upstreamPort === upstreamPort);
}
