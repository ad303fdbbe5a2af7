import { isIP } from "node:net";
import { foldCase } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type RawService, readService } from "#lib/kube/services.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { softwareOf } from "../sources/known-software.ts";
import { informerState, type SourceState } from "../sources/types.ts";
import {
  allAddressesOf,
  canonicalAddress,
  firstOf,
  HTTP_PORTS,
  hasPort,
  isOfClasses,
  keyOf,
  nameOf,
  PROXY_NAME_LABEL,
  portOf,
  preferred,
  type ServiceView,
  viewService,
} from "./service-view.ts";
import { configuredTarget, lostPorts, type Target, targetOfService, withBorrowedPorts } from "./target.ts";

interface TableDeps {
  /** Undefined: no Service is read, so that only classes decide. */
  readonly client?: Pick<KubeClient, "get" | "stream"> | undefined;
  readonly config: Pick<Config, "targets" | "discovery"> & {
    readonly policy: Pick<Config["policy"], "targets" | "requireAdmitted">;
  };
  readonly log: Logger;
  /** The cluster's DNS domain. Default: `cluster.local`. */
  readonly clusterDomain?: string | undefined;
  /** The IPs of the nodes, if known. */
  readonly nodes?: ReadonlySet<string> | undefined;
}

/** What is kept of a Service that is not relevant for targets: that it exists. */
const OTHER = "other";
/** Combines changes of several Services, because each change resolves all routing hints again. */
const SETTLE_MS = 20;

/**
 * The Services of the cluster, and the targets: the configured ones, each with its Service, and those that are
 * discovered. Several Services may have one address, an IP or the host name of a load balancer: k3s' ServiceLB uses the
 * addresses of the nodes, and MetalLB shares addresses on request.
 */
export class TargetTable {
  readonly #deps: TableDeps;
  readonly config: TableDeps["config"];
  readonly nodes: TableDeps["nodes"];
  /**
   * Whether Services are read. If not, only classes decide. If so, a published target without a definition no longer
   * has a Service.
   */
  readonly discovers: boolean;
  /** The configured target without classes. The checks of the configuration ensure that it is the only target. */
  readonly byDefault: TargetConfig | undefined;
  readonly #services = new Map<string, ServiceView>();
  /** The Services, by the key `namespace/name`. */
  readonly services: ReadonlyMap<string, ServiceView> = this.#services;
  /** What follows from the Services. Undefined after a change: it is computed when it is needed next. */
  #derived: Derived | undefined;
  readonly #listeners: (() => void)[] = [];
  #onDeleted: () => void = () => {};
  readonly #reporter = new Reconciler({
    reconcile: () => {
      for (const listener of this.#listeners) listener();
      return undefined;
    },
  });
  #watch: Informer<ServiceView | typeof OTHER> | undefined;

  constructor(deps: TableDeps) {
    this.#deps = deps;
    this.config = deps.config;
    this.nodes = deps.nodes;
    this.discovers = deps.client !== undefined;
    this.byDefault = deps.config.targets.find(({ classes }) => classes.length === 0);
  }

  /**
   * `onChange` is called when hints have to be resolved again, and definitions may have changed. `onSynced` is called
   * once, when answers are valid. Before that, "no target" has no meaning.
   */
  start(onChange: () => void, onSynced: () => void): void {
    const { client, log } = this.#deps;
    this.follow(onChange);
    if (client === undefined) {
      onSynced();
      return;
    }
    this.#watch = watchObjects<ServiceView | typeof OTHER>({
      client,
      path: corePath("services"),
      // Services of any type may have externalIPs, and no field selector can find those.
      project: (raw) => this.view(readService(raw)) ?? OTHER,
      onChange: ({ key, before = OTHER, after }) => {
        if (after === undefined) this.#onDeleted();
        if (before === OTHER && (after ?? OTHER) === OTHER) return;
        this.set(key, after === OTHER ? undefined : after);
        this.#reporter.enqueue(SETTLE_MS);
      },
      onSynced,
      log,
    });
  }

  /** `onChange` is called when a definition may have changed. */
  follow(onChange: () => void): void {
    this.#listeners.push(onChange);
  }

  /** Whether a Service exists, relevant or not, by the key `namespace/name`. */
  hasService(key: string): boolean {
    return this.#watch?.objects().has(key) === true;
  }

  /** `onDeleted` is called for each Service that is deleted, relevant or not. */
  followDeleted(onDeleted: () => void): void {
    this.#onDeleted = onDeleted;
  }

  get synced(): boolean {
    return !this.discovers || this.#watch?.state.synced === true;
  }

  state(): SourceState[] {
    if (!this.discovers) return [];
    const services = informerState("services", this.#watch);
    const flaws = [...this.services].flatMap(([key, { flaw }]) => (flaw ? { place: `Service ${key}`, ...flaw } : []));
    return [{ ...services, problems: [...services.problems, ...flaws] }];
  }

  async stop(): Promise<void> {
    await Promise.all([this.#reporter.stop(), this.#watch?.stop()]);
  }

  /**
   * Projects a Service. Undefined if it is not relevant: kube-proxy short-circuits no address of it, and it is not the
   * Service of a configured target. The labels of others matter too, because another Service may have copied them.
   */
  view(raw: RawService): ServiceView | undefined {
    const { detect, protocol, map } = this.config.discovery;
    const key = keyOf(raw.metadata ?? {});
    const isUpstream = ({ upstream }: TargetConfig) => "service" in upstream && keyOf(upstream.service) === key;
    const configured = this.config.targets.findLast(isUpstream);
    // With `auto`, the ingress controller is asked about ports without an annotation.
    const assumed = protocol === "auto" && !detect ? "v1" : protocol;
    const view = viewService(raw, configured && detect ? "auto" : assumed, map);
    const { name, software, gateway, exposed, foreign } = view;
    if (configured === undefined)
      return exposed || foreign || software !== undefined || gateway !== undefined ? view : undefined;
    // Charts append `-controller` to the name of the release.
    const byName = softwareOf({ name }) ?? softwareOf({ name: name.replace(/-controller$/, "") });
    return { ...view, configured, software: software ?? byName?.title };
  }

  /** Adds or replaces a Service. `after` is undefined if it was deleted, or is no longer relevant. */
  set(key: string, after: ServiceView | undefined): void {
    if (after === undefined) this.#services.delete(key);
    else this.#services.set(key, after);
    this.#derived = undefined;
  }

  /** The Services that have an address, in any order. */
  at(address: string): readonly ServiceView[] {
    return this.#known.byAddress.get(canonicalAddress(address)) ?? [];
  }

  /** Whether an address is the DNS name of a Service: `*.svc`, or `*.svc` with the cluster's domain. */
  isServiceName(address: string): boolean {
    const { clusterDomain = "cluster.local" } = this.#deps;
    const [name = "", domain] = [address, clusterDomain].map((one) => foldCase(one).replace(/\.$/, ""));
    return isIP(address) === 0 && [".svc", `.svc.${domain}`].some((end) => name.endsWith(end));
  }

  /** The configured target of this name. */
  named(target: string): TargetConfig | undefined {
    return this.config.targets.find(({ name }) => name === target);
  }

  /** The Service of a configured target, if it exists. */
  serviceOf({ upstream }: TargetConfig): ServiceView | undefined {
    return "service" in upstream ? this.services.get(keyOf(upstream.service)) : undefined;
  }

  /**
   * Why the Service of a configured target serves nothing, if that is known. The target without classes is a guess, so
   * its Service must exist. What is not read is assumed to exist.
   */
  refusalOf(target: TargetConfig): Reason | undefined {
    if (!this.discovers || "host" in target.upstream) return undefined;
    const service = this.serviceOf(target);
    const key = keyOf(target.upstream.service);
    const code = "target-missing";
    if (service === undefined && target === this.byDefault)
      return { code, text: `the Service ${key} of the target ${target.name} does not exist` };
    if (service?.foreign !== true) return undefined;
    const text =
      `another service proxy serves the Service ${key} of the target ${target.name} ` +
      `(${PROXY_NAME_LABEL}), so its ClusterIP may lead nowhere`;
    return { code, text };
  }

  /** The active configured targets. A target without classes is active only if its Service exists. */
  configured(): readonly Target[] {
    return this.#known.configured;
  }

  /** The name of the target of a Service, or the reason why it cannot be one. */
  targetOf(view: ServiceView): string | Reason {
    const target = view.configured ?? targetOfService(view);
    if ("code" in target) return target;
    if (view.configured !== undefined || this.viewOf(target.name) === view) return target.name;
    return { code: "target-name-taken", text: `another Service has the target name ${target.name} already` };
  }

  /** The Service of a target, configured or discovered, if it exists. */
  viewOf(target: string): ServiceView | undefined {
    return this.#known.targets.get(target);
  }

  /** Whether there is a target of this name. */
  has(target: string): boolean {
    return this.#known.targets.has(target);
  }

  /** The current definition of a discovered target; undefined: its Service does not exist. */
  found(name: string): Target | undefined {
    const view = this.viewOf(name);
    const target = view && targetOfService(view);
    if (view === undefined || target === undefined || "code" in target || target.name !== name) return undefined;
    return withBorrowedPorts(target, (port) => this.#lenderOf(view, port));
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

  /** The target whose load balancer has an IP, on a port of HTTP; `current` before others. Without `externalIPs`. */
  targetAt(address: string, current?: string): string | undefined {
    const ip = canonicalAddress(address);
    const there = this.at(ip).filter((view) => view.assigned.includes(ip) && hasPort(view, HTTP_PORTS));
    const able = preferred(there, (view) => !isOfClasses(view));
    const service = there.find((view) => nameOf(view) === current) ?? firstOf(able, [ip]);
    const target = service && this.targetOf(service);
    return typeof target === "string" ? target : undefined;
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

  /** The first Service with the port at the first address that has one. */
  #lenderOf(view: ServiceView, port: number): ServiceView | undefined {
    const candidatesAt = (address: string) =>
      this.at(address).filter((one) => portOf(one, port) !== undefined && one.addresses.includes(address));
    const candidates = view.addresses.map(candidatesAt).find(({ length }) => length > 0) ?? [];
    return firstOf(candidates, view.addresses);
  }

  get #known(): Derived {
    this.#derived ??= this.#derive();
    return this.#derived;
  }

  #derive(): Derived {
    const { targets, discovery } = this.config;
    const active = targets.filter((target) => target !== this.byDefault || this.refusalOf(target) === undefined);
    const byName = new Map(active.map((target) => [target.name, this.serviceOf(target)]));
    const byAddress = new Map<string, ServiceView[]>();
    for (const view of this.services.values()) {
      for (const address of new Set(allAddressesOf(view))) getOrAdd(byAddress, address, () => []).push(view);
      // The first Service with a name has it. Tenants choose names, and can construct a collision of a 48-bit hash.
      if (view.exposed && !("code" in targetOfService(view)) && !byName.has(view.target)) byName.set(view.target, view);
    }
    const configured = active.map((target) => configuredTarget(target, discovery, this.serviceOf(target)));
    return { byAddress, targets: byName, configured };
  }
}

/** Where kube-proxy leads. The answers of DNS are compared with this. */
export type TargetLocations = Pick<
  TargetTable,
  "has" | "addressesOf" | "externalIPsOf" | "targetAt" | "mapsAlways" | "warningOf"
>;

interface Derived {
  readonly byAddress: ReadonlyMap<string, readonly ServiceView[]>;
  /** The Services of the targets, by the name of the target. Undefined: that of a configured target is missing. */
  readonly targets: ReadonlyMap<string, ServiceView | undefined>;
  /** The active configured targets. */
  readonly configured: readonly Target[];
}
