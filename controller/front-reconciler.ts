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
import { type ExampleOf, withAskedPorts } from "./expected-headers/asked-ports.ts";
import type { HeaderDecisions } from "./expected-headers/header-decisions.ts";
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
/**
 * Changes that arrive close together are reported together: each report is a run of the map's reconciler (24, not
 * 70, for 200 fronts).
 */
const REPORT_MS = 50;
/** Front Services that are written in parallel, when many targets are added at once. */
const PARALLEL_WRITES = 4;

/** A failed operation. `code` is the code of the log line. */
interface Failure {
  readonly code: "targets-not-written" | "front-not-written" | "front-not-deleted";
  readonly target?: string;
}
const FRONT_FAILURES = ["front-not-written", "front-not-deleted"] as const;

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
  #unlisted: ReadonlyMap<string, number> = new Map();
  readonly #reconciler: Reconciler;
  /** Reports changes of addresses. */
  readonly #reporter: Reconciler;
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
        onError: (error) => this.#failed({ code: "targets-not-written" }, error),
      },
    });
    this.#reporter = new Reconciler({
      reconcile: () => {
        this.#onChange();
        return undefined;
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
    return this.#definitions().map((target) => ({ name: target.name, clusterIPs: this.#addressesOf(target) }));
  }

  ownAddresses(): ReadonlySet<string> {
    const ofTargets = this.targets().map(({ clusterIPs }) => clusterIPs);
    return new Set([...this.#services.addresses.values(), ...ofTargets].flat());
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
    const fronts = this.#services.addresses.entries().map(([name, clusterIPs]) => ({ name, clusterIPs }));
    const listed = new Set(targets.map(byName));
    return [...targets, ...fronts.filter(({ name }) => !listed.has(name))];
  }

  lead(inUse: ReadonlySet<string>, signal: AbortSignal): void {
    for (const { name, clusterIPs } of this.#relayed()) {
      this.#services.remember(name, clusterIPs);
      if (inUse.has(name)) this.#listening.trust(name);
    }
    this.#leading = signal;
    this.#unlisted = new Map();
    this.#enqueue(0);
  }

  /** Resolves when the run in progress and every watch have ended. */
  async stop(): Promise<void> {
    this.#leading = undefined;
    const parts = [this.#reconciler, this.#reporter, this.#store, this.#services, this.#listening, ...this.#upstreams];
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

  #addressesOf(target: TargetConfig): readonly string[] {
    const { name, clusterIPs } = target;
    if (clusterIPs.length > 0) return clusterIPs;
    if (!isRelayed(target)) return this.#direct.get(name) ?? [];
    // Followers publish nothing and need not know which proxies listen.
    if (this.#leading !== undefined && !this.#listening.has(name)) return [];
    const addresses = this.#services.addressesOf(name);
    // Names get the address after the document has it, so that the next leader knows whose address it is.
    const isKnown = this.#store.published.targets.some((each) => each.name === name && each.clusterIPs.length > 0);
    return this.#leading === undefined || isKnown ? addresses : [];
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
      onSynced: () => {
        this.#onChange();
        this.#enqueue(SETTLE_MS);
      },
      log,
    });
    this.#upstreams.push(watcher);
  }

  #changed(): void {
    this.#enqueue(SETTLE_MS);
    this.#reporter.enqueue(REPORT_MS);
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
      const plan = this.#withUnlisted(this.#plan());
      await this.#carryOut(plan, term);
      this.#worked(["targets-not-written"]);
      const { nextDropMs } = plan;
      return { requeueAfter: nextDropMs === undefined ? undefined : Math.max(SETTLE_MS, nextDropMs) };
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
      const clusterIPs = isRelayed(target) || listed.has(target.name) ? [] : this.#addressesOf(target);
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
      addresses: this.#services.addresses,
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
   * Drops fronts that the document does not list, for example those of a restored backup. Pods may hold their
   * addresses, so such a front stays as long as that of an unused target.
   */
  #withUnlisted(plan: RelayedTargets): RelayedTargets {
    const { enabled, keepSeconds } = this.#deps.config.discovery;
    // Without discovery the right to delete fronts is missing.
    if (!enabled) return plan;
    const listed = new Set([...plan.targets.map(byName), ...plan.dropped]);
    const names = [...this.#services.existing].filter((name) => !listed.has(name));
    const now = steadyNow();
    this.#unlisted = new Map(names.map((name) => [name, this.#unlisted.get(name) ?? now]));
    const waits = names.map((name) => (this.#unlisted.get(name) ?? now) + keepSeconds * 1000 - now);
    const due = names.filter((_, index) => (waits[index] ?? 0) <= 0);
    const nextMs = Math.min(plan.nextDropMs ?? Number.POSITIVE_INFINITY, ...waits.filter((ms) => ms > 0));
    return {
      ...plan,
      dropped: [...plan.dropped, ...due],
      nextDropMs: Number.isFinite(nextMs) ? nextMs : undefined,
    };
  }

  async #carryOut({ targets, dropped }: RelayedTargets, term: AbortSignal): Promise<void> {
    const stuck = await this.#removeFronts(dropped, term);
    term.throwIfAborted();
    const remembered = this.#relayed().filter(({ name }) => stuck.has(name));
    const relayed = [...targets, ...remembered];
    const listed = [...relayed, ...this.#ownServices(new Set(relayed.map(byName)))];
    const { clusterDomain, headers } = this.#deps;
    const { published } = this.#store;
    const input = { inUse: this.#inUse ?? new Set(), exampleOf: this.#exampleOf, clusterDomain, published };
    const asked = headers && withAskedPorts(listed, { headers, ...input });
    if (await this.#store.write(asked ?? listed, headers && this.#listening.proxies.length)) this.#learn();
    const failed = await this.#ensureFronts(targets, term);
    // No proxy listens for a target without an upstream.
    this.#listening.expect(targets.filter(({ upstreamIPs }) => upstreamIPs?.length !== 0).map(byName));
    if (failed + stuck.size > 0) throw new Error(`${failed + stuck.size} front Services could not be written`);
  }

  /** Writes the front Services; a failure does not stop the others. Returns the number of failures. */
  async #ensureFronts(targets: readonly PublishedTarget[], signal: AbortSignal): Promise<number> {
    const fixed = new Set(this.#deps.config.targets.filter(({ clusterIPs }) => clusterIPs.length > 0).map(byName));
    const due = targets.filter(({ name, unusedSince }) => !fixed.has(name) && this.#mayWrite(name, unusedSince));
    let failed = 0;
    const ensure = async (target: PublishedTarget) => {
      try {
        await this.#services.ensure(target, signal);
        this.#worked(FRONT_FAILURES, target.name);
      } catch (error) {
        failed += 1;
        this.#failed({ code: "front-not-written", target: target.name }, error);
      }
    };
    for (let index = 0; index < due.length; index += PARALLEL_WRITES) {
      signal.throwIfAborted();
      await Promise.all(due.slice(index, index + PARALLEL_WRITES).map(ensure));
    }
    return failed;
  }

  /**
   * Deletes front Services before their listeners. Returns the targets whose Service could not be deleted; they stay
   * published.
   */
  async #removeFronts(dropped: readonly string[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const stuck = new Set<string>();
    for (const name of dropped) {
      signal.throwIfAborted();
      try {
        if (this.#deps.config.discovery.enabled) await this.#services.remove(name);
        this.#worked(FRONT_FAILURES, name);
        this.#deps.log.info({ target: name }, "removed a target that had no names for too long");
      } catch (error) {
        stuck.add(name);
        this.#failed({ code: "front-not-deleted", target: name }, error);
      }
    }
    return stuck;
  }

  /** Logs each failure once per reason. */
  #failed(of: Failure, error: unknown): void {
    const reason = describeError(error);
    if (this.#failures.pass(`${of.code} ${of.target}`, { reason }) !== undefined) this.#deps.log.warn(of, reason);
  }

  #worked(codes: readonly Failure["code"][], target?: string): void {
    for (const code of codes)
      if (this.#failures.end(`${code} ${target}`) !== undefined)
        this.#deps.log.info({ code, ...(target && { target }) }, "it works again");
  }

  /** Without discovery the RBAC rules cover the configured fronts only; other fronts stay unchanged. */
  #mayWrite(name: string, unusedSince: string | undefined): boolean {
    return (
      this.#deps.config.discovery.enabled ||
      (unusedSince === undefined && this.#deps.config.targets.some((target) => target.name === name))
    );
  }
}

function byName({ name }: { readonly name: string }): string {
  return name;
}
