import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { type ClusterFacts, type ObjectName, objectKey } from "./facts.ts";

/** A Service's DNS name, as `upstreamHost` of lib/documents/listeners.ts renders it. */
const SERVICE_HOST = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.|$)/;

/** The published targets, sorted by name. */
export function targetsOf({ install }: Pick<ClusterFacts, "install">): readonly PublishedTarget[] {
  const published = (install.targets.known ? install.targets.value : undefined) ?? [];
  return published.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** The ingress controller's Service; undefined if the upstream is another host. */
export function upstreamService({ upstream }: PublishedTarget): ObjectName | undefined {
  const [, name, namespace = ""] = SERVICE_HOST.exec(upstream) ?? [];
  return name === undefined ? undefined : { namespace, name };
}

/**
 * The target that has this Service as its ingress controller, or whose names lead to its ClusterIP. One in use takes
 * precedence.
 */
export function targetBehind(
  targets: readonly PublishedTarget[],
  service: ObjectName & { readonly clusterIPs?: readonly string[] },
): PublishedTarget | undefined {
  const matching = targets.filter((target) => {
    const isDirect =
      target.ports.length === 0 && target.clusterIPs.some((address) => service.clusterIPs?.includes(address));
    const upstream = upstreamService(target);
    return isDirect || (upstream !== undefined && objectKey(upstream) === objectKey(service));
  });
  return matching.find(isMapped) ?? matching[0];
}

/** Whether names lead to the target. One that is not in use stays published for older pods. */
export function isMapped({ clusterIPs, unusedSince }: PublishedTarget): boolean {
  return clusterIPs.length > 0 && unusedSince === undefined;
}

/** The target's entry for a port of its upstream. */
export function entryFor(
  target: PublishedTarget | undefined,
  upstreamPort: number,
): PublishedTarget["ports"][number] | undefined {
  return target?.ports.find((entry) => entry.upstreamPort === upstreamPort);
}
