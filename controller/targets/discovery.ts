import type { Reason } from "#hostmap/types.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "../sources/ingress-hosts.ts";
import type { RoutingHints, SourceProblem, SourceState } from "../sources/types.ts";
import { AddressTable, allAddressesOf, canonicalAddress, keyOf } from "./address-table.ts";
import { BorrowedPorts } from "./borrowed-ports.ts";
import { type ConfiguredTarget, ConfiguredTargets } from "./configured-target.ts";
import { resolveDefault, targetMissing } from "./default-target.ts";
import { targetOfClass } from "./ingress-class.ts";
import { insideCluster } from "./inside-cluster.ts";
import { softwareByName } from "./known-software.ts";
import { lostPorts } from "./lost-ports.ts";
import { matchService, type Precedence, UNKNOWN_ADDRESS, whetherShortCircuited } from "./match-service.ts";
import { isOnlyMissing, type LackingEvidence, mayBeLacking } from "./missing-evidence.ts";
import { nodeAddress } from "./node-address.ts";
import { assumedProtocol } from "./proxy-protocol-annotations.ts";
import type { PublishedTargetNames } from "./published-targets.ts";
import type { TargetLocations, TargetResolver } from "./resolver.ts";
import { isExportedTo, type Labels, noneSelects, notExported, selects, severalSelect } from "./selectors.ts";
import { ServedClasses } from "./served-classes.ts";
import { isReached, type KnownServices, serviceOfClass } from "./service-of-controller.ts";
import {
  type FoundTarget,
  foundName,
  HTTP_PORTS,
  isExposed,
  isForeign,
  isLabelled,
  mayHavePort,
  type RawService,
  type ServiceView,
  targetOfService,
  viewService,
} from "./service-view.ts";
import { TargetsInUse } from "./targets-in-use.ts";

interface DiscoveryDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly config: Pick<Config, "targets" | "discovery">;
  readonly log: Logger;
  /** The targets that had names before this start; absent: none. */
  readonly published?: PublishedTargetNames;
  /** The IPs of the nodes, if known. */
  readonly nodes?: ReadonlySet<string> | undefined;
}

/** Combines changes of several Services, because each change resolves all routing hints again. */
const SETTLE_MS = 20;

/**
 * Discovers targets: finds the Service that serves an object, by evidence. The order of precedence is:
 *
 *   1. a configured target that lists the class
 *   2. the Service that has an address of the object's status: the configured target whose upstream it is, else a
 *      discovered target
 *   3. the only Service of the controller that the object names (`service-of-controller.ts`)
 *   4. the configured target without classes, unless there is evidence of another controller (`default-target.ts`)
 *
 * An object may name the pods that serve it. Then it gets the configured target whose Service selects these pods
 * (`#bySelector`).
 */
export class TargetDiscovery implements TargetResolver, TargetLocations {
  readonly discovers = true;
  readonly #deps: DiscoveryDeps;
  readonly #table = new AddressTable();
  readonly #configured: ConfiguredTargets;
  readonly #borrowed = new BorrowedPorts(this.#table);
  readonly #problems = new Map<string, SourceProblem>();
  /** Discovered targets by name, each with the key of its Service. */
  readonly #found = new Map<string, { readonly key: string; readonly target: FoundTarget }>();
  /** Target names by the key of the Service. */
  readonly #nameByService = new Map<string, string>();
  readonly #reporter = new Reconciler({
    reconcile: () => {
      this.#borrowed.reset();
      this.#served.beginPass();
      this.#onChange();
      this.#onDefinition();
      if (this.#served.isOutdated) this.#reporter.enqueue();
      return undefined;
    },
  });
  readonly #definitions = new Reconciler({
    reconcile: () => {
      this.#onDefinition();
      return undefined;
    },
  });
  #services: Informer<ServiceView> | undefined;
  readonly #inUse = new TargetsInUse();
  readonly #served = new ServedClasses();
  #isFirstStart = true;
  #onChange: () => void = () => {};
  #onDefinition: () => void = () => {};

  constructor(deps: DiscoveryDeps) {
    this.#deps = deps;
    this.#configured = new ConfiguredTargets(deps.config, this.#table);
  }

  start(onChange: () => void, onSynced: () => void): void {
    const { client, log, published } = this.#deps;
    this.#onChange = onChange;
    let reported = false;
    const syncedToo = () => {
      if (reported || !this.#synced) return;
      reported = true;
      onSynced();
    };
    if (published === undefined) this.#inUse.begin();
    else {
      published.start((names) => {
        this.#inUse.begin(names);
        this.#isFirstStart = names.size === 0;
        syncedToo();
      });
    }
    this.#services = watchObjects<ServiceView, RawService>({
      client,
      path: corePath("services"),
      // Services of any type may have externalIPs, and no field selector can find those.
      project: (raw) => this.#view(raw),
      onChange: ({ key, after }) => this.#onService(key, after),
      onSynced: syncedToo,
      log,
    });
  }

  get #synced(): boolean {
    return this.#inUse.isRead && this.#services?.state.synced === true;
  }

  resolve(hints: RoutingHints, incumbent?: string): string | Reason {
    if (hints.selector !== undefined) return this.#bySelector(hints, hints.selector);
    const { targets } = this.#deps.config;
    const byClass = targets.find(({ classes }) => hints.className !== undefined && classes.includes(hints.className));
    if (byClass !== undefined) return this.#configured.refusalOf(byClass) ?? byClass.name;
    const inside = insideCluster(hints, this.#table);
    if (inside !== undefined) return inside;
    const precedence = this.#precedence(hints.addresses, incumbent);
    const found = matchService(hints, this.#table, precedence);
    if (!("code" in found)) return this.#noted(found, hints);
    if (hints.service !== undefined || !mayBeLacking(found)) return found;
    const known = this.#known(hints, precedence);
    const ofClass = serviceOfClass(hints, this.#table, known);
    const service = ofClass !== undefined && "code" in ofClass ? undefined : ofClass;
    if (!UNKNOWN_ADDRESS.has(found.code)) return this.#lacking(found, hints, service);
    if (ofClass !== undefined && "code" in ofClass) return this.#lacking(ofClass, hints);
    if (service !== undefined && isReached(service, hints, known)) return this.#noted(service, hints);
    return this.#lacking(this.#withoutService(hints, found), hints, service);
  }

  /**
   * A configured target serves every object that chooses it. A discovered target must also be short-circuited by
   * kube-proxy.
   */
  named(target: string, hints: RoutingHints): string | Reason | undefined {
    const configured = this.#configured.named(target);
    if (configured !== undefined) {
      if (configured === this.#configured.byDefault && !this.#configured.exists(configured))
        return targetMissing(configured);
      return this.#configured.refusalOf(configured) ?? configured.name;
    }
    const view = this.#viewOf(target);
    if (view === undefined) return undefined;
    const reached = whetherShortCircuited(view, allAddressesOf(view));
    return "code" in reached ? reached : this.#targetOf(view, hints);
  }

  /** The current definition of a discovered target; undefined: its Service does not exist. */
  found(name: string): FoundTarget | undefined {
    const found = this.#found.get(name);
    const view = found === undefined ? undefined : this.#table.get(found.key);
    return found === undefined || view === undefined ? undefined : this.#borrowed.complete(found.target, view);
  }

  addressesOf(target: string): readonly string[] {
    return this.#viewOf(target)?.addresses ?? [];
  }

  externalIPsOf(target: string): readonly string[] {
    const { addresses = [], assigned = [] } = this.#viewOf(target) ?? {};
    return addresses.filter((address) => !assigned.includes(address));
  }

  targetAt(address: string): string | undefined {
    const hints = { className: undefined, addresses: [address], admitted: true };
    const isAssigned = ({ assigned }: ServiceView) => assigned.includes(canonicalAddress(address));
    const precedence = this.#precedence([address], undefined);
    const service = matchService(hints, this.#table, {
      ...precedence,
      isOfAnotherClass: (view) => !isAssigned(view) || precedence.isOfAnotherClass(view),
    });
    if ("code" in service || !isAssigned(service) || !mayHavePort(service, HTTP_PORTS)) return undefined;
    const target = this.#targetOf(service, hints);
    return typeof target === "string" ? target : undefined;
  }

  get isFirstStart(): boolean {
    return this.#isFirstStart;
  }

  mapsAlways(target: string): boolean {
    return this.#viewOf(target)?.map === "always";
  }

  warningOf(target: string, ports?: readonly number[]): Reason | undefined {
    const configured = this.#configured.named(target);
    if (configured !== undefined) return lostPorts(configured, this.#configured.serviceOf(configured), ports);
    const found = this.found(target);
    return found && lostPorts(found, undefined, ports);
  }

  mayKeep(target: string, hints: RoutingHints, reason: Reason): boolean {
    const isThere = this.#found.has(target) || this.configured().some(({ name }) => name === target);
    return isThere && isOnlyMissing(reason, hints, this.#viewOf(target));
  }

  follow(onChange: () => void): void {
    this.#onDefinition = onChange;
  }

  /** Sets the targets that have names. */
  use(names: ReadonlySet<string>): void {
    this.#inUse.use(names);
  }

  /** The active configured targets. A target without classes is active only if its Service exists. */
  configured(): readonly ConfiguredTarget[] {
    return this.#configured.active();
  }

  state(): SourceState[] {
    const services = informerState("services", this.#services);
    return [{ ...services, problems: [...services.problems, ...this.#problems.values()] }];
  }

  async stop(): Promise<void> {
    await Promise.all([
      this.#deps.published?.stop(),
      this.#reporter.stop(),
      this.#definitions.stop(),
      this.#services?.stop(),
    ]);
  }

  /**
   * The configured target whose Service selects the pods that serve an object. If there are several, the one that
   * lists the object's class wins. Discovered targets do not count: an egress gateway may have a LoadBalancer
   * Service, and tenants can copy labels. A host outside the cluster selects nothing, so for it the class decides, as
   * for other objects.
   */
  #bySelector(hints: RoutingHints, selector: Labels): string | Reason {
    const { className, exportedTo } = hints;
    const { targets } = this.#deps.config;
    const lists = ({ classes }: TargetConfig) => className !== undefined && classes.includes(className);
    const ofPods = targets.filter((target) => selects(this.#configured.serviceOf(target)?.selector, selector));
    const selecting = ofPods.filter((target) => isExportedTo(target, exportedTo));
    if (selecting.length < ofPods.length && selecting.length === 0) return notExported(ofPods, exportedTo ?? []);
    const [one, ...others] = selecting.some(lists) ? selecting.filter(lists) : selecting;
    if (one !== undefined && others.length > 0) return severalSelect([one, ...others], selector);
    if (one !== undefined) return this.#configured.refusalOf(one) ?? one.name;
    const outside = targets.find((target) => "host" in target.upstream && lists(target));
    if (outside !== undefined) return outside.name;
    const { byDefault } = this.#configured;
    if (byDefault === undefined || "service" in byDefault.upstream) return noneSelects(selector);
    return this.#byDefault(hints, byDefault);
  }

  /** The target of an object without a Service. `reason`: why no Service was found. */
  #withoutService(hints: RoutingHints, reason: Reason): string | Reason {
    const { byDefault } = this.#configured;
    const isThere = byDefault !== undefined && this.#configured.exists(byDefault);
    const last = isThere ? this.#byDefault(hints, byDefault) : this.#withClass(hints, reason);
    return typeof last === "string" ? last : (nodeAddress(hints.addresses, this.#deps.nodes) ?? last);
  }

  #byDefault(hints: RoutingHints, target: TargetConfig): string | Reason {
    const view = this.#configured.serviceOf(target);
    if (view !== undefined && view.hostnames.length + view.leftAlone.length > 0) {
      const reached = whetherShortCircuited(view, allAddressesOf(view));
      if ("code" in reached) return reached;
    }
    return resolveDefault(hints, { target, software: view?.software, readsAddresses: true });
  }

  /** If targets are configured, the reason starts with the class that no target lists. */
  #withClass({ className }: RoutingHints, reason: Reason): Reason {
    const { targets } = this.#deps.config;
    if (targets.length === 0 || this.#configured.byDefault !== undefined) return reason;
    const byClass = targetOfClass(className, targets);
    return typeof byClass === "string" ? reason : { ...byClass, text: `${byClass.text}; ${reason.text}` };
  }

  #precedence(addresses: readonly string[], incumbent: string | undefined): Precedence {
    const own = addresses.map(canonicalAddress);
    return {
      isOfAnotherClass: (view) => (this.#configured.behind(keyOf(view))?.classes.length ?? 0) > 0,
      isIncumbent: (view) => this.#nameOf(view) === incumbent,
      isInUse: (view) => this.#inUse.serves(this.#nameOf(view), view, own),
    };
  }

  /** The Service of a target, if it exists. */
  #viewOf(target: string): ServiceView | undefined {
    const configured = this.#configured.named(target);
    return configured === undefined
      ? this.#table.get(this.#found.get(target)?.key ?? "")
      : this.#configured.serviceOf(configured);
  }

  /** What is known about Services beyond their labels, for the class of an object. */
  #known(hints: RoutingHints, { isIncumbent }: Precedence): KnownServices {
    return {
      isIncumbent,
      isServing: (view) => this.#served.has(hints, this.#nameOf(view)),
      isConfigured: (view) => this.#configured.behind(keyOf(view)) !== undefined,
    };
  }

  /** The target of a Service that serves an object. Its status is evidence for other objects of the same class. */
  #noted(view: ServiceView, hints: RoutingHints): string | Reason {
    const target = this.#targetOf(view, hints);
    if (hints.service !== undefined || typeof target !== "string") return target;
    this.#inUse.note(target, view, hints.addresses);
    if (this.#served.note(hints, target, view)) this.#reporter.enqueue();
    return target;
  }

  /** If only evidence is missing, adds the target of the Service that the class of the object leads to. */
  #lacking(answer: string | Reason, hints: RoutingHints, service?: ServiceView): string | LackingEvidence | Reason {
    if (typeof answer === "string" || !mayBeLacking(answer)) return answer;
    const byClass = service && this.#targetOf(service, hints);
    return { ...answer, byClass: typeof byClass === "string" ? byClass : undefined };
  }

  /** Undefined if the Service is not relevant. */
  #view(raw: RawService): ServiceView | undefined {
    const isConfigured = this.#configured.behind(keyOf(nameOf(raw))) !== undefined;
    // The labels of a Service without a public address matter too: another Service may have copied them.
    const counts = isConfigured || isExposed(raw) || isForeign(raw) || isLabelled(raw);
    if (!counts) return undefined;
    const { discovery } = this.#deps.config;
    const fallback = isConfigured && discovery.detect ? "auto" : assumedProtocol(discovery);
    const view = viewService(raw, fallback, discovery.map);
    return isConfigured && view.software === undefined ? { ...view, software: softwareByName(view.name) } : view;
  }

  #onService(key: string, after: ServiceView | undefined): void {
    this.#problems.delete(key);
    const before = this.#table.get(key);
    let view = after;
    if (after !== undefined && "code" in after.ports) {
      this.#problems.set(key, { place: `Service ${key}`, ...after.ports });
      // A typing error, or too many ports, must not remove working names, so the last valid ports stay.
      if (before !== undefined) view = { ...after, ports: before.ports, map: before.map };
    }
    this.#table.set(key, view);
    this.#configured.changed(key);
    this.#remember(key, view);
    this.#reporter.enqueue(SETTLE_MS);
  }

  #remember(key: string, view: ServiceView | undefined): void {
    const before = this.#nameByService.get(key);
    if (before !== undefined) this.#found.delete(before);
    this.#nameByService.delete(key);
    const target = view?.exposed ? targetOfService(view) : undefined;
    if (target === undefined || "code" in target || this.#found.has(target.name)) return;
    this.#found.set(target.name, { key, target });
    this.#nameByService.set(key, target.name);
  }

  #nameOf(view: ServiceView): string {
    const key = keyOf(view);
    return this.#configured.behind(key)?.name ?? this.#nameByService.get(key) ?? foundName(view.namespace, view.name);
  }

  #targetOf(view: ServiceView, { ports }: RoutingHints): string | Reason {
    const configured = this.#configured.behind(keyOf(view));
    if (configured !== undefined) return configured.name;
    const target = targetOfService(view);
    if ("code" in target) return target;
    // Tenants choose the names of Services, and a collision of a 48-bit hash can be constructed.
    if (this.#found.get(target.name)?.key !== keyOf(view)) {
      return { code: "target-name-taken", text: `another Service has the target name ${target.name} already` };
    }
    if (this.#borrowed.want(target.name, view, ports)) this.#definitions.enqueue(SETTLE_MS);
    return target.name;
  }
}

function nameOf({ metadata }: RawService): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" };
}
