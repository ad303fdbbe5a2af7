import type { Listener } from "#lib/documents/listeners.ts";
import type { DialCause } from "./close-causes.ts";
import { type DialPhase, DialState } from "./dial-state.ts";
import type { DialReport, UpstreamSpec } from "./engine.ts";
import { HostResolver, type LookupOptions } from "./host-resolver.ts";

/** State of one listener's upstream. */
export interface UpstreamState {
  readonly target: string;
  readonly port: number;
  readonly host: string;
  readonly addresses: readonly string[];
  /** The failure of the last lookup. `addresses` are then from an earlier lookup. */
  readonly lookupFailure: DialCause | undefined;
  readonly phase: DialPhase;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

interface Entry {
  readonly listener: Listener;
  readonly resolver: HostResolver;
  readonly state: DialState;
  /** The spec before the name changed. It stays in use until the first lookup of the new name has ended. */
  readonly earlier: UpstreamSpec | undefined;
  /** The result of the last dial that tried an address. */
  dialPhase: DialPhase;
}

/** A listener's name in a RelaySpec, in logs and in reports. */
export function listenerName({ target, port }: Pick<Listener, "target" | "port">): string {
  return `${target}:${port}`;
}

/** Looks up the addresses of all listeners' upstreams, and tracks whether they are reachable. */
export class Upstreams {
  readonly #options: LookupOptions;
  #onChange = (): void => {};
  /** By `upstreamKey`. */
  readonly #resolvers = new Map<string, HostResolver>();
  #entries = new Map<string, Entry>();

  constructor(options: LookupOptions) {
    this.#options = options;
  }

  /** Calls `onChange` after each change of a listener's `spec`. */
  subscribe(onChange: () => void): void {
    this.#onChange = onChange;
  }

  /** Replaces the listeners at once. Resolves when the first lookup of each upstream's name has ended, within 5 s. */
  async setListeners(listeners: readonly Listener[]): Promise<void> {
    const before = this.#entries;
    this.#entries = new Map(listeners.map((listener) => [listenerName(listener), this.#entry(listener, before)]));
    for (const [name, entry] of before) if (this.#entries.get(name)?.state !== entry.state) entry.state.stop();
    const keys = new Set(listeners.map(upstreamKey));
    for (const [key, resolver] of this.#resolvers) {
      if (keys.has(key)) continue;
      resolver.stop();
      this.#resolvers.delete(key);
    }
    await Promise.all([...this.#resolvers.values()].map((resolver) => resolver.firstLookup));
  }

  /** The current upstream of a listener. Undefined until the first lookup of its name has ended. */
  spec(listener: Listener): UpstreamSpec | undefined {
    const entry = this.#entries.get(listenerName(listener));
    return entry && specOf(entry);
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

  /** Handles an engine's report. Looks the name up again after a failure. */
  report(report: DialReport): void {
    const entry = this.#entries.get(report.listener);
    if (entry === undefined) return;
    const last = report.failures.at(-1);
    if (report.connected) entry.dialPhase = { state: "ok" };
    // Without an address, the resolver has already reported the cause.
    else if (last?.address !== undefined) {
      entry.dialPhase = { state: "failing", cause: last.cause, detail: last.detail };
    }
    refreshState(entry);
    if (report.failures.length > 0) entry.resolver.refresh();
  }

  stop(): void {
    for (const resolver of this.#resolvers.values()) resolver.stop();
    for (const { state } of this.#entries.values()) state.stop();
  }

  #entry(listener: Listener, before: ReadonlyMap<string, Entry>): Entry {
    const existing = before.get(listenerName(listener));
    const { upstream: host, upstreamPort, target, port } = listener;
    const isSame = existing !== undefined && upstreamKey(existing.listener) === upstreamKey(listener);
    if (isSame && existing.listener.upstreamPort === upstreamPort) return { ...existing, listener };
    const { log, clock } = this.#options;
    const state = new DialState({ target, port, upstream: `${host} port ${upstreamPort}` }, log, clock);
    const earlier = existing && specOf(existing);
    return { listener, resolver: this.#resolver(listener), state, earlier, dialPhase: { state: "unknown" } };
  }

  /** One resolver per host: the ports of a target share its name. */
  #resolver(listener: Listener): HostResolver {
    const key = upstreamKey(listener);
    const existing = this.#resolvers.get(key);
    if (existing !== undefined) return existing;
    const onChange = (): void => this.#addressesChanged(resolver);
    const resolver = new HostResolver(listener.upstream, { ...this.#options, onChange }, listener.upstreamIPs);
    this.#resolvers.set(key, resolver);
    return resolver;
  }

  #addressesChanged(resolver: HostResolver): void {
    for (const entry of this.#entries.values()) if (entry.resolver === resolver) refreshState(entry);
    this.#onChange();
  }
}

/** Listeners with the same key have the same addresses. */
function upstreamKey({ upstream, upstreamIPs }: Listener): string {
  return upstreamIPs === undefined ? upstream : `${upstream} ${upstreamIPs.join()}`;
}

function specOf({ listener, resolver, earlier }: Entry): UpstreamSpec | undefined {
  if (resolver.isPending) return earlier;
  const { addresses, failure } = resolver;
  const base = { addresses, port: listener.upstreamPort };
  return addresses.length > 0 || failure === undefined ? base : { ...base, unresolved: failure };
}

/** A missing address takes precedence over the result of an earlier dial. */
function refreshState({ resolver, state, dialPhase }: Entry): void {
  const { addresses, failure } = resolver;
  if (addresses.length > 0 || failure === undefined) state.set(dialPhase);
  else state.set({ state: "failing", cause: failure, detail: `${resolver.host} does not resolve` });
}
