import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason, TargetAddress } from "#hostmap/types.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { TargetsWriter } from "#lib/documents/targets-writer.ts";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { StoredTimes, steadyNow } from "#lib/kube/time.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import type { ExampleOf, HeaderDecisions } from "./expected-headers/header-decisions.ts";
import { FrontServices } from "./front-services.ts";
import { type AskProxy, ProxyReadiness } from "./proxy-readiness.ts";
import type { TargetAddresses } from "./target-addresses.ts";
import type { ConfiguredTarget } from "./targets/configured-target.ts";
import { type RelayedTargets, relayedTargets } from "./targets/relayed-targets.ts";
import type { TargetCatalog } from "./targets/resolver.ts";
import { type FoundTarget, literalIPs } from "./targets/service-view.ts";

interface FrontsDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "targets" | "discovery" | "proxy">;
  readonly clusterDomain: string | undefined;
  readonly catalog: TargetCatalog;
  /** Set if the ingress controllers are asked. It decides by their answers, and is also the catalog. */
  readonly headers?: HeaderDecisions | undefined;
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
/** Front Services that are written in parallel, when many targets are added at once. */
const PARALLEL_WRITES = 4;

type FailureCode = "targets-not-written" | "front-not-written";

/**
 * The addresses of targets. The leader makes a relayed target reachable in three steps. It publishes the proxies'
 * listeners (ConfigMap), then it creates the front Service. Once every ready proxy listens, it adds the address to
 * the map.
 */
export class FrontReconciler implements TargetAddresses {
  readonly #deps: FrontsDeps;
  readonly #store: TargetsWriter;
  readonly #failures = new LogThrottle();
  readonly #services: FrontServices;
  readonly #listening: ProxyReadiness;
  /** Since when each target is unused. */
  readonly #unused: StoredTimes;
  /** By target: since when, in this term, a front exists that the document does not list. */
  readonly #unlisted = new Map<string, number>();
  readonly #reconciler: Reconciler;
  /** Configured targets without a relay, with the addresses of their own Services. */
  readonly #direct = new Map<string, readonly string[]>();
  #upstreams: Informer<readonly string[]>[] = [];
  /** Undefined before the first `use`: "none in use" is not the same as "not known yet". */
  #inUse: ReadonlySet<string> | undefined;
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
      ...{ client, namespace, log, ask, onChange, now: () => performance.now() },
      onProxies: headers && (() => this.#enqueue(SETTLE_MS)),
      answers: headers?.answers,
      onAnswer: () => headers?.changed(),
      pollMs,
    });
    this.#unused = new StoredTimes(steadyNow, deps.now);
    this.#reconciler = new Reconciler({
      reconcile: () => this.#reconcile(),
      retry: {
        backoff: createBackoff(RETRY_MS, RETRY_MS),
        onError: (error) => this.#failed("targets-not-written", error),
      },
    });
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
    this.#store.start(() => {
      this.#learn();
      this.#changed();
    });
    this.#services.start();
    this.#listening.start();
    this.#deps.catalog.follow(() => this.#changed());
    for (const target of this.#deps.config.targets) this.#watchUpstream(target);
  }

  get synced(): boolean {
    const watchers = this.#upstreams.every(({ state }) => state.synced);
    return watchers && this.#store.synced && this.#services.synced && this.#listening.synced;
  }

  get inactiveMs(): number {
    const parts = [this.#store, this.#services, this.#listening].map(({ inactiveMs }) => inactiveMs);
    return Math.max(...parts, ...this.#upstreams.map(({ state }) => state.inactiveMs ?? 0));
  }

  targets(): readonly TargetAddress[] {
    const fronts = this.#frontAddresses();
    // Names get the address after the document has it, so that the next leader knows whose address it is. Followers
    // publish nothing and need not know which proxies listen.
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

  /** The targets that have names now. */
  use(names: ReadonlySet<string>, exampleOf: ExampleOf = () => undefined): void {
    this.#exampleOf = exampleOf;
    if (this.#inUse !== undefined && this.#inUse.symmetricDifference(names).size === 0) return;
    this.#inUse = new Set(names);
    this.#deps.headers?.use(names);
    this.#enqueue(0);
  }

  /** Why a target has no address, or lacks a port. Undefined: there is no reason, or it only has no address yet. */
  reasonOf(target: string): Reason | undefined {
    return this.#refused.get(target);
  }

  /** Somebody may have deleted the document. Then the front Services show that targets were published. */
  published(): readonly TargetAddress[] {
    // A target that is only asked was never published.
    const targets = this.#store.published.targets.filter(
      ({ ports, clusterIPs }) => ports.length + clusterIPs.length > 0,
    );
    const listed = new Set(targets.map(byName));
    const fronts = this.#services.addresses.entries().map(([name, clusterIPs]) => ({ name, clusterIPs }));
    return [...targets, ...fronts.filter(({ name }) => !listed.has(name))];
  }

  lead(inUse: ReadonlySet<string>, signal: AbortSignal): void {
    for (const { name } of this.#relayed()) if (inUse.has(name)) this.#listening.trust(name);
    this.#leading = signal;
    this.#unlisted.clear();
    this.#enqueue(0);
  }

  /** Resolves when the run in progress and every watch have ended. */
  async stop(): Promise<void> {
    this.#leading = undefined;
    const parts = [this.#reconciler, this.#store, this.#services, this.#listening, ...this.#upstreams];
    await Promise.all(parts.map((part) => part.stop()));
  }

  /** All targets: configured and discovered. */
  #definitions(): (TargetConfig | FoundTarget)[] {
    const { catalog } = this.#deps;
    const names = new Set(catalog.configured().map(({ name }) => name));
    const found = [...(this.#inUse ?? [])]
      .sort()
      .flatMap((name) => (names.has(name) ? [] : (catalog.found(name) ?? [])));
    return [...this.#configured(), ...found];
  }

  /** The configured targets, except those that the proxies may not relay to. */
  #configured(): readonly ConfiguredTarget[] {
    const { catalog, headers } = this.#deps;
    return catalog.configured().filter(({ name }) => headers?.mayRelay(name) ?? true);
  }

  /** The configured addresses, or those of its Service. Undefined: the target has a front Service. */
  #ownAddressesOf(target: TargetConfig): readonly string[] | undefined {
    if (target.clusterIPs.length > 0) return target.clusterIPs;
    return isRelayed(target) ? undefined : (this.#direct.get(target.name) ?? []);
  }

  /** The addresses of front Services. If one is gone, its published addresses count, because pods may hold them. */
  #frontAddresses(): ReadonlyMap<string, readonly string[]> {
    const published = this.#relayed().map(({ name, clusterIPs }) => [name, clusterIPs] as const);
    const observed = [...this.#services.addresses].filter(([, clusterIPs]) => clusterIPs.length > 0);
    return new Map([...published, ...observed]);
  }

  #watchUpstream(target: TargetConfig): void {
    if (isRelayed(target) || target.clusterIPs.length > 0 || !("service" in target.upstream)) return;
    const { client, log } = this.#deps;
    const { namespace, name } = target.upstream.service;
    const watcher = watchObjects<readonly string[]>({
      client,
      path: corePath("services", namespace),
      fieldSelector: `metadata.name=${name}`,
      project: (raw) => literalIPs((raw as { spec?: { clusterIPs?: string[] } }).spec),
      onChange: ({ after }) => {
        if (after !== undefined && after.length > 0) this.#direct.set(target.name, after);
        this.#onChange();
      },
      onSynced: () => this.#changed(),
      log,
    });
    this.#upstreams.push(watcher);
  }

  #changed(): void {
    this.#enqueue(SETTLE_MS);
    this.#onChange();
  }

  #learn(): void {
    this.#deps.headers?.learn(this.#store.published.targets, this.#leading !== undefined);
  }

  #enqueue(afterMs: number): void {
    if (this.#leading?.aborted === false) this.#reconciler.enqueue(afterMs);
  }

  /** Writes only what differs, so a run does not trigger itself. */
  async #reconcile(): Promise<ReconcileResult | undefined> {
    const term = this.#leading;
    if (term === undefined || term.aborted || !this.synced || this.#inUse === undefined) return undefined;
    try {
      const plan = this.#plan();
      const unlisted = this.#unlistedFronts([...plan.targets.map(byName), ...plan.dropped]);
      const dropped = [...plan.dropped, ...unlisted.due];
      const isDone = await this.#carryOut(plan.targets, dropped, term);
      this.#worked("targets-not-written");
      const waits = [isDone ? undefined : RETRY_MS, plan.nextDropMs, unlisted.nextMs].filter((ms) => ms !== undefined);
      return { requeueAfter: waits.length === 0 ? undefined : Math.max(SETTLE_MS, Math.min(...waits)) };
    } catch (error) {
      if (term.aborted || hasCode(error, "term-over")) return undefined;
      throw error;
    }
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
    const { catalog, config, clusterDomain, now } = this.#deps;
    const remembered = this.#relayed();
    const unused = remembered.flatMap(({ unusedSince }) => unusedSince ?? []);
    this.#unused.keep(unused.map((since) => Date.parse(since)));
    const plan = relayedTargets({
      configured: this.#configured(),
      found: this.#definitions().flatMap((target) => ("upstreamIPs" in target && isRelayed(target) ? target : [])),
      remembered,
      addresses: this.#frontAddresses(),
      clusterDomain,
      catalog,
      limits: config.discovery,
      keepMs: config.discovery.keepSeconds * 1000,
      now: now(),
      unusedMs: (since) => steadyNow() - this.#unused.of(Date.parse(since)),
    });
    this.#refused = plan.refused;
    return plan;
  }

  /**
   * Fronts that the document does not list, for example those of a restored backup. Pods may hold their addresses, so
   * such a front stays as long as that of an unused target. `nextMs` is the time until the next one is due.
   */
  #unlistedFronts(listed: readonly string[]): { readonly due: readonly string[]; readonly nextMs?: number } {
    const { enabled, keepSeconds } = this.#deps.config.discovery;
    // Without discovery the right to delete fronts is missing.
    const names = new Set(enabled ? this.#services.addresses.keys() : []).difference(new Set(listed));
    for (const name of this.#unlisted.keys()) if (!names.has(name)) this.#unlisted.delete(name);
    const ageOf = (name: string) => steadyNow() - getOrAdd(this.#unlisted, name, steadyNow);
    const left = new Map([...names].map((name) => [name, keepSeconds * 1000 - ageOf(name)]));
    const waits = [...left.values()].filter((ms) => ms > 0);
    const due = [...names].filter((name) => (left.get(name) ?? 0) <= 0);
    return { due, ...(waits.length > 0 && { nextMs: Math.min(...waits) }) };
  }

  /** Returns whether every front Service could be written or deleted. */
  async #carryOut(
    targets: readonly PublishedTarget[],
    dropped: readonly string[],
    term: AbortSignal,
  ): Promise<boolean> {
    // Front Services go before their listeners. Those that cannot be deleted stay published.
    const stuck = await this.#failing(dropped, term, (name) => this.#removeFront(name));
    const relayed = [...targets, ...this.#relayed().filter(({ name }) => stuck.has(name))];
    const listed = [...relayed, ...this.#ownServices(new Set(relayed.map(byName)))];
    const { clusterDomain, config, headers } = this.#deps;
    const input = { inUse: this.#inUse ?? new Set(), exampleOf: this.#exampleOf, clusterDomain };
    const published = headers?.withAskedPorts(listed, input) ?? listed;
    if (await this.#store.write(published, headers && this.#listening.proxies)) this.#learn();
    const held = this.#frontAddresses();
    const fixed = new Set(config.targets.filter(({ clusterIPs }) => clusterIPs.length > 0).map(byName));
    const due = new Map(
      targets.filter((one) => !fixed.has(one.name) && this.#mayWrite(one)).map((one) => [one.name, one]),
    );
    const failed = await this.#failing([...due.keys()], term, async (name) => {
      const target = due.get(name);
      if (target !== undefined) await this.#services.ensure(target, held.get(name) ?? [], term);
    });
    // No proxy listens for a target without an upstream.
    this.#listening.expect(targets.filter(({ upstreamIPs }) => upstreamIPs?.length !== 0).map(byName));
    return stuck.size + failed.size === 0;
  }

  /** Runs a write for each target. A failure does not stop the others. Returns the targets whose writes failed. */
  async #failing(
    names: readonly string[],
    term: AbortSignal,
    write: (name: string) => Promise<void>,
  ): Promise<ReadonlySet<string>> {
    const failed = new Set<string>();
    for (let index = 0; index < names.length; index += PARALLEL_WRITES) {
      term.throwIfAborted();
      const some = names.slice(index, index + PARALLEL_WRITES);
      const results = await Promise.allSettled(some.map(write));
      for (const [at, result] of results.entries()) {
        const name = some[at] ?? "";
        if (result.status === "fulfilled") this.#worked("front-not-written", name);
        else if (failed.add(name)) this.#failed("front-not-written", result.reason, name);
      }
    }
    term.throwIfAborted();
    return failed;
  }

  async #removeFront(name: string): Promise<void> {
    if (this.#deps.config.discovery.enabled) await this.#services.remove(name);
    this.#deps.log.info({ target: name }, "removed a target that had no names for too long");
  }

  /** Logs each failure once per reason. */
  #failed(code: FailureCode, error: unknown, target?: string): void {
    const reason = describeError(error);
    if (this.#failures.pass(`${code} ${target}`, { reason }) !== undefined)
      this.#deps.log.warn({ code, ...(target && { target }) }, reason);
  }

  #worked(code: FailureCode, target?: string): void {
    if (this.#failures.end(`${code} ${target}`) !== undefined)
      this.#deps.log.info({ code, ...(target && { target }) }, "it works again");
  }

  /** Without discovery the RBAC rules cover the configured fronts only; other fronts stay unchanged. */
  #mayWrite({ name, unusedSince }: PublishedTarget): boolean {
    const { discovery, targets } = this.#deps.config;
    return discovery.enabled || (unusedSince === undefined && targets.some((target) => target.name === name));
  }
}

function byName({ name }: { readonly name: string }): string {
  return name;
}
