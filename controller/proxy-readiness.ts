import { type ProxyPage, readProxyPage } from "#lib/documents/proxy-page.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { endpointSlicesOf, type RawEndpointSlice, readyAddresses } from "#lib/kube/endpoints.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { HeaderAnswers } from "./expected-headers/header-answers.ts";

/** Reads the page of one proxy. Rejects if it does not answer. */
export type AskProxy = (address: string) => Promise<ProxyPage>;

interface ListeningDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  /** Our own namespace. */
  readonly namespace: string;
  readonly log: Logger;
  readonly ask: AskProxy;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Called when proxies listen on another target, or when a wait times out. */
  readonly onChange: () => void;
  /** Called when proxies come or go. */
  readonly onProxies: () => void;
  /** Takes the answers of the ports that the proxies ask. */
  readonly answers: HeaderAnswers;
  /** Called when an answer has changed. */
  readonly onAnswer: () => void;
  /** Replaces WAITING_MS and CALM_MS. Only tests set it. */
  readonly pollMs?: number | undefined;
}

/** The Service whose endpoints are all proxies. */
const PROXY_SERVICE = "switchback-proxy";
/** Poll intervals: while a target waits for listeners or a port for an answer, and otherwise. */
const WAITING_MS = 500;
const CALM_MS = 5_000;
/** Names wait no longer than this. Otherwise one proxy that cannot bind a port would block a target for all others. */
const MAX_WAIT_MS = 15_000;

/**
 * Reads the pages of the proxies: which targets they listen on, and what the ports answer that they ask. A name must
 * not be mapped to a front Service before every ready proxy has bound that target's ports: kube-proxy spreads
 * connections over all of them. If no proxy is ready, nothing waits.
 */
export class ProxyReadiness {
  readonly #deps: ListeningDeps;
  readonly #listened = new Set<string>();
  /** Targets that are still waiting, with the start of the wait. */
  readonly #awaited = new Map<string, number>();
  #slices: Informer<readonly string[]> | undefined;
  readonly #poller: Reconciler;
  #stopped = false;

  constructor(deps: ListeningDeps) {
    this.#deps = deps;
    this.#poller = new Reconciler({ reconcile: () => this.#poll(), pauseMs: () => deps.pollMs ?? WAITING_MS });
  }

  start(): void {
    const { client, namespace, log } = this.#deps;
    this.#slices = watchObjects<readonly string[], RawEndpointSlice>({
      client,
      ...endpointSlicesOf(namespace, PROXY_SERVICE),
      project: readyAddresses,
      onChange: this.#deps.onProxies,
      onSynced: this.#deps.onChange,
      log,
    });
  }

  get synced(): boolean {
    return this.#slices?.state.synced ?? false;
  }

  get inactiveMs(): number {
    return this.#slices?.state.inactiveMs ?? 0;
  }

  /** The addresses of the ready proxies, sorted. */
  get proxies(): readonly string[] {
    return [...new Set([...(this.#slices?.objects().values() ?? [])].flat())].sort();
  }

  /** Whether names may be mapped to the target. */
  has(target: string): boolean {
    return this.#listened.has(target);
  }

  /** Marks a target as ready without a check: names are mapped to it already. */
  trust(target: string): void {
    this.#listened.add(target);
  }

  /** Sets the targets that are published to the proxies. */
  expect(targets: readonly string[]): void {
    const expected = new Set(targets);
    for (const target of this.#listened) if (!expected.has(target)) this.#listened.delete(target);
    for (const target of this.#awaited.keys()) if (!expected.has(target)) this.#awaited.delete(target);
    for (const target of expected) {
      if (!this.#listened.has(target) && !this.#awaited.has(target)) this.#awaited.set(target, this.#deps.now());
    }
    if (this.#awaited.size > 0) this.#poller.enqueue();
    else if (this.#nextMs !== undefined) this.#poller.enqueue(this.#nextMs);
  }

  /** Resolves when the requests in progress and the watch have ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([this.#poller.stop(), this.#slices?.stop()]);
  }

  async #poll(): Promise<ReconcileResult> {
    if (this.#nextMs === undefined) return {};
    const { answers, now, onAnswer, onChange } = this.#deps;
    const pages = new Map(
      await Promise.all(this.proxies.map(async (address) => [address, await this.#ask(address)] as const)),
    );
    if (this.#stopped) return {};
    if (this.#takeListening([...pages.values()])) onChange();
    const reports = new Map([...pages].map(([proxy, page]) => [proxy, page?.answers]));
    if (answers.take(reports, now())) onAnswer();
    return { requeueAfter: this.#nextMs };
  }

  /** Returns whether a target waits no longer. */
  #takeListening(pages: readonly (ProxyPage | undefined)[]): boolean {
    const before = this.#listened.size;
    for (const [target, since] of this.#awaited) {
      const bound = pages.every((page) => page?.listening.includes(target));
      if (!bound && this.#deps.now() - since < MAX_WAIT_MS) continue;
      if (!bound) {
        const fields = { code: "proxy-not-listening", target };
        this.#deps.log.warn(fields, "not every proxy listens for this target; its names no longer wait");
      }
      this.#awaited.delete(target);
      this.#listened.add(target);
    }
    return this.#listened.size > before;
  }

  /** The time until the next poll. Undefined: nothing waits, and nothing is asked. */
  get #nextMs(): number | undefined {
    const { answers, pollMs } = this.#deps;
    const isWaiting = this.#awaited.size > 0 || answers.isWaiting;
    if (isWaiting || answers.isAsking) return pollMs ?? (isWaiting ? WAITING_MS : CALM_MS);
    return undefined;
  }

  /** Undefined if the proxy does not answer. */
  async #ask(address: string): Promise<ProxyPage | undefined> {
    try {
      return await this.#deps.ask(address);
    } catch (error) {
      this.#deps.log.debug({ proxy: address }, `a proxy does not answer: ${describeError(error)}`);
      return undefined;
    }
  }
}

/** Asks over HTTP, on the proxies' health port. */
export function askByHttp(port: number): AskProxy {
  return (address) => readProxyPage(address, port);
}
