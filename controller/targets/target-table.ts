import { compareNames, foldCase } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import type { SourceProblem } from "../sources/types.ts";
import { type ConfiguredTarget, configuredTarget, defaultAmong } from "./configured-target.ts";
import { softwareOf } from "./known-software.ts";
import { assumedProtocol } from "./proxy-protocol-annotations.ts";
import {
  canonicalIp,
  type FoundTarget,
  HTTP_PORTS,
  mayHavePort,
  PROXY_NAME_LABEL,
  portOf,
  type RawService,
  type ServiceView,
  targetOfService,
  viewService,
} from "./service-view.ts";
import { lostPorts, withBorrowedPorts } from "./target-ports.ts";

export interface TableConfig extends Pick<Config, "targets" | "discovery"> {
  readonly policy: Pick<Config["policy"], "targets" | "requireAdmitted">;
}

/**
 * The Services of the cluster, and the targets: the configured ones, each with its Service, and those that are
 * discovered. Several Services may have one address, an IP or the host name of a load balancer: k3s' ServiceLB uses the
 * addresses of the nodes, and MetalLB shares addresses on request.
 */
export class TargetTable {
  readonly config: TableConfig;
  /**
   * Whether Services are read. If not, only classes decide. If so, a published target without a definition no longer
   * has a Service.
   */
  readonly discovers: boolean;
  /** The IPs of the nodes, if known. */
  readonly nodes: ReadonlySet<string> | undefined;
  /** The configured target without classes. */
  readonly byDefault: TargetConfig | undefined;
  readonly #services = new Map<string, ServiceView>();
  readonly #problems = new Map<string, SourceProblem>();
  /** The configured targets, by the key of their Service. */
  readonly #behind: ReadonlyMap<string, TargetConfig>;
  /** What follows from the Services. Undefined after a change: it is computed when it is needed next. */
  #derived: Derived | undefined;

  constructor(config: TableConfig, discovers: boolean, nodes?: ReadonlySet<string>) {
    this.config = config;
    this.discovers = discovers;
    this.nodes = nodes;
    this.byDefault = defaultAmong(config.targets);
    this.#behind = new Map(
      config.targets.flatMap((target) =>
        "service" in target.upstream ? [[keyOf(target.upstream.service), target] as const] : [],
      ),
    );
  }

  /**
   * Projects a Service. Undefined if it is not relevant: kube-proxy short-circuits no address of it, and it is not the
   * Service of a configured target. The labels of others matter too, because another Service may have copied them.
   */
  view(raw: RawService): ServiceView | undefined {
    const { discovery } = this.config;
    const isConfigured = this.#behind.has(keyOf({ namespace: "", name: "", ...raw.metadata }));
    const view = viewService(
      raw,
      isConfigured && discovery.detect ? "auto" : assumedProtocol(discovery),
      discovery.map,
    );
    const { name, software, gateway, exposed, foreign } = view;
    if (isConfigured) {
      // Charts append `-controller` to the name of the release.
      const byName = softwareOf({ name }) ?? softwareOf({ name: name.replace(/-controller$/, "") });
      return { ...view, software: software ?? byName?.title };
    }
    return exposed || foreign || software !== undefined || gateway !== undefined ? view : undefined;
  }

  /** Adds or replaces a Service. `after` is undefined if it was deleted, or is no longer relevant. */
  set(key: string, after: ServiceView | undefined): void {
    const before = this.#services.get(key);
    this.#problems.delete(key);
    let view = after;
    if (after !== undefined && "code" in after.ports) {
      this.#problems.set(key, { place: `Service ${key}`, ...after.ports });
      // A typing error, or too many ports, must not remove working names, so the last valid ports stay.
      if (before !== undefined) view = { ...after, ports: before.ports, map: before.map };
    }
    if (view === undefined) this.#services.delete(key);
    else this.#services.set(key, view);
    this.#derived = undefined;
  }

  get(key: string): ServiceView | undefined {
    return this.#services.get(key);
  }

  services(): Iterable<ServiceView> {
    return this.#services.values();
  }

  /** The Services that have an address, in any order. */
  at(address: string): readonly ServiceView[] {
    return this.#known.byAddress.get(canonicalAddress(address)) ?? [];
  }

  problems(): readonly SourceProblem[] {
    return [...this.#problems.values()];
  }

  /** The configured target of this name. */
  named(target: string): TargetConfig | undefined {
    return this.config.targets.find(({ name }) => name === target);
  }

  /** The configured target whose upstream is this Service. */
  behind(view: ServiceView): TargetConfig | undefined {
    return this.#behind.get(keyOf(view));
  }

  /** The Service of a configured target, if it exists. */
  serviceOf({ upstream }: TargetConfig): ServiceView | undefined {
    return "service" in upstream ? this.get(keyOf(upstream.service)) : undefined;
  }

  /** What is not read is assumed to exist. A Service that cannot be a target does not count. */
  exists(target: TargetConfig): boolean {
    if (!this.discovers || "host" in target.upstream) return true;
    return this.serviceOf(target) !== undefined && this.refusalOf(target) === undefined;
  }

  /** Why the Service of a configured target serves nothing, if that is known. */
  refusalOf(target: TargetConfig): Reason | undefined {
    const service = this.serviceOf(target);
    if (service?.foreign !== true) return undefined;
    const text =
      `another service proxy serves the Service ${keyOf(service)} of the target ${target.name} ` +
      `(${PROXY_NAME_LABEL}), so its ClusterIP may lead nowhere`;
    return { code: "target-missing", text };
  }

  /** The active configured targets. A target without classes is active only if its Service exists. */
  configured(): readonly ConfiguredTarget[] {
    return this.#known.active;
  }

  /** The name of the target that a Service is, or would be. */
  nameOf(view: ServiceView): string {
    return this.behind(view)?.name ?? view.target;
  }

  /** The name of the target of a Service, or the reason why it cannot be one. */
  targetOf(view: ServiceView): string | Reason {
    const configured = this.behind(view);
    if (configured !== undefined) return configured.name;
    const target = targetOfService(view);
    if ("code" in target) return target;
    if (this.#known.found.get(target.name) === view) return target.name;
    return { code: "target-name-taken", text: `another Service has the target name ${target.name} already` };
  }

  /** The Service of a target, configured or discovered, if it exists. */
  viewOf(target: string): ServiceView | undefined {
    const configured = this.named(target);
    return configured === undefined ? this.#known.found.get(target) : this.serviceOf(configured);
  }

  /** Whether there is a target of this name. */
  has(target: string): boolean {
    return this.#known.found.has(target) || this.configured().some(({ name }) => name === target);
  }

  /** The current definition of a discovered target; undefined: its Service does not exist. */
  found(name: string): FoundTarget | undefined {
    const view = this.#known.found.get(name);
    const target = view && targetOfService(view);
    if (view === undefined || target === undefined || "code" in target) return undefined;
    return withBorrowedPorts(target, view, (port) => this.#lenderOf(view, port));
  }

  /** The IP addresses at which kube-proxy leads to a target. Empty: its load balancer has none, or none is known. */
  addressesOf(target: string): readonly string[] {
    return this.viewOf(target)?.addresses ?? [];
  }

  /** Those of them that no load balancer has. Any user who may write `externalIPs` chooses them. */
  externalIPsOf(target: string): readonly string[] {
    const { addresses = [], assigned = [] } = this.viewOf(target) ?? {};
    return addresses.filter((address) => !assigned.includes(address));
  }

  /** The target whose load balancer has an IP address, on a port of HTTP or HTTPS. `externalIPs` do not count. */
  targetAt(address: string): string | undefined {
    const ip = canonicalAddress(address);
    const there = this.at(ip).filter((view) => view.assigned.includes(ip) && mayHavePort(view, HTTP_PORTS));
    const service = oldestOf(preferred(there, (view) => !this.isOfClasses(view)));
    const target = service && this.targetOf(service);
    return typeof target === "string" ? target : undefined;
  }

  /** Whether the configured target of a Service serves only the classes that it lists. */
  isOfClasses(view: ServiceView): boolean {
    return (this.behind(view)?.classes.length ?? 0) > 0;
  }

  /** Whether the names of its Service are always mapped (`map: always`). */
  mapsAlways(target: string): boolean {
    return this.viewOf(target)?.map === "always";
  }

  /** A problem of a target for an object that is served on these ports. Default: the ports of HTTP and HTTPS. */
  warningOf(target: string, ports?: readonly number[]): Reason | undefined {
    const definition = this.named(target) ?? this.found(target);
    return definition && lostPorts(definition, ports);
  }

  /** The oldest Service with the port at the first address that has one, before those that only chose the address. */
  #lenderOf(view: ServiceView, port: number): ServiceView | undefined {
    const candidatesAt = (address: string) =>
      this.at(address).filter((one) => portOf(one, port) !== undefined && one.addresses.includes(address));
    const candidates = view.addresses.map(candidatesAt).find(({ length }) => length > 0) ?? [];
    const isAssigned = ({ assigned }: ServiceView) => view.addresses.some((address) => assigned.includes(address));
    return oldestOf(preferred(candidates, isAssigned));
  }

  get #known(): Derived {
    this.#derived ??= this.#derive();
    return this.#derived;
  }

  #derive(): Derived {
    const { targets, discovery } = this.config;
    const byAddress = new Map<string, ServiceView[]>();
    const found = new Map<string, ServiceView>();
    for (const view of this.services()) {
      for (const address of new Set(allAddressesOf(view))) getOrAdd(byAddress, address, () => []).push(view);
      // The first Service with a name has it. Tenants choose names, and can construct a collision of a 48-bit hash.
      if (view.exposed && !("code" in targetOfService(view))) getOrAdd(found, view.target, () => view);
    }
    const active = targets
      .filter((target) => target !== this.byDefault || this.exists(target))
      .map((target) => configuredTarget(target, discovery, this.serviceOf(target)));
    return { byAddress, found, active };
  }
}

interface Derived {
  readonly byAddress: ReadonlyMap<string, readonly ServiceView[]>;
  /** The Services of discovered targets, by the name of the target. */
  readonly found: ReadonlyMap<string, ServiceView>;
  /** The active configured targets. */
  readonly active: readonly ConfiguredTarget[];
}

/** All addresses of a Service, short-circuited or not, in the form of `canonicalAddress`. */
export function allAddressesOf(view: ServiceView | undefined): string[] {
  return view === undefined ? [] : [...view.addresses, ...view.leftAlone, ...view.hostnames.map(foldCase)];
}

/** Normalizes an address. Host names are compared without regard to case. */
export function canonicalAddress(address: string): string {
  return canonicalIp(foldCase(address));
}

/** The key of a Service. */
export function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}

/** Those that pass the test. If none does, all of them. */
export function preferred<Item>(all: readonly Item[], test: (item: Item) => boolean): readonly Item[] {
  const some = all.filter(test);
  return some.length > 0 ? some : all;
}

/** The oldest Service, found in one pass, because a tenant can add many Services. */
export function oldestOf(services: readonly ServiceView[]): ServiceView | undefined {
  const isOlder = (one: ServiceView, other: ServiceView) =>
    (compareNames(one.created, other.created) || compareNames(keyOf(one), keyOf(other))) < 0;
  return services.reduce<ServiceView | undefined>(
    (oldest, one) => (oldest === undefined || isOlder(one, oldest) ? one : oldest),
    undefined,
  );
}
