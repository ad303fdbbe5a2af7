import type { Reason } from "#hostmap/types.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "../sources/ingress.ts";
import type { RoutingHints, SourceProblem, SourceState } from "../sources/types.ts";
import { targetOfClass } from "./ingress-class.ts";
import { AddressIndex, matchService, type Precedence, servesHttp } from "./match-service.ts";
import type { PublishedTargetNames } from "./published-targets.ts";
import type { TargetLocations, TargetResolver } from "./resolver.ts";
import {
  ConfiguredSelectors,
  isExportedTo,
  type Labels,
  noneSelects,
  notExported,
  selects,
  severalSelect,
} from "./selectors.ts";
import {
  type FoundTarget,
  foundName,
  type RawLoadBalancerService,
  type ServiceView,
  targetOfService,
  viewService,
} from "./service-view.ts";

interface DiscoveryDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly config: Pick<Config, "targets" | "discovery" | "sources">;
  readonly log: Logger;
  /** The targets that had names before; absent: none. */
  readonly published?: PublishedTargetNames;
}

/** Combines changes of several Services, because each change resolves all routing hints again. */
const SETTLE_MS = 20;
const NONE: ReadonlySet<string> = new Set();

/**
 * Discovers targets: the LoadBalancer Service with an object's load balancer address is that object's target, for
 * any name and implementation. In this order:
 *
 *   1. a configured target that lists the class
 *   2. the Service that has the address: the configured target whose upstream it is, else a discovered target
 *   3. the configured target without classes, while it is the only target and its Service exists
 *
 * An object that names the pods that serve it has a configured target whose Service selects them (`#bySelector`).
 */
export class TargetDiscovery implements TargetResolver, TargetLocations {
  readonly discovers = true;
  readonly #deps: DiscoveryDeps;
  readonly #index = new AddressIndex();
  readonly #selectors: ConfiguredSelectors;
  readonly #problems = new Map<string, SourceProblem>();
  /** Discovered targets by name, each with the key of its Service. */
  readonly #found = new Map<string, { readonly key: string; readonly target: FoundTarget }>();
  /** The same by the key of the Service. */
  readonly #nameByService = new Map<string, string>();
  readonly #fallback: Fallback | undefined;
  readonly #reporter = new Reconciler({
    reconcile: () => {
      this.#onChange();
      this.#onDefinition();
      return undefined;
    },
  });
  #services: Informer<ServiceView> | undefined;
  #inUse: ReadonlySet<string> = new Set();
  /** Until it is known which targets are in use: those that were. Undefined: not read yet. */
  #wereInUse: ReadonlySet<string> | undefined;
  #isFirstStart = true;
  #onChange: () => void = () => {};
  #onDefinition: () => void = () => {};

  constructor(deps: DiscoveryDeps) {
    this.#deps = deps;
    this.#selectors = new ConfiguredSelectors(deps);
    const [only] = deps.config.targets;
    if (only !== undefined && deps.config.targets.length === 1 && only.classes.length === 0) {
      this.#fallback = new Fallback(only, deps, () => this.#reporter.enqueue(SETTLE_MS));
    }
  }

  start(onChange: () => void, onSynced: () => void): void {
    const { client, config, log } = this.#deps;
    this.#onChange = onChange;
    let reported = false;
    const syncedToo = () => {
      if (reported || !this.#synced) return;
      reported = true;
      onSynced();
    };
    this.#fallback?.start(syncedToo);
    this.#selectors.start(() => this.#reporter.enqueue(SETTLE_MS), syncedToo);
    const { published } = this.#deps;
    if (published === undefined) this.#wereInUse = NONE;
    else {
      published.start((names) => {
        this.#wereInUse = names;
        this.#isFirstStart = names.size === 0;
        syncedToo();
      });
    }
    this.#services = watchObjects<ServiceView, RawLoadBalancerService>({
      client,
      path: corePath("services"),
      // A Service that changes to another type is reported as deleted.
      fieldSelector: "spec.type=LoadBalancer",
      project: (raw) => viewService(raw, config.discovery.protocol, config.discovery.map),
      onChange: ({ key, after }) => this.#onService(key, after),
      onSynced: syncedToo,
      log,
    });
  }

  get #synced(): boolean {
    const isRead = this.#wereInUse !== undefined && this.#selectors.synced;
    return isRead && this.#services?.state.synced === true && (this.#fallback?.synced ?? true);
  }

  resolve(hints: RoutingHints, incumbent?: string): string | Reason {
    if (hints.selector !== undefined) return this.#bySelector(hints, hints.selector);
    const { targets } = this.#deps.config;
    const byClass = targets.find(({ classes }) => hints.className !== undefined && classes.includes(hints.className));
    if (byClass !== undefined) return byClass.name;
    const service = matchService(hints, this.#index, this.#precedence(incumbent));
    if (!("code" in service)) return this.#targetOf(service);
    if (service.code !== "no-service" && service.code !== "no-address") return service;
    return this.#fallback?.answer(this.#inUse) ?? this.#withClass(hints, service);
  }

  /** The current definition of a discovered target, or undefined if its Service does not exist. */
  found(name: string): FoundTarget | undefined {
    return this.#found.get(name)?.target;
  }

  addressesOf(target: string): readonly string[] {
    const view = this.#viewOf(target);
    return view === undefined || view.proxied ? [] : view.addresses;
  }

  targetAt(address: string): string | undefined {
    const hints = { className: undefined, addresses: [address], admitted: true };
    const service = matchService(hints, this.#index, this.#precedence(undefined));
    if ("code" in service || !servesHttp(service)) return undefined;
    const target = this.#targetOf(service);
    return typeof target === "string" ? target : undefined;
  }

  get isFirstStart(): boolean {
    return this.#isFirstStart;
  }

  mapsAlways(target: string): boolean {
    return this.#viewOf(target)?.map === "always";
  }

  follow(onChange: () => void): void {
    this.#onDefinition = onChange;
  }

  /**
   * The targets that have names. With a discovered one among them, the target without classes is no longer the only
   * one.
   */
  use(names: ReadonlySet<string>): void {
    const alone = this.#isAlone();
    this.#inUse = names;
    if (this.#wereInUse !== undefined) this.#wereInUse = NONE;
    if (alone !== this.#isAlone()) this.#reporter.enqueue(SETTLE_MS);
  }

  /** Configured targets that are active: one without classes only if its Service exists. */
  configured(): readonly TargetConfig[] {
    const { targets } = this.#deps.config;
    return targets.filter((target) => target !== this.#fallback?.target || this.#fallback.exists);
  }

  state(): SourceState[] {
    const services = informerState("services", this.#services);
    const problems = [...services.problems, ...this.#problems.values()];
    const configured = this.#selectors.state();
    return [{ ...services, problems }, ...(this.#fallback?.state() ?? []), ...configured];
  }

  async stop(): Promise<void> {
    await Promise.all([
      this.#deps.published?.stop(),
      this.#reporter.stop(),
      this.#services?.stop(),
      this.#fallback?.stop(),
      this.#selectors.stop(),
    ]);
  }

  /**
   * The configured target whose Service selects the pods that serve an object; of several the one that lists its
   * class. No discovered one is taken: an egress gateway may have a LoadBalancer Service, and tenants can copy labels.
   * A host outside the cluster selects nothing: there the class decides, as for other objects.
   */
  #bySelector({ className, exportedTo }: RoutingHints, selector: Labels): string | Reason {
    const { targets } = this.#deps.config;
    const lists = ({ classes }: TargetConfig) => className !== undefined && classes.includes(className);
    const ofPods = targets.filter(({ name }) => selects(this.#selectors.of(name), selector));
    const selecting = ofPods.filter((target) => isExportedTo(target, exportedTo));
    if (selecting.length < ofPods.length && selecting.length === 0) return notExported(ofPods, exportedTo ?? []);
    const [one, ...others] = selecting.some(lists) ? selecting.filter(lists) : selecting;
    if (one !== undefined) return others.length === 0 ? one.name : severalSelect([one, ...others], selector);
    const outside = targets.find((target) => "host" in target.upstream && lists(target));
    if (outside !== undefined) return outside.name;
    const isOutside = this.#fallback !== undefined && "host" in this.#fallback.target.upstream;
    return (isOutside ? this.#fallback?.answer(this.#inUse) : undefined) ?? noneSelects(selector);
  }

  /** If targets are configured, the reason starts with the class that none of them lists. */
  #withClass({ className }: RoutingHints, reason: Reason): Reason {
    const { targets } = this.#deps.config;
    if (this.#fallback !== undefined || targets.length === 0) return reason;
    const byClass = targetOfClass(className, targets);
    return typeof byClass === "string" ? reason : { ...byClass, text: `${byClass.text}; ${reason.text}` };
  }

  #isAlone(): boolean {
    return this.#fallback?.isAlone(this.#inUse) ?? true;
  }

  #onService(key: string, after: ServiceView | undefined): void {
    this.#problems.delete(key);
    const before = this.#index.get(key);
    let view = after;
    if (after !== undefined && "code" in after.ports) {
      this.#problems.set(key, { place: `Service ${key}`, ...after.ports });
      // A typing error, or a port too many, must not remove working names: what was valid last stays.
      if (before !== undefined) view = { ...after, ports: before.ports, map: before.map };
    }
    this.#index.set(key, view);
    this.#remember(key, view);
    this.#reporter.enqueue(SETTLE_MS);
  }

  #remember(key: string, view: ServiceView | undefined): void {
    const before = this.#nameByService.get(key);
    if (before !== undefined) this.#found.delete(before);
    this.#nameByService.delete(key);
    const target = view === undefined ? undefined : targetOfService(view);
    if (target === undefined || "code" in target || this.#found.has(target.name)) return;
    this.#found.set(target.name, { key, target });
    this.#nameByService.set(key, target.name);
  }

  #precedence(incumbent: string | undefined): Precedence {
    return {
      isOfAnotherClass: (view) => (this.#configuredFor(view)?.classes.length ?? 0) > 0,
      isIncumbent: (view) => this.#nameOf(view) === incumbent,
      isInUse: (view) => this.#inUse.has(this.#nameOf(view)) || this.#wereInUse?.has(this.#nameOf(view)) === true,
    };
  }

  /** The Service of a target, if it is of type LoadBalancer. */
  #viewOf(target: string): ServiceView | undefined {
    const upstream = this.#deps.config.targets.find(({ name }) => name === target)?.upstream;
    if (upstream === undefined) return this.#index.get(this.#found.get(target)?.key ?? "");
    return "service" in upstream
      ? this.#index.get(`${upstream.service.namespace}/${upstream.service.name}`)
      : undefined;
  }

  /** The configured target whose upstream is this Service. */
  #configuredFor({ namespace, name }: ServiceView): TargetConfig | undefined {
    return this.#deps.config.targets.find(
      ({ upstream }) =>
        "service" in upstream && upstream.service.namespace === namespace && upstream.service.name === name,
    );
  }

  #nameOf(view: ServiceView): string {
    return this.#configuredFor(view)?.name ?? foundName(view.namespace, view.name);
  }

  #targetOf(view: ServiceView): string | Reason {
    const { namespace, name } = view;
    const configured = this.#configuredFor(view);
    if (configured !== undefined) return configured.name;
    const target = targetOfService(view);
    if ("code" in target) return target;
    // Tenants choose the names of Services, and a collision of a 48-bit hash can be constructed.
    if (this.#found.get(target.name)?.key === `${namespace}/${name}`) return target.name;
    return { code: "target-name-taken", text: `another Service has the target name ${target.name} already` };
  }
}

/** The configured target without classes. It serves objects without another match, while it is the only target. */
class Fallback {
  readonly target: TargetConfig;
  readonly #deps: DiscoveryDeps;
  readonly #onChange: () => void;
  #informer: Informer<true> | undefined;

  constructor(target: TargetConfig, deps: DiscoveryDeps, onChange: () => void) {
    this.target = target;
    this.#deps = deps;
    this.#onChange = onChange;
  }

  start(onSynced: () => void): void {
    const { upstream } = this.target;
    if (!("service" in upstream)) return;
    const { client, log } = this.#deps;
    this.#informer = watchObjects<true>({
      client,
      path: corePath("services", upstream.service.namespace),
      fieldSelector: `metadata.name=${upstream.service.name}`,
      metadataOnly: true,
      project: () => true,
      onChange: this.#onChange,
      onSynced,
      log,
    });
  }

  get synced(): boolean {
    return this.#informer?.state.synced ?? true;
  }

  /** A host outside the cluster is assumed to exist. */
  get exists(): boolean {
    return this.#informer === undefined || this.#informer.objects().size > 0;
  }

  isAlone(inUse: ReadonlySet<string>): boolean {
    return [...inUse].every((name) => name === this.target.name);
  }

  /** Undefined if it is not the only target. */
  answer(inUse: ReadonlySet<string>): string | Reason | undefined {
    if (!this.isAlone(inUse)) return undefined;
    const { name, upstream } = this.target;
    if (this.exists) return name;
    const where = "service" in upstream ? `${upstream.service.namespace}/${upstream.service.name}` : upstream.host;
    return {
      code: "target-missing",
      text:
        `no load balancer address identifies its target, and the Service ${where} of the target ${name} does not ` +
        "exist",
    };
  }

  state(): SourceState[] {
    return this.#informer === undefined ? [] : [informerState(`service of ${this.target.name}`, this.#informer)];
  }

  async stop(): Promise<void> {
    await this.#informer?.stop();
  }
}
