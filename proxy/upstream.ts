import type { Listener } from "#lib/documents/listeners.ts";
import type { Logger } from "#lib/telemetry/log.ts";
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
  /** Called when the `spec` of any listener has changed. */
  readonly onChange: () => void;
}

/** State of one listener's upstream. */
export interface UpstreamState {
  readonly target: string;
  readonly port: number;
  readonly host: string;
  readonly addresses: readonly string[];
  /** Failure of the last lookup; `addresses` are then from an earlier one. */
  readonly lookupFailure: DialCause | undefined;
  readonly phase: DialPhase;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

interface Entry {
  readonly listener: Listener;
  readonly resolver: HostResolver;
  readonly state: DialState;
  /** What it had before the name changed; stays in use until the new one is looked up. */
  readonly earlier: UpstreamSpec | undefined;
  /** Result of the last dial that tried an address. */
  dialPhase: DialPhase;
}

/** A listener's name in a RelaySpec, in logs and in reports. */
export function listenerName({ target, port }: Pick<Listener, "target" | "port">): string {
  return `${target}:${port}`;
}

/** The upstreams of all listeners: their addresses, kept current by DNS lookups, and whether they are reachable. */
export class Upstreams {
  readonly #options: UpstreamsOptions;
  /** By `upstreamKey`. */
  readonly #resolvers = new Map<string, HostResolver>();
  #entries = new Map<string, Entry>();

  constructor(options: UpstreamsOptions) {
    this.#options = options;
  }

  /** Replaces the listeners, at once. Resolves when the first lookup of each upstream's name has ended, within 5 s. */
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

  /** The current upstream of a listener. Undefined: it is not known yet, because the first lookup of its name has not ended. */
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

  /** Handles an engine's report. After a failure the name is looked up again. */
  report(report: DialReport): void {
    const entry = this.#entries.get(report.listener);
    if (entry === undefined) return;
    const last = report.failures.at(-1);
    if (report.connected) entry.dialPhase = { state: "ok" };
    // Without an address the resolver has already reported the cause.
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
    const onChange = (): void => this.#changed(resolver);
    const resolver = new HostResolver(listener.upstream, { ...this.#options, onChange }, listener.upstreamIPs);
    this.#resolvers.set(key, resolver);
    return resolver;
  }

  #changed(resolver: HostResolver): void {
    for (const entry of this.#entries.values()) if (entry.resolver === resolver) refreshState(entry);
    this.#options.onChange();
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

/** Having no address takes precedence over the result of an earlier dial. */
function refreshState({ resolver, state, dialPhase: dialled }: Entry): void {
  const { addresses, failure } = resolver;
  if (addresses.length > 0 || failure === undefined) state.set(dialled);
  else state.set({ state: "failing", cause: failure, detail: `${resolver.host} does not resolve` });
}
