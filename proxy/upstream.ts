import type { Listener } from "../snapshot/listeners.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Clock } from "./clock.ts";
import type { DialCause } from "./close-causes.ts";
import { type DialPhase, DialState } from "./dial-state.ts";
import type { DialReport, UpstreamSpec } from "./engine.ts";
import { type HostLookup, HostResolver } from "./host-resolver.ts";

interface UpstreamsOptions {
  readonly lookup: HostLookup;
  readonly clock: Clock;
  readonly log: Logger;
  readonly intervalMs: number;
  /** Some listener's `spec` has changed. */
  readonly onChange: () => void;
}

/** What is known of the upstream of one listener. */
export interface UpstreamState {
  readonly target: string;
  readonly port: number;
  readonly host: string;
  readonly addresses: readonly string[];
  /** The last look-up's failure; with addresses, those are from before it. */
  readonly lookupFailure: DialCause | undefined;
  readonly phase: DialPhase;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

interface Entry {
  readonly listener: Listener;
  readonly resolver: HostResolver;
  readonly state: DialState;
  /** What dialling an address last gave. */
  dialled: DialPhase;
}

/** A listener's name in an engine's plan, in logs and in reports. */
export function listenerName({ target, port }: Pick<Listener, "target" | "port">): string {
  return `${target}:${port}`;
}

/** The upstreams of all listeners: their addresses, looked up again and again, and whether dialling them works. */
export class Upstreams {
  readonly #options: UpstreamsOptions;
  readonly #resolvers = new Map<string, HostResolver>();
  #entries = new Map<string, Entry>();

  constructor(options: UpstreamsOptions) {
    this.#options = options;
  }

  /** Goes over to other listeners. Resolves when each upstream's name has had its first answer or failure: 5 s at most. */
  async setListeners(listeners: readonly Listener[]): Promise<void> {
    const before = this.#entries;
    this.#entries = new Map(listeners.map((listener) => [listenerName(listener), this.#entry(listener, before)]));
    for (const [name, entry] of before) if (this.#entries.get(name)?.state !== entry.state) entry.state.stop();
    for (const [host, resolver] of this.#resolvers) {
      if (listeners.some((listener) => listener.upstream === host)) continue;
      resolver.stop();
      this.#resolvers.delete(host);
    }
    await Promise.all([...this.#resolvers.values()].map((resolver) => resolver.first));
  }

  /** Where connections of a listener go at present. */
  spec(listener: Listener): UpstreamSpec {
    const resolver = this.#entries.get(listenerName(listener))?.resolver;
    const addresses = resolver?.addresses ?? [];
    const base = { addresses, port: listener.upstreamPort };
    return addresses.length > 0 ? base : { ...base, unresolved: resolver?.failure ?? "dns-timeout" };
  }

  states(): UpstreamState[] {
    return [...this.#entries.values()].map(({ listener, resolver, state }) => ({
      target: listener.target,
      port: listener.port,
      host: listener.upstream,
      addresses: resolver.addresses,
      lookupFailure: resolver.failure,
      phase: state.phase,
      since: state.since,
    }));
  }

  /** Takes an engine's report. A failure makes the name be looked up again. */
  report(report: DialReport): void {
    const entry = this.#entries.get(report.listener);
    if (entry === undefined) return;
    const last = report.failures.at(-1);
    if (report.connected) entry.dialled = { state: "ok" };
    // Without an address the resolver has told the cause already.
    else if (last?.address !== undefined) {
      entry.dialled = { state: "failing", cause: last.cause, detail: last.detail };
    }
    refreshState(entry);
    if (report.failures.length > 0) entry.resolver.refresh();
  }

  stop(): void {
    for (const resolver of this.#resolvers.values()) resolver.stop();
    for (const { state } of this.#entries.values()) state.stop();
  }

  #entry(listener: Listener, before: ReadonlyMap<string, Entry>): Entry {
    const known = before.get(listenerName(listener));
    const { upstream: host, upstreamPort, target, port } = listener;
    if (known?.listener.upstream === host && known.listener.upstreamPort === upstreamPort)
      return { ...known, listener };
    const { log, clock } = this.#options;
    const state = new DialState({ target, port, upstream: `${host} port ${upstreamPort}` }, log, clock);
    return { listener, resolver: this.#resolver(host), state, dialled: { state: "unknown" } };
  }

  /** One for all listeners of a host: a target's ports share its name. */
  #resolver(host: string): HostResolver {
    const known = this.#resolvers.get(host);
    if (known !== undefined) return known;
    const resolver = new HostResolver(host, { ...this.#options, onChange: () => this.#changed(host) });
    this.#resolvers.set(host, resolver);
    return resolver;
  }

  #changed(host: string): void {
    for (const entry of this.#entries.values()) if (entry.resolver.host === host) refreshState(entry);
    this.#options.onChange();
  }
}

/** No address beats what dialling gave when there were some. */
function refreshState({ resolver, state, dialled }: Entry): void {
  const { addresses, failure } = resolver;
  if (addresses.length > 0 || failure === undefined) state.set(dialled);
  else state.set({ state: "failing", cause: failure, detail: `${resolver.host} does not resolve` });
}
