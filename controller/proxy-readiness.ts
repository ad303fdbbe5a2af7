import type { Config } from "#lib/config/schema.ts";
import { type ProxyPage, readProxyPage } from "#lib/documents/proxy-page.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { endpointSlicesOf, type RawEndpointSlice, readyAddresses } from "#lib/kube/endpoints.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow } from "#lib/kube/time.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { HeaderDecisions } from "./expected-headers/header-decisions.ts";

export interface ReadinessDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "proxy">;
  readonly log: Logger;
  /** Takes the answers of the ports that the proxies ask. */
  readonly headers: Pick<HeaderDecisions, "answers" | "changed">;
  /** Reads the page of one proxy. Rejects if it does not answer. Only tests set it. */
  readonly askProxy?: (address: string) => Promise<ProxyPage>;
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
  readonly #deps: ReadinessDeps;
  readonly #onChange: () => void;
  /** The published targets: since when they wait, or `ready`. */
  readonly #targets = new Map<string, number | "ready">();
  readonly watch: Informer<readonly string[]>;
  readonly #poller: Reconciler;

  /** Starts the watch. `onChange` is called when proxies come or go, or when a target waits no longer. */
  constructor(deps: ReadinessDeps, onChange: () => void) {
    const { client, config, log } = deps;
    this.#deps = deps;
    this.#onChange = onChange;
    this.#poller = new Reconciler({ reconcile: () => this.#poll(), pauseMs: () => deps.pollMs ?? WAITING_MS });
    this.watch = watchObjects<readonly string[], RawEndpointSlice>({
      ...{ client, log, ...endpointSlicesOf(config.namespace, PROXY_SERVICE), onChange, onSynced: onChange },
      project: readyAddresses,
    });
  }

  /** The addresses of the ready proxies, sorted. */
  get proxies(): readonly string[] {
    return [...new Set([...this.watch.objects().values()].flat())].sort();
  }

  /** Whether names may be mapped to the target. */
  has(target: string): boolean {
    return this.#targets.get(target) === "ready";
  }

  /** Marks a target as ready without a check: an earlier leader published it. */
  trust(target: string): void {
    this.#targets.set(target, "ready");
  }

  /** Sets the targets that are published to the proxies. */
  expect(targets: readonly string[]): void {
    const expected = new Set(targets);
    for (const target of this.#targets.keys()) if (!expected.has(target)) this.#targets.delete(target);
    for (const target of expected) if (!this.#targets.has(target)) this.#targets.set(target, steadyNow());
    this.#poller.enqueue(this.#isListenerMissing ? 0 : this.#nextMs);
  }

  /** Resolves when the requests in progress and the watch have ended. */
  async stop(): Promise<void> {
    await Promise.all([this.#poller.stop(), this.watch.stop()]);
  }

  async #poll(): Promise<ReconcileResult> {
    const pages = new Map(
      await Promise.all(this.proxies.map(async (address) => [address, await this.#ask(address)] as const)),
    );
    const { headers } = this.#deps;
    if (this.#takeListening([...pages.values()])) this.#onChange();
    const reports = new Map([...pages].map(([proxy, page]) => [proxy, page?.answers]));
    if (headers.answers.take(reports, steadyNow())) headers.changed();
    return { requeueAfter: this.#nextMs };
  }

  /** Returns whether a target waits no longer. */
  #takeListening(pages: readonly (ProxyPage | undefined)[]): boolean {
    let isNews = false;
    for (const [target, since] of this.#targets) {
      const bound = pages.every((page) => page?.listening.includes(target));
      if (since === "ready" || (!bound && steadyNow() - since < MAX_WAIT_MS)) continue;
      if (!bound) {
        const fields = { code: "proxy-not-listening", target };
        this.#deps.log.warn(fields, "not every proxy listens for this target; its names no longer wait");
      }
      this.trust(target);
      isNews = true;
    }
    return isNews;
  }

  get #isListenerMissing(): boolean {
    return this.#targets.values().some((since) => since !== "ready");
  }

  get #nextMs(): number {
    const { headers, pollMs } = this.#deps;
    return pollMs ?? (this.#isListenerMissing || headers.answers.isWaiting ? WAITING_MS : CALM_MS);
  }

  /** Undefined if the proxy does not answer. */
  async #ask(address: string): Promise<ProxyPage | undefined> {
    const { config, log, askProxy = (each) => readProxyPage(each, config.proxy.healthPort) } = this.#deps;
    try {
      return await askProxy(address);
    } catch (error) {
      log.debug({ proxy: address }, `a proxy does not answer: ${describeError(error)}`);
      return undefined;
    }
  }
}
