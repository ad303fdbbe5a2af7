import type { Reason } from "#hostmap/types.ts";
import { MAX_FOUND_PORTS, MAX_FOUND_TARGETS } from "#lib/config/defaults.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { FoundTarget } from "./service-view.ts";

/**
 * Limits of the discovered targets in use, and of all their ports. Together with unused targets, which are kept for
 * some time, the limits are doubled. One namespace gets at most half.
 */
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
export function namespaceOfFound({ upstream, upstreamIPs }: PublishedTarget): string | undefined {
  if (upstreamIPs === undefined) return undefined;
  const [, , namespace = ""] = SERVICE_HOST.exec(upstream) ?? [];
  return namespace;
}

/**
 * Decides which discovered targets are relayed. Published targets stay, because pods may hold their addresses. Then
 * existing targets get further ports. Then new targets are added in name order. Both end at the limits, and at the
 * share of the namespace.
 */
export function admitTargets(
  found: readonly FoundTarget[],
  remembered: readonly PublishedTarget[],
  limits: TargetLimits,
): AdmittedTargets {
  const ofFound = remembered.filter((target) => namespaceOfFound(target) !== undefined);
  const published = new Map(ofFound.map((target) => [target.name, target]));
  const quota = new Quota(limits, ofFound);
  const admitted: FoundTarget[] = [];
  const refused = new Map<string, Reason>();
  for (const target of oldFirst(found, published)) {
    const before = published.get(target.name);
    const reason = quota.add(target, before);
    if (reason === undefined) {
      admitted.push(target);
      continue;
    }
    refused.set(target.name, reason);
    const had = isInUse(before)
      ? target.ports.filter(({ port }) => before.ports.some((each) => each.port === port))
      : [];
    if (had.length > 0) admitted.push({ ...target, ports: had });
  }
  return { admitted, refused };
}

function isInUse(published: PublishedTarget | undefined): published is PublishedTarget {
  return published !== undefined && published.unusedSince === undefined;
}

/** Existing targets first, then by name. */
function oldFirst(found: readonly FoundTarget[], before: ReadonlyMap<string, unknown>): FoundTarget[] {
  const isNew = ({ name }: FoundTarget) => Number(!before.has(name));
  return found.filter(isRelayed).sort((a, b) => isNew(a) - isNew(b) || (a.name < b.name ? -1 : 1));
}

/** What is used of the limits: by the targets in use, and by all targets. */
class Quota {
  readonly #inUse: Usage;
  readonly #all: Usage;

  constructor({ maxTargets, maxPorts }: TargetLimits, published: readonly PublishedTarget[]) {
    this.#inUse = new Usage(maxTargets, maxPorts);
    this.#all = new Usage(Math.min(2 * maxTargets, MAX_FOUND_TARGETS), Math.min(2 * maxPorts, MAX_FOUND_PORTS));
    for (const target of published) {
      const namespace = namespaceOfFound(target) ?? "";
      this.#all.add(namespace, 1, target.ports.length);
      if (isInUse(target)) this.#inUse.add(namespace, 1, target.ports.length);
    }
  }

  /** Adds what a target needs beyond what it has. Returns a reason if that exceeds a limit. */
  add({ upstream, ports }: FoundTarget, before: PublishedTarget | undefined): Reason | undefined {
    const namespace = "service" in upstream ? upstream.service.namespace : "";
    const further = Math.max(0, ports.length - (before?.ports.length ?? 0));
    const inUse: Amounts = isInUse(before) ? [0, further] : [1, ports.length];
    const all: Amounts = [before === undefined ? 1 : 0, further];
    const reason = this.#inUse.refusal(namespace, ...inUse) ?? this.#all.refusal(namespace, ...all);
    if (reason !== undefined) return reason;
    this.#inUse.add(namespace, ...inUse);
    this.#all.add(namespace, ...all);
    return undefined;
  }
}

/** How much of two limits is used, in total and by namespace. */
class Usage {
  readonly #maxTargets: number;
  readonly #maxPorts: number;
  readonly #all: Amount = { targets: 0, ports: 0 };
  readonly #byNamespace = new Map<string, Amount>();

  constructor(maxTargets: number, maxPorts: number) {
    this.#maxTargets = maxTargets;
    this.#maxPorts = maxPorts;
  }

  add(namespace: string, targets: number, ports: number): void {
    const own = this.#byNamespace.get(namespace) ?? { targets: 0, ports: 0 };
    this.#byNamespace.set(namespace, own);
    for (const amount of [this.#all, own]) {
      amount.targets += targets;
      amount.ports += ports;
    }
  }

  /** Why these cannot be added; undefined: they can. */
  refusal(namespace: string, targets: number, ports: number): Reason | undefined {
    const [maxTargets, maxPorts] = [this.#maxTargets, this.#maxPorts];
    const exceeds = (amount: Amount | undefined, share: number) =>
      (targets > 0 && (amount?.targets ?? 0) + targets > Math.ceil(maxTargets / share)) ||
      (ports > 0 && (amount?.ports ?? 0) + ports > Math.ceil(maxPorts / share));
    const limit = `${maxTargets} targets or ${maxPorts} ports (discovery.maxTargets, discovery.maxPorts)`;
    if (exceeds(this.#all, 1)) return { code: "too-many-targets", text: `it would be more than ${limit}` };
    if (!exceeds(this.#byNamespace.get(namespace), 2)) return undefined;
    return { code: "too-many-targets", text: `the namespace ${namespace} would have more than half of ${limit}` };
  }
}

type Amounts = readonly [targets: number, ports: number];

interface Amount {
  targets: number;
  ports: number;
}
