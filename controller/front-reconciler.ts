import type { Reason, TargetAddress } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { TargetsWriter } from "#lib/documents/targets-writer.ts";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import type { ExampleOf, HeaderDecisions } from "./expected-headers/header-decisions.ts";
import { FrontServices, type FrontServicesDeps } from "./front-services.ts";
import { ProxyReadiness, type ReadinessDeps } from "./proxy-readiness.ts";
import { type RelayedTargets, relayedTargets } from "./targets/relayed-targets.ts";
import type { Target } from "./targets/target.ts";

interface FrontsDeps extends FrontServicesDeps, ReadinessDeps {
  readonly config: Pick<Config, "namespace" | "targets" | "discovery" | "proxy">;
  readonly clusterDomain: string | undefined;
  /** The targets, with the protocols that the ingress controllers' answers decide. */
  readonly headers: HeaderDecisions;
}

/** Failed writes are retried after this time; an observed change is reconciled after the shorter one. */
const RETRY_MS = 5_000;
const SETTLE_MS = 20;

/** What the loop needs of the addresses of targets. */
export type TargetAddresses = Pick<
  FrontReconciler,
  "start" | "synced" | "inactiveMs" | "targets" | "use" | "published" | "asked" | "lead" | "stop"
>;

/**
 * The addresses of targets. The leader makes a relayed target reachable in three steps. It publishes the proxies'
 * listeners (ConfigMap), then it creates the front Service. Once every ready proxy listens, it adds the address to
 * the map.
 */
export class FrontReconciler {
  readonly #deps: FrontsDeps;
  readonly #store: TargetsWriter;
  readonly #failures = new LogThrottle();
  /** Undefined before `start`. */
  #services: FrontServices | undefined;
  #listening: ProxyReadiness | undefined;
  readonly #reconciler: Reconciler;
  /** Undefined before the first `use`: "none in use" is not the same as "not known yet". */
  #inUse: ReadonlySet<string> | undefined;
  /** Those of them with an example: only these can be asked. */
  #named: ReadonlySet<string> = new Set();
  #exampleOf: ExampleOf = () => undefined;
  #refused: ReadonlyMap<string, Reason> = new Map();
  /** The signal of the leader's term. */
  #leading: AbortSignal | undefined;
  #onChange: () => void = () => {};

  constructor(deps: FrontsDeps) {
    this.#deps = deps;
    const { client, config, log } = deps;
    this.#store = new TargetsWriter({ client, namespace: config.namespace, log });
    this.#reconciler = new Reconciler({
      reconcile: () => this.#reconcile(),
      retry: { backoff: createBackoff(RETRY_MS, RETRY_MS), onError: (error) => this.#failed(error) },
    });
  }

  /** Starts; `onChange` is called when an address becomes known or changes. */
  start(onChange: () => void): void {
    this.#onChange = onChange;
    const changed = () => this.#changed();
    this.#store.start(() => {
      this.#learn();
      changed();
    });
    this.#services = new FrontServices(this.#deps, changed);
    this.#listening = new ProxyReadiness(this.#deps, changed);
    this.#deps.headers.follow(changed);
  }

  /** False until it is known for every target whether it has an address. */
  get synced(): boolean {
    const isKnown = this.#watches.every((state) => state?.synced);
    return isKnown && this.#store.synced && this.#deps.headers.catalog.synced;
  }

  /** Milliseconds since a watch last received or tried anything. */
  get inactiveMs(): number {
    return Math.max(...[this.#store, ...this.#watches].map((state) => state?.inactiveMs ?? 0));
  }

  get #watches() {
    return [this.#services, this.#listening].map((part) => part?.watch.state);
  }

  get #fronts(): readonly PublishedTarget[] {
    return this.#services?.targets ?? [];
  }

  /** One entry per target: the configured ones, then the discovered ones in use. */
  targets(): readonly TargetAddress[] {
    const fronts = this.#frontAddresses();
    // Who only observes need not know which proxies listen.
    const isReady = (name: string) => this.#leading === undefined || this.#listening?.has(name);
    return this.#definitions().map((target) => {
      const { name } = target;
      const relayed = isReady(name) ? fronts.get(name) : undefined;
      return { name, clusterIPs: this.#ownAddressesOf(target) ?? relayed ?? [] };
    });
  }

  ownAddresses(): ReadonlySet<string> {
    const ofTargets = this.targets().map(({ clusterIPs }) => clusterIPs);
    return new Set([...this.#frontAddresses().values(), ...ofTargets].flat());
  }

  /**
   * Sets the targets that have names. Called on every round, because a discovered target is made reachable only when
   * it is needed. `exampleOf` returns a name of each target.
   */
  use(names: ReadonlySet<string>, exampleOf: ExampleOf = () => undefined): void {
    this.#exampleOf = exampleOf;
    const named = new Set([...names].filter((name) => exampleOf(name) !== undefined));
    const isSame = this.#named.symmetricDifference(named).size === 0;
    if (isSame && this.#inUse !== undefined && this.#inUse.symmetricDifference(names).size === 0) return;
    this.#named = named;
    this.#inUse = new Set(names);
    this.#deps.headers.use(names);
    this.#enqueue(0);
  }

  /** Why a target has no address, or lacks a port. Undefined: there is no reason, or it only has no address yet. */
  reasonOf(target: string): Reason | undefined {
    return this.#refused.get(target);
  }

  /**
   * The addresses of all targets that this or an earlier leader published. Somebody may have deleted the document.
   * Then the front Services show that targets were published.
   */
  published(): readonly TargetAddress[] {
    // A target that is only asked was never published.
    const isReachable = ({ ports, clusterIPs }: PublishedTarget) => ports.length + clusterIPs.length > 0;
    return [...this.#store.published.targets.filter(isReachable), ...this.#unlisted()];
  }

  /** The targets that proxies ask. Some have no mapped name: the answer may be the reason. */
  asked(): ReadonlySet<string> {
    return new Set(this.#store.published.targets.filter(({ ask }) => ask !== undefined).map(byName));
  }

  /** Lets the leader write until `signal` aborts. The proxies listen for what an earlier leader published. */
  lead(signal: AbortSignal): void {
    for (const { name } of this.#relayed()) this.#listening?.trust(name);
    this.#leading = signal;
    this.#enqueue(0);
  }

  /** Resolves when the run in progress and every watch have ended. */
  async stop(): Promise<void> {
    this.#leading = undefined;
    const parts = [this.#reconciler, this.#store, this.#services?.watch, this.#listening];
    await Promise.all(parts.map((part) => part?.stop()));
  }

  /** The configured targets, and the discovered ones in use, except those that the proxies may not relay to. */
  #definitions(): Target[] {
    const { headers } = this.#deps;
    const names = new Set([...headers.catalog.configured().map(byName), ...[...(this.#inUse ?? [])].sort()]);
    return [...names].flatMap((name) => headers.relayable(name) ?? []);
  }

  /**
   * The configured addresses, or those of its Service, or the published ones after the Service was deleted. Undefined:
   * the target has a front Service.
   */
  #ownAddressesOf(target: Target): readonly string[] | undefined {
    const { name, clusterIPs } = target;
    if (clusterIPs.length > 0) return clusterIPs;
    if (isRelayed(target)) return undefined;
    const published = this.#store.published.targets.find((one) => one.name === name && one.ports.length === 0);
    return published?.clusterIPs ?? [];
  }

  /** The addresses of front Services. If one is gone, its published addresses count, because pods may hold them. */
  #frontAddresses(): ReadonlyMap<string, readonly string[]> {
    const observed = this.#fronts.filter(({ clusterIPs }) => clusterIPs.length > 0);
    return new Map([...this.#relayed(), ...observed].map(({ name, clusterIPs }) => [name, clusterIPs]));
  }

  #changed(): void {
    this.#enqueue(SETTLE_MS);
    this.#onChange();
  }

  #learn(): void {
    this.#deps.headers.learn(this.#store.published.targets);
  }

  #enqueue(afterMs: number): void {
    if (this.#leading?.aborted === false) this.#reconciler.enqueue(afterMs);
  }

  /** Writes only what differs, so a run does not trigger itself. A write that fails does not stop the others. */
  async #reconcile(): Promise<ReconcileResult | undefined> {
    const term = this.#leading;
    const services = this.#services;
    if (!term || term.aborted || !services || !this.synced || !this.#inUse) return undefined;
    const { targets, dropped, nextDropMs } = this.#plan();
    // Front Services go before their listeners. Those that cannot be deleted stay published, if their ports are free.
    const stuck = await failing(dropped, ({ name }) => this.#removeFront(name, services));
    const taken = new Set(targets.flatMap(({ ports }) => ports.map(({ listenPort }) => listenPort)));
    const isKept = ({ name, ports }: PublishedTarget) =>
      stuck.has(name) && ports.length > 0 && !ports.some(({ listenPort }) => taken.has(listenPort));
    const relayed = [...targets, ...dropped.filter(isKept)];
    const listed = [...relayed, ...this.#ownServices(new Set(relayed.map(byName)))];
    const document = this.#deps.headers.withAskedPorts(listed, this.#inUse, this.#exampleOf);
    if (await this.#store.write(document, this.#listening?.proxies)) this.#learn();
    term.throwIfAborted();
    const held = this.#frontAddresses();
    const due = targets.filter((target) => this.#hasFront(target));
    const failed = await failing(due, (target) => services.ensure(target, held.get(target.name) ?? [], term));
    // Names get an address after the document has it, so that the next leader knows whose address it is. No proxy
    // listens for a target without an upstream.
    const isExpected = ({ clusterIPs, upstreamIPs }: PublishedTarget) =>
      clusterIPs.length > 0 && upstreamIPs?.length !== 0;
    this.#listening?.expect(targets.filter(isExpected).map(byName));
    for (const error of [...stuck.values(), ...failed.values()]) throw error;
    if (this.#failures.end("")) this.#deps.log.info({ code: "targets-not-written" }, "it works again");
    return { requeueAfter: nextDropMs && Math.max(SETTLE_MS, nextDropMs) };
  }

  /** The published targets that proxies relay. Those without a listener have the addresses of their own Services. */
  #relayed(): readonly PublishedTarget[] {
    return this.#store.published.targets.filter(({ ports }) => ports.length > 0);
  }

  /**
   * Front Services that the document does not list, for example those of a restored backup. Pods may hold their
   * addresses. A port on which the proxies listen for another target does not count.
   */
  #unlisted(): readonly PublishedTarget[] {
    const relayed = this.#relayed();
    const names = new Set(relayed.map(byName));
    const taken = new Set(relayed.flatMap(({ ports }) => ports.map(({ listenPort }) => listenPort)));
    const isFree = ({ listenPort }: PublishedTarget["ports"][number]) =>
      !taken.has(listenPort) && taken.add(listenPort);
    const unlisted = this.#fronts.filter(({ name }) => !names.has(name));
    return unlisted.map((target) => ({ ...target, ports: target.ports.filter(isFree) }));
  }

  /** The targets without a relay that are not listed otherwise, as published for the next leader. */
  #ownServices(listed: ReadonlySet<string>): readonly PublishedTarget[] {
    return this.#definitions().flatMap((target) => {
      const clusterIPs = isRelayed(target) || listed.has(target.name) ? [] : (this.#ownAddressesOf(target) ?? []);
      return clusterIPs.length === 0 ? [] : { name: target.name, upstream: clusterIPs[0] ?? "", ports: [], clusterIPs };
    });
  }

  #plan(): RelayedTargets {
    const { headers, config, clusterDomain } = this.#deps;
    const { discovery } = config;
    // A front without a free port would be removed. That of a target in use must keep its ClusterIP.
    const mayGo = ({ name, ports }: PublishedTarget) => ports.length > 0 || this.#inUse?.has(name) !== true;
    const plan = relayedTargets({
      wanted: this.#definitions(),
      definitionOf: (name) => headers.relayable(name),
      discovers: headers.catalog.discovers,
      // Without discovery the right to delete fronts is missing.
      remembered: [...this.#relayed(), ...(discovery.enabled ? this.#unlisted().filter(mayGo) : [])],
      addresses: this.#frontAddresses(),
      clusterDomain,
      maxTargets: discovery.maxTargets,
      keepMs: discovery.keepSeconds * 1000,
      now: Date.now(),
    });
    this.#refused = plan.refused;
    return plan;
  }

  async #removeFront(name: string, services: FrontServices): Promise<void> {
    if (this.#deps.config.discovery.enabled) await services.remove(name);
    this.#deps.log.info({ target: name }, "removed a target that had no names for too long");
  }

  /** Logs a failure once, while its reason stays. The end of the term is no failure. */
  #failed(error: unknown): void {
    if (this.#leading?.aborted !== false || hasCode(error, "term-over")) return;
    const reason = describeError(error);
    if (this.#failures.pass("", { reason }) !== undefined) this.#deps.log.warn({ code: "targets-not-written" }, reason);
  }

  /**
   * Whether a target needs a front Service that we may write. The configuration may set its address. Without discovery
   * the RBAC rules cover the configured fronts only; other fronts stay unchanged.
   */
  #hasFront({ name, unusedSince }: PublishedTarget): boolean {
    const { discovery, targets } = this.#deps.config;
    const own = targets.find((target) => target.name === name);
    if (own !== undefined && own.clusterIPs.length > 0) return false;
    return discovery.enabled || (unusedSince === undefined && own !== undefined);
  }
}

/** Writes for all targets at once. Returns the errors of those that failed. */
async function failing(targets: readonly PublishedTarget[], write: (target: PublishedTarget) => Promise<void>) {
  const failed = new Map<string, unknown>();
  await Promise.all(targets.map((target) => write(target).catch((error) => failed.set(target.name, error))));
  return failed;
}

function byName({ name }: { readonly name: string }): string {
  return name;
}
