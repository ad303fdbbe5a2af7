import type { Reason } from "#hostmap/types.ts";
import { MAX_FOUND_PORTS, MAX_FOUND_TARGETS } from "#lib/config/defaults.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { FoundTarget } from "./service-view.ts";

/**
 * Limits of the discovered targets in use: the number of targets, and the number of all their ports. Together with
 * unused targets, which are kept for some time, the limits are doubled. One namespace gets at most half.
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
  const published = new Map(remembered.filter((target) => namespaceOfFound(target) !== undefined).map(byName));
  const quota = new Quota(limits, published.values());
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

/** Existing targets first, then by name. */
function oldFirst(found: readonly FoundTarget[], before: ReadonlyMap<string, unknown>): FoundTarget[] {
  const isNew = ({ name }: FoundTarget) => Number(!before.has(name));
  return found.filter(isRelayed).sort((a, b) => isNew(a) - isNew(b) || (a.name < b.name ? -1 : 1));
}

function byName<T extends { readonly name: string }>(target: T): [string, T] {
  return [target.name, target];
}

function isInUse(published: PublishedTarget | undefined): published is PublishedTarget {
  return published !== undefined && published.unusedSince === undefined;
}

/** How many targets and ports are used: of the targets in use, and of all targets. */
class Quota {
  readonly #inUse: Usage;
  readonly #all: Usage;

  constructor(limits: TargetLimits, published: Iterable<PublishedTarget>) {
    this.#inUse = new Usage(limits);
    this.#all = new Usage({
      maxTargets: Math.min(2 * limits.maxTargets, MAX_FOUND_TARGETS),
      maxPorts: Math.min(2 * limits.maxPorts, MAX_FOUND_PORTS),
    });
    for (const target of published) {
      const amount = { targets: 1, ports: target.ports.length };
      const namespace = namespaceOfFound(target) ?? "";
      this.#all.add(namespace, amount);
      if (isInUse(target)) this.#inUse.add(namespace, amount);
    }
  }

  /**
   * Adds what a target needs beyond what it already has. Returns a reason if that exceeds a limit. A target that is
   * used again already counts among all targets.
   */
  add({ upstream, ports }: FoundTarget, before: PublishedTarget | undefined): Reason | undefined {
    const namespace = "service" in upstream ? upstream.service.namespace : "";
    const whole = { targets: 1, ports: ports.length };
    const further = { targets: 0, ports: Math.max(0, ports.length - (before?.ports.length ?? 0)) };
    const inUse = isInUse(before) ? further : whole;
    const all = before === undefined ? whole : further;
    const reason = this.#inUse.refusal(namespace, inUse) ?? this.#all.refusal(namespace, all);
    if (reason !== undefined) return reason;
    this.#inUse.add(namespace, inUse);
    this.#all.add(namespace, all);
    return undefined;
  }
}

interface Amount {
  readonly targets: number;
  readonly ports: number;
}

const NOTHING: Amount = { targets: 0, ports: 0 };

/** How much of the limits is used, in total and by namespace. */
class Usage {
  readonly #limits: TargetLimits;
  #total = NOTHING;
  readonly #byNamespace = new Map<string, Amount>();

  constructor(limits: TargetLimits) {
    this.#limits = limits;
  }

  add(namespace: string, more: Amount): void {
    this.#total = sumOf(this.#total, more);
    this.#byNamespace.set(namespace, sumOf(this.#of(namespace), more));
  }

  /** Why this amount cannot be added; undefined: it can. */
  refusal(namespace: string, more: Amount): Reason | undefined {
    const { maxTargets, maxPorts } = this.#limits;
    const total = sumOf(this.#total, more);
    const own = sumOf(this.#of(namespace), more);
    if (more.targets > 0 && total.targets > maxTargets) {
      return { code: "too-many-targets", text: `more than ${maxTargets} targets were found (discovery.maxTargets)` };
    }
    if (more.ports > 0 && total.ports > maxPorts) {
      const text = `the discovered targets have more than ${maxPorts} ports in all (discovery.maxPorts)`;
      return { code: "too-many-ports", text };
    }
    const [targets, ports] = [half(maxTargets), half(maxPorts)];
    if ((more.targets > 0 && own.targets > targets) || (more.ports > 0 && own.ports > ports)) {
      const text =
        `the namespace ${namespace} has more than ${targets} targets or ${ports} ports: half of ` +
        "discovery.maxTargets or discovery.maxPorts";
      return { code: "namespace-targets", text };
    }
    return undefined;
  }

  #of(namespace: string): Amount {
    return this.#byNamespace.get(namespace) ?? NOTHING;
  }
}

function sumOf(a: Amount, b: Amount): Amount {
  return { targets: a.targets + b.targets, ports: a.ports + b.ports };
}

function half(limit: number): number {
  return Math.ceil(limit / 2);
}
