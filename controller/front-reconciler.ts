import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason, TargetAddress } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { TargetsWriter } from "#lib/documents/targets-writer.ts";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import type { ExampleOf, HeaderDecisions } from "./expected-headers/header-decisions.ts";
import { FrontServices } from "./front-services.ts";
import { type AskProxy, ProxyReadiness } from "./proxy-readiness.ts";
import type { ConfiguredTarget } from "./targets/configured-target.ts";
import { type RelayedTargets, relayedTargets } from "./targets/relayed-targets.ts";
import type { FoundTarget } from "./targets/service-view.ts";

type AnyTarget = ConfiguredTarget | FoundTarget;

interface FrontsDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "targets" | "discovery" | "proxy">;
  readonly clusterDomain: string | undefined;
  /** The targets, with the protocols that the ingress controllers' answers decide. */
  readonly headers: HeaderDecisions;
  readonly log: Logger;
  /** Records an Event when an address that pods hold is lost. */
  readonly notify: (code: string, note: string, service: string) => void;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly askProxy: AskProxy;
  /** See `ListeningDeps` in proxy-readiness.ts. Only tests set it. */
  readonly pollMs?: number | undefined;
}

/** Failed writes are retried after this time; an observed change is reconciled after the shorter one. */
const RETRY_MS = 5_000;
const SETTLE_MS = 20;
/** How often it is checked whether a front that the document does not list may go. */
const LOOK_AGAIN_MS = 3_600_000;
/** Front Services that are written in parallel, when many targets are added at once. */
const PARALLEL_WRITES = 4;

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
  readonly #services: FrontServices;
  readonly #listening: ProxyReadiness;
  /** By target: since when, in this term, a front exists that the document does not list. */
  readonly #unlisted = new Map<string, number>();
  readonly #reconciler: Reconciler;
  /** Undefined before the first `use`: "none in use" is not the same as "not known yet". */
  #inUse: ReadonlySet<string> | undefined;
  #named: ReadonlySet<string> = new Set();
  #exampleOf: ExampleOf = () => undefined;
  #refused: ReadonlyMap<string, Reason> = new Map();
  /** The signal of the leader's term. */
  #leading: AbortSignal | undefined;
  #onChange: () => void = () => {};

  constructor(deps: FrontsDeps) {
    this.#deps = deps;
    const { client, config, log, notify, askProxy: ask, headers, pollMs } = deps;
    const { namespace } = config;
    const onChange = () => this.#changed();
    const { selector, trafficDistribution } = config.proxy;
    this.#store = new TargetsWriter({ client, namespace, log });
    this.#services = new FrontServices({ client, namespace, selector, trafficDistribution, log, notify, onChange });
    this.#listening = new ProxyReadiness({
      ...{ client, namespace, log, ask, onChange, pollMs, now: () => performance.now() },
      onProxies: () => this.#enqueue(SETTLE_MS),
      answers: headers.answers,
      onAnswer: () => headers.changed(),
    });
    this.#reconciler = new Reconciler({
      reconcile: () => this.#reconcile(),
      retry: { backoff: createBackoff(RETRY_MS, RETRY_MS), onError: (error) => this.#failed(error) },
    });
  }

  /** Starts; `onChange` is called when an address becomes known or changes. */
  start(onChange: () => void): void {
    this.#onChange = onChange;
    this.#store.start(() => {
      this.#learn();
      this.#changed();
    });
    this.#services.start();
    this.#listening.start();
    this.#deps.headers.follow(() => this.#changed());
  }

  /** False until it is known for every target whether it has an address. */
  get synced(): boolean {
    return this.#store.synced && this.#services.synced && this.#listening.synced && this.#deps.headers.synced;
  }

  /** Milliseconds since a watch last received or tried anything. */
  get inactiveMs(): number {
    return Math.max(...[this.#store, this.#services, this.#listening].map(({ inactiveMs }) => inactiveMs));
  }

  /** One entry per target: the configured ones, then the discovered ones in use. */
  targets(): readonly TargetAddress[] {
    const fronts = this.#frontAddresses();
    // Names get the address after the document has it, so that the next leader knows whose address it is. Who only
    // observes publishes nothing, and need not know which proxies listen.
    const published = new Set(this.#relayed().flatMap(({ name, clusterIPs }) => (clusterIPs.length > 0 ? name : [])));
    const counts = (name: string) => this.#leading === undefined || (this.#listening.has(name) && published.has(name));
    return this.#definitions().map((target) => {
      const { name } = target;
      const relayed = counts(name) ? (fronts.get(name) ?? []) : [];
      return { name, clusterIPs: this.#ownAddressesOf(target) ?? relayed };
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
    const targets = this.#store.published.targets.filter(
      ({ ports, clusterIPs }) => ports.length + clusterIPs.length > 0,
    );
    const listed = new Set(targets.map(byName));
    const fronts = this.#services.addresses.entries().map(([name, clusterIPs]) => ({ name, clusterIPs }));
    return [...targets, ...fronts.filter(({ name }) => !listed.has(name))];
  }

  /** The targets that proxies ask. Some have no mapped name: the answer may be the reason. */
  asked(): ReadonlySet<string> {
    return new Set(this.#store.published.targets.filter(({ ask }) => ask !== undefined).map(byName));
  }

  /** Lets the leader write until `signal` aborts. `inUse` are targets whose addresses pods already hold. */
  lead(inUse: ReadonlySet<string>, signal: AbortSignal): void {
    for (const { name } of this.#relayed()) if (inUse.has(name)) this.#listening.trust(name);
    this.#leading = signal;
    this.#enqueue(0);
  }

  /** Resolves when the run in progress and every watch have ended. */
  async stop(): Promise<void> {
    this.#leading = undefined;
    const parts = [this.#reconciler, this.#store, this.#services, this.#listening];
    await Promise.all(parts.map((part) => part.stop()));
  }

  /** All targets: configured and discovered. */
  #definitions(): AnyTarget[] {
    const { headers } = this.#deps;
    const names = new Set(headers.configured().map(({ name }) => name));
    const found = [...(this.#inUse ?? [])].filter((name) => !names.has(name)).sort();
    return [...this.#configured(), ...found.flatMap((name) => headers.found(name) ?? [])];
  }

  /** The configured targets, except those that the proxies may not relay to. */
  #configured(): readonly ConfiguredTarget[] {
    const { headers } = this.#deps;
    return headers.configured().filter(({ name }) => headers.mayRelay(name));
  }

  /**
   * The configured addresses, or those of its Service, or the published ones after the Service was deleted. Undefined:
   * the target has a front Service.
   */
  #ownAddressesOf(target: AnyTarget): readonly string[] | undefined {
    const { name, clusterIPs } = target;
    if (clusterIPs.length > 0) return clusterIPs;
    if (isRelayed(target)) return undefined;
    if ("serviceIPs" in target && target.serviceIPs.length > 0) return target.serviceIPs;
    const published = this.#store.published.targets.find((one) => one.name === name && one.ports.length === 0);
    return published?.clusterIPs ?? [];
  }

  /** The addresses of front Services. If one is gone, its published addresses count, because pods may hold them. */
  #frontAddresses(): ReadonlyMap<string, readonly string[]> {
    const published = this.#relayed().map(({ name, clusterIPs }) => [name, clusterIPs] as const);
    const observed = [...this.#services.addresses].filter(([, clusterIPs]) => clusterIPs.length > 0);
    return new Map([...published, ...observed]);
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
    if (term === undefined || term.aborted || !this.synced || this.#inUse === undefined) return undefined;
    const { targets, dropped, nextDropMs } = this.#plan();
    const unlisted = this.#overdueFronts([...targets.map(byName), ...dropped]);
    // Front Services go before their listeners. Those that cannot be deleted stay published.
    const stuck = await this.#failing([...dropped, ...unlisted], term, (name) => this.#removeFront(name));
    const relayed = [...targets, ...this.#relayed().filter(({ name }) => stuck.has(name))];
    const listed = [...relayed, ...this.#ownServices(new Set(relayed.map(byName)))];
    const { clusterDomain, headers } = this.#deps;
    const input = { inUse: this.#inUse, exampleOf: this.#exampleOf, clusterDomain };
    const published = headers.withAskedPorts(listed, input);
    if (await this.#store.write(published, this.#listening.proxies)) this.#learn();
    const held = this.#frontAddresses();
    const due = new Map(targets.filter((one) => this.#hasFront(one)).map((one) => [one.name, one]));
    const failed = await this.#failing([...due.keys()], term, async (name) => {
      const target = due.get(name);
      if (target !== undefined) await this.#services.ensure(target, held.get(name) ?? [], term);
    });
    // No proxy listens for a target without an upstream.
    this.#listening.expect(targets.filter(({ upstreamIPs }) => upstreamIPs?.length !== 0).map(byName));
    for (const error of [...stuck.values(), ...failed.values()]) throw error;
    if (this.#failures.end("") !== undefined) this.#deps.log.info({ code: "targets-not-written" }, "it works again");
    const againMs = Math.min(nextDropMs ?? LOOK_AGAIN_MS, LOOK_AGAIN_MS);
    return { requeueAfter: Math.max(SETTLE_MS, againMs) };
  }

  /** The published targets that proxies relay. Those without a listener have the addresses of their own Services. */
  #relayed(): readonly PublishedTarget[] {
    return this.#store.published.targets.filter(({ ports }) => ports.length > 0);
  }

  /** The targets without a relay that are not listed otherwise, as published for the next leader. */
  #ownServices(listed: ReadonlySet<string>): readonly PublishedTarget[] {
    return this.#definitions().flatMap((target) => {
      const clusterIPs = isRelayed(target) || listed.has(target.name) ? [] : (this.#ownAddressesOf(target) ?? []);
      return clusterIPs.length === 0 ? [] : { name: target.name, upstream: clusterIPs[0] ?? "", ports: [], clusterIPs };
    });
  }

  #plan(): RelayedTargets {
    const { headers, config, clusterDomain, now } = this.#deps;
    const plan = relayedTargets({
      configured: this.#configured(),
      found: this.#definitions().flatMap((target) => ("upstreamIPs" in target && isRelayed(target) ? target : [])),
      remembered: this.#relayed(),
      addresses: this.#frontAddresses(),
      clusterDomain,
      catalog: headers,
      limits: config.discovery,
      keepMs: config.discovery.keepSeconds * 1000,
      now: now(),
    });
    this.#refused = plan.refused;
    return plan;
  }

  /**
   * Fronts that the document does not list, for example those of a restored backup. Pods may hold their addresses, so
   * such a front stays as long as that of an unused target. Returns those whose time is over.
   */
  #overdueFronts(listed: readonly string[]): string[] {
    const { discovery } = this.#deps.config;
    const now = performance.now();
    // Without discovery the right to delete fronts is missing.
    const names = new Set(discovery.enabled ? this.#services.addresses.keys() : []).difference(new Set(listed));
    for (const name of this.#unlisted.keys()) if (!names.has(name)) this.#unlisted.delete(name);
    const sinceOf = (name: string) => getOrAdd(this.#unlisted, name, () => now);
    return [...names].filter((name) => now - sinceOf(name) >= discovery.keepSeconds * 1000);
  }

  /** Runs a write for each target. Returns the errors of those that failed. Throws when `term` is over. */
  async #failing(
    names: readonly string[],
    term: AbortSignal,
    write: (name: string) => Promise<void>,
  ): Promise<ReadonlyMap<string, unknown>> {
    const failed = new Map<string, unknown>();
    for (let index = 0; index < names.length; index += PARALLEL_WRITES) {
      term.throwIfAborted();
      const some = names.slice(index, index + PARALLEL_WRITES);
      await Promise.all(some.map((name) => write(name).catch((error) => failed.set(name, error))));
    }
    term.throwIfAborted();
    return failed;
  }

  async #removeFront(name: string): Promise<void> {
    if (this.#deps.config.discovery.enabled) await this.#services.remove(name);
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

function byName({ name }: { readonly name: string }): string {
  return name;
}
