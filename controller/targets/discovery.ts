import type { Reason } from "#hostmap/types.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "../sources/followed-kind.ts";
import type { RoutingHints, SourceProblem, SourceState } from "../sources/types.ts";
import { AddressTable, allAddressesOf, canonicalAddress, keyOf } from "./address-table.ts";
import { withBorrowedPorts } from "./borrowed-ports.ts";
import { type ConfiguredTarget, ConfiguredTargets } from "./configured-target.ts";
import { resolveDefault, targetMissing } from "./default-target.ts";
import { noTargetOf } from "./ingress-class.ts";
import { insideCluster } from "./inside-cluster.ts";
import { softwareByName } from "./known-software.ts";
import { lostPorts } from "./lost-ports.ts";
import { type KnownServices, matchService, UNKNOWN_ADDRESS, whetherShortCircuited } from "./match-service.ts";
import { isOnlyMissing, type LackingEvidence, mayBeLacking } from "./missing-evidence.ts";
import { nodeAddress } from "./node-address.ts";
import { assumedProtocol } from "./proxy-protocol-annotations.ts";
import type { TargetLocations, TargetResolver } from "./resolver.ts";
import { bySelector, type Labels } from "./selectors.ts";
import { ServedClasses } from "./served-classes.ts";
import { isReached, serviceOfClass } from "./service-of-controller.ts";
import {
  type FoundTarget,
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

interface DiscoveryDeps {
  /** Undefined: no Service is read, so that only classes decide. */
  readonly client?: Pick<KubeClient, "get" | "stream"> | undefined;
  readonly config: Pick<Config, "targets" | "discovery">;
  readonly log: Logger;
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
 * (`selectors.ts`).
 */
export class TargetDiscovery implements TargetResolver, TargetLocations {
  readonly discovers: boolean;
  readonly #deps: DiscoveryDeps;
  readonly #table = new AddressTable();
  readonly #configured: ConfiguredTargets;
  readonly #problems = new Map<string, SourceProblem>();
  /** Discovered targets: the key of the Service, by name. */
  readonly #found = new Map<string, string>();
  readonly #reporter = new Reconciler({
    reconcile: () => {
      this.#served.beginPass();
      const resolved = this.#onChange();
      return resolved === undefined ? this.#endPass() : resolved.then(() => this.#endPass());
    },
  });
  #services: Informer<ServiceView> | undefined;
  readonly #served = new ServedClasses();
  #onChange: () => Promise<void> | undefined = () => undefined;
  #onDefinition: () => void = () => {};

  constructor(deps: DiscoveryDeps) {
    this.#deps = deps;
    this.discovers = deps.client !== undefined;
    this.#configured = new ConfiguredTargets(deps.config, this.#table, this.discovers);
  }

  start(onChange: () => Promise<void> | undefined, onSynced: () => void): void {
    const { client, log } = this.#deps;
    this.#onChange = onChange;
    if (client === undefined) {
      onSynced();
      return;
    }
    this.#services = watchObjects<ServiceView, RawService>({
      client,
      path: corePath("services"),
      // Services of any type may have externalIPs, and no field selector can find those.
      project: (raw) => this.#view(raw),
      onChange: ({ key, after }) => this.#onService(key, after),
      onSynced,
      log,
    });
  }

  /** Call this when all hints were resolved again. */
  #endPass(): undefined {
    this.#onDefinition();
    if (this.#served.isOutdated) this.#reporter.enqueue();
  }

  resolve(hints: RoutingHints, held?: string): string | Reason {
    if (hints.selector !== undefined && this.discovers) return this.#bySelector(hints, hints.selector);
    const { targets } = this.#deps.config;
    const byClass = targets.find(({ classes }) => hints.className !== undefined && classes.includes(hints.className));
    if (byClass !== undefined) return this.#configured.refusalOf(byClass) ?? byClass.name;
    const inside = insideCluster(hints, this.#table);
    if (inside !== undefined) return inside;
    return this.discovers ? this.#byService(hints, held) : this.#withoutService(hints);
  }

  /** The target by address or controller, else the default one. */
  #byService(hints: RoutingHints, held: string | undefined): string | Reason {
    const known = this.#known(hints, held);
    const found = matchService(hints, this.#table, known);
    if (!("code" in found)) return this.#noted(found, hints, held);
    if (hints.service !== undefined || !mayBeLacking(found)) return found;
    const ofClass = serviceOfClass(hints, this.#table, known);
    const service = ofClass !== undefined && "code" in ofClass ? undefined : ofClass;
    if (!UNKNOWN_ADDRESS.has(found.code)) return this.#lacking(found, service);
    if (ofClass !== undefined && "code" in ofClass) return this.#lacking(ofClass);
    if (service !== undefined && isReached(service, hints, known)) return this.#noted(service, hints, held);
    return this.#lacking(this.#withoutService(hints, found), service);
  }

  /**
   * A configured target serves every object that chooses it. A discovered target must also be short-circuited by
   * kube-proxy.
   */
  named(target: string): string | Reason | undefined {
    const configured = this.#configured.named(target);
    if (configured !== undefined) {
      if (configured === this.#configured.byDefault && !this.#configured.exists(configured))
        return targetMissing(configured);
      return this.#configured.refusalOf(configured) ?? configured.name;
    }
    const view = this.#viewOf(target);
    if (view === undefined) return undefined;
    const reached = whetherShortCircuited(view, allAddressesOf(view));
    return "code" in reached ? reached : this.#targetOf(view);
  }

  /** The current definition of a discovered target; undefined: its Service does not exist. */
  found(name: string): FoundTarget | undefined {
    const view = this.#table.get(this.#found.get(name) ?? "");
    const target = view && targetOfService(view);
    return view === undefined || target === undefined || "code" in target
      ? undefined
      : withBorrowedPorts(target, view, this.#table);
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
    const known = this.#known(hints, undefined);
    const service = matchService(hints, this.#table, {
      ...known,
      isOfAnotherClass: (view) => !isAssigned(view) || known.isOfAnotherClass(view),
    });
    if ("code" in service || !isAssigned(service) || !mayHavePort(service, HTTP_PORTS)) return undefined;
    const target = this.#targetOf(service);
    return typeof target === "string" ? target : undefined;
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

  /** The active configured targets. A target without classes is active only if its Service exists. */
  configured(): readonly ConfiguredTarget[] {
    return this.#configured.active();
  }

  state(): SourceState[] {
    if (!this.discovers) return [];
    const services = informerState("services", this.#services);
    return [{ ...services, problems: [...services.problems, ...this.#problems.values()] }];
  }

  async stop(): Promise<void> {
    await Promise.all([this.#reporter.stop(), this.#services?.stop()]);
  }

  /**
   * The configured target whose Service selects the pods that serve an object. A host outside the cluster selects
   * nothing, so for it the class decides, as for other objects.
   */
  #bySelector(hints: RoutingHints, selector: Labels): string | Reason {
    const { targets } = this.#deps.config;
    const selected = bySelector(hints, selector, targets, (target) => this.#configured.serviceOf(target)?.selector);
    if (!("code" in selected)) return this.#configured.refusalOf(selected) ?? selected.name;
    const { byDefault } = this.#configured;
    const isOutside = byDefault !== undefined && "host" in byDefault.upstream && selected.code === "no-gateway-service";
    return isOutside ? this.#byDefault(hints, byDefault) : selected;
  }

  /** The target of an object without a Service. `reason`: why no Service was found, if Services are read. */
  #withoutService(hints: RoutingHints, reason?: Reason): string | Reason {
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
    return resolveDefault(hints, { target, software: view?.software, readsAddresses: this.discovers });
  }

  /** If targets are configured, the reason starts with the class that no target lists. */
  #withClass({ className }: RoutingHints, reason: Reason | undefined): Reason {
    const { targets } = this.#deps.config;
    const isOfClasses = targets.length > 0 && this.#configured.byDefault === undefined;
    if (reason !== undefined && !isOfClasses) return reason;
    const missing = noTargetOf(className, targets);
    return reason === undefined ? missing : { ...missing, text: `${missing.text}; ${reason.text}` };
  }

  /** The Service of a target, if it exists. */
  #viewOf(target: string): ServiceView | undefined {
    const configured = this.#configured.named(target);
    return configured === undefined
      ? this.#table.get(this.#found.get(target) ?? "")
      : this.#configured.serviceOf(configured);
  }

  #known(hints: RoutingHints, held: string | undefined): KnownServices {
    return {
      isHeld: (view) => this.#nameOf(view) === held,
      isServing: (view) => this.#served.has(hints, this.#nameOf(view)),
      isInUse: (view) => this.#served.hasAt(hints.addresses, this.#nameOf(view)),
      isConfigured: (view) => this.#configured.behind(keyOf(view)) !== undefined,
      isOfAnotherClass: (view) => (this.#configured.behind(keyOf(view))?.classes.length ?? 0) > 0,
    };
  }

  /** The target of a Service that serves an object. Its status is evidence for other objects of the same class. */
  #noted(view: ServiceView, hints: RoutingHints, held: string | undefined): string | Reason {
    const target = this.#targetOf(view);
    if (hints.service !== undefined || typeof target !== "string") return target;
    if (this.#served.note(hints, view, target, held)) this.#reporter.enqueue();
    return target;
  }

  /** If only evidence is missing, adds the target of the Service that the class of the object leads to. */
  #lacking(answer: string | Reason, service?: ServiceView): string | LackingEvidence | Reason {
    if (typeof answer === "string" || !mayBeLacking(answer)) return answer;
    const byClass = service && this.#targetOf(service);
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
    this.#remember(key, view, before);
    this.#reporter.enqueue(SETTLE_MS);
  }

  /** The first Service with a name has it. Tenants choose names, and can construct a collision of a 48-bit hash. */
  #remember(key: string, view: ServiceView | undefined, before: ServiceView | undefined): void {
    if (before !== undefined && this.#found.get(before.target) === key) this.#found.delete(before.target);
    if (!view?.exposed || "code" in targetOfService(view) || this.#found.has(view.target)) return;
    this.#found.set(view.target, key);
  }

  #nameOf(view: ServiceView): string {
    return this.#configured.behind(keyOf(view))?.name ?? view.target;
  }

  #targetOf(view: ServiceView): string | Reason {
    const configured = this.#configured.behind(keyOf(view));
    if (configured !== undefined) return configured.name;
    const target = targetOfService(view);
    if ("code" in target) return target;
    if (this.#found.get(target.name) === keyOf(view)) return target.name;
    return { code: "target-name-taken", text: `another Service has the target name ${target.name} already` };
  }
}

function nameOf({ metadata }: RawService): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" };
}
