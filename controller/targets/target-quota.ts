import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { FoundTarget } from "./service-view.ts";

/** Limits of the discovered targets and of all their ports. One namespace gets at most half. */
export interface TargetLimits {
  readonly maxTargets: number;
  readonly maxPorts: number;
}

/** The discovered targets that are relayed, and the reasons why other targets, or further ports, are not. */
interface AdmittedTargets {
  readonly admitted: readonly FoundTarget[];
  readonly refused: ReadonlyMap<string, Reason>;
}

/** The DNS name of a Service, as `upstreamHost` in lib/documents/listeners.ts renders it. */
const SERVICE_HOST = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.|$)/;

/** The namespace of a discovered, published target; undefined: the target was configured. */
function namespaceOfFound({ upstream, upstreamIPs }: PublishedTarget): string | undefined {
  if (upstreamIPs === undefined) return undefined;
  const [, , namespace = ""] = SERVICE_HOST.exec(upstream) ?? [];
  return namespace;
}

/**
 * Decides which discovered targets are relayed. Published targets stay, and count also while no name has them, because
 * pods may hold their addresses. Then existing targets get further ports. Then new targets are added in name order.
 * Both end at the limits, and at the share of the namespace.
 */
export function admitTargets(
  found: readonly FoundTarget[],
  remembered: readonly PublishedTarget[],
  { maxTargets, maxPorts }: TargetLimits,
): AdmittedTargets {
  const published = new Map(remembered.map((target) => [target.name, target]));
  const used = new Map<string | typeof ALL, { targets: number; ports: number }>();
  const usedBy = (key: string | typeof ALL) => getOrAdd(used, key, () => ({ targets: 0, ports: 0 }));
  const use = (namespace: string, targets: number, ports: number) => {
    for (const amount of [usedBy(ALL), usedBy(namespace)]) {
      amount.targets += targets;
      amount.ports += ports;
    }
  };
  const exceeds = (key: string | typeof ALL, share: number, targets: number, ports: number) =>
    (targets > 0 && usedBy(key).targets + targets > Math.ceil(maxTargets / share)) ||
    (ports > 0 && usedBy(key).ports + ports > Math.ceil(maxPorts / share));
  const limit = `${maxTargets} targets or ${maxPorts} ports (discovery.maxTargets, discovery.maxPorts)`;
  const refusalOf = (namespace: string, targets: number, ports: number): string | undefined => {
    if (exceeds(ALL, 1, targets, ports)) return `it would be more than ${limit}`;
    if (!exceeds(namespace, 2, targets, ports)) return undefined;
    return `the namespace ${namespace} would have more than half of ${limit}`;
  };
  for (const target of remembered) {
    const namespace = namespaceOfFound(target);
    if (namespace !== undefined) use(namespace, 1, target.ports.length);
  }
  const admitted: FoundTarget[] = [];
  const refused = new Map<string, Reason>();
  for (const target of oldFirst(found, published)) {
    const { name, upstream, ports } = target;
    const namespace = "service" in upstream ? upstream.service.namespace : "";
    const { ports: had = [] } = published.get(name) ?? {};
    const further = [published.has(name) ? 0 : 1, Math.max(0, ports.length - had.length)] as const;
    const text = refusalOf(namespace, ...further);
    if (text === undefined) use(namespace, ...further);
    else refused.set(name, { code: "too-many-targets", text });
    const kept = text === undefined ? ports : ports.filter(({ port }) => had.some((each) => each.port === port));
    if (kept.length > 0) admitted.push({ ...target, ports: kept });
  }
  return { admitted, refused };
}

/** The key of what all namespaces use together. */
const ALL = Symbol("all");

/** Existing targets first, then by name. */
function oldFirst(found: readonly FoundTarget[], before: ReadonlyMap<string, unknown>): FoundTarget[] {
  const isNew = ({ name }: FoundTarget) => Number(!before.has(name));
  return found.filter(isRelayed).sort((a, b) => isNew(a) - isNew(b) || (a.name < b.name ? -1 : 1));
}
