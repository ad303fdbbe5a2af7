import type { Socket } from "node:net";
import { describeError } from "#lib/errors/errors.ts";
import { normalAddress } from "../address.ts";
import { systemClock } from "../clock.ts";
import {
  type DrainResult,
  type EngineOptions,
  LINGER_MS,
  type ListenerSpec,
  type ListenerStatus,
  type MakeEngine,
  type RelayEngine,
  type RelaySpec,
  type SelfEndpoints,
} from "../engine.ts";
import { isSelf } from "../is-self.ts";
import { encodeHeader, v2Options } from "../proxy-header.ts";
import { RefusalLog } from "../refusal-log.ts";
import { newTargetStats, type TargetStats } from "../target-stats.ts";
import { PortableConnection } from "./connection.ts";
import { ConnectionAdmission } from "./connection-admission.ts";
import { startIdleSweep } from "./idle-sweep.ts";
import { PortListener } from "./port-listener.ts";
import { dialUpstream, type UpstreamDialResult } from "./upstream-dial.ts";

/** The engine on node:net. It runs on every platform of Node. */
export const makePortableEngine: MakeEngine = (options) => new PortableEngine(options);

const NO_HEADER = Buffer.alloc(0);

class PortableEngine implements RelayEngine {
  readonly #options: EngineOptions;
  readonly #admission: ConnectionAdmission;
  readonly #refusals: RefusalLog;
  readonly #listeners = new Map<string, PortListener>();
  /** Values are listener names. */
  readonly #connections = new Map<PortableConnection, string>();
  readonly #stats = new Map<string, TargetStats>();
  readonly #stopSweep: () => void;
  #self: SelfEndpoints = { interfaceAddresses: [], frontEndpoints: [] };
  #closed = false;
  /** Updates run one at a time. */
  #lastUpdate: Promise<unknown> = Promise.resolve();
  #onEmpty: (() => void) | undefined;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#admission = new ConnectionAdmission(options.limits);
    this.#refusals = new RefusalLog(options.log, systemClock);
    this.#stopSweep = startIdleSweep(options.limits, this.#connections);
  }

  async start(desired: RelaySpec): Promise<void> {
    const errors = await this.#enqueue(desired);
    if (errors.length === 0) return;
    await this.close();
    throw errors[0];
  }

  async update(desired: RelaySpec): Promise<void> {
    for (const error of await this.#enqueue(desired))
      this.#options.log.error({ err: describeError(error) }, "listener not bound");
  }

  listeners(): readonly ListenerStatus[] {
    return [...this.#listeners.values()].map((listener) => listener.status());
  }

  stats(): ReadonlyMap<string, Readonly<TargetStats>> {
    return this.#stats;
  }

  async drain(graceMs: number): Promise<DrainResult> {
    await this.#lastUpdate;
    // Waits one turn of the event loop, so that clients in the backlog are accepted instead of reset.
    await new Promise(setImmediate);
    this.#closeListeners();
    const open = this.#connections.size;
    let reset = 0;
    const timer = setTimeout(() => {
      reset = this.#connections.size;
      for (const connection of this.#connections.keys()) connection.cut("drain");
    }, graceMs);
    await this.#whenEmpty();
    clearTimeout(timer);
    await this.close();
    return { finished: open - reset, reset };
  }

  async close(): Promise<void> {
    this.#closeListeners();
    this.#stopSweep();
    for (const connection of this.#connections.keys()) connection.cut("drain");
    await this.#whenEmpty();
  }

  #enqueue(desired: RelaySpec): Promise<unknown[]> {
    const done = this.#lastUpdate.then(() => this.#apply(desired));
    this.#lastUpdate = done;
    return done;
  }

  /** Applies `desired`. Returns the errors of listeners that could not be bound. */
  async #apply(desired: RelaySpec): Promise<unknown[]> {
    if (this.#closed) return [];
    this.#self = desired.self;
    this.#removeStale(desired.listeners);
    const results = await Promise.allSettled(desired.listeners.map((spec) => this.#applyListener(spec)));
    return results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  }

  /** Removes listeners that are no longer desired. Runs before new ones bind: a port may move to another listener. */
  #removeStale(specs: readonly ListenerSpec[]): void {
    for (const [name, listener] of this.#listeners) {
      const spec = specs.find((candidate) => candidate.name === name);
      if (spec !== undefined && isBoundAs(listener, spec)) continue;
      listener.close();
      this.#listeners.delete(name);
      if (spec === undefined) this.#cutAfterGrace(name);
    }
    for (const [target, stats] of this.#stats) {
      if (stats.active === 0 && !specs.some((spec) => spec.target === target)) this.#stats.delete(target);
    }
  }

  #cutAfterGrace(name: string): void {
    systemClock.after(this.#options.limits.dropGraceMs, () => {
      if (this.#listeners.has(name)) return;
      for (const [connection, owner] of this.#connections) if (owner === name) connection.cut("drain");
    });
  }

  async #applyListener(spec: ListenerSpec): Promise<void> {
    this.#targetStats(spec.target);
    const running = this.#listeners.get(spec.name);
    if (running !== undefined) {
      running.spec = spec;
      return;
    }
    const listener = new PortListener(spec, this.#options.limits.keepaliveMs, (client, from) =>
      this.#accept(client, from),
    );
    this.#listeners.set(spec.name, listener);
    await listener.bind((error) => this.#refusals.record("local-limit", { listener: spec.name, err: error.message }));
    if (this.#closed) listener.close();
  }

  #accept(client: Socket, listener: PortListener): void {
    const { spec } = listener;
    const stats = this.#targetStats(spec.target);
    const header = headerFor(client, spec);
    if (header === undefined) {
      client.destroy();
      return;
    }
    const source = normalAddress(client.remoteAddress ?? "");
    const refusal = this.#admission.admit(source);
    if (refusal !== undefined) {
      stats.refused[refusal] += 1;
      this.#refusals.record(refusal, { target: spec.target, source });
      client.on("error", () => {}).resetAndDestroy();
      return;
    }
    stats.accepted += 1;
    stats.active += 1;
    const connection = new PortableConnection(client, {
      header,
      firstBytesMs: this.#options.limits.firstBytesMs,
      lingerMs: LINGER_MS,
      stats,
      onClientHeader:
        spec.refusesClientHeaders === true ? () => this.#refuseHeader(stats, spec.target, source) : undefined,
      onClosed: () => {
        stats.active -= 1;
        this.#admission.release(source);
        this.#connections.delete(connection);
        if (this.#connections.size === 0) this.#onEmpty?.();
      },
    });
    this.#connections.set(connection, spec.name);
    this.#dial(connection, listener, stats);
  }

  #refuseHeader(stats: TargetStats, target: string, source: string): void {
    stats.refused["client-header"] += 1;
    this.#refusals.record("client-header", { target, source });
  }

  #dial(connection: PortableConnection, listener: PortListener, stats: TargetStats): void {
    const { connectTimeoutMs, keepaliveMs } = this.#options.limits;
    const abandon = dialUpstream(
      {
        upstream: listener.spec.upstream,
        order: listener.order,
        isSelf: (address, port) => isSelf(address, port, this.#self, this.#boundListeners()),
        connectTimeoutMs,
        keepaliveMs,
        stats,
      },
      (result) => {
        this.#report(listener, result);
        if (result.socket === undefined) {
          stats.refused[result.localLimit === undefined ? "upstream" : "local-limit"] += 1;
          connection.refuse();
        } else connection.connected(result.socket);
      },
    );
    connection.setDialCancel(abandon);
  }

  #report(listener: PortListener, { socket, failures, localLimit }: UpstreamDialResult): void {
    const { name, target } = listener.spec;
    if (localLimit !== undefined) {
      this.#refusals.record("local-limit", { target, err: localLimit });
      return;
    }
    const connected = socket !== undefined;
    if (failures.length > 0 || !listener.lastConnected) this.#options.onDial({ listener: name, connected, failures });
    listener.lastConnected = connected;
  }

  #boundListeners(): ListenerStatus[] {
    return this.listeners().filter((listener) => listener.bound);
  }

  #targetStats(target: string): TargetStats {
    const existing = this.#stats.get(target);
    if (existing !== undefined) return existing;
    const stats = newTargetStats();
    this.#stats.set(target, stats);
    return stats;
  }

  #closeListeners(): void {
    this.#closed = true;
    for (const listener of this.#listeners.values()) listener.close();
  }

  #whenEmpty(): Promise<void> {
    if (this.#connections.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.#onEmpty;
      this.#onEmpty = () => {
        before?.();
        resolve();
      };
    });
  }
}

/** Whether the listener is bound to the address and port of the spec. If not, binding is retried. */
function isBoundAs(listener: PortListener, spec: ListenerSpec): boolean {
  const { address, port } = listener.spec;
  return listener.status().bound && address === spec.address && port === spec.port;
}

/** Undefined if the client left before it was accepted: its addresses are then unknown. */
function headerFor(client: Socket, spec: ListenerSpec): Buffer | undefined {
  const { remoteAddress, remotePort, localAddress } = client;
  if (remoteAddress === undefined || remotePort === undefined || localAddress === undefined) return undefined;
  if (spec.protocol === "none") return NO_HEADER;
  const endpoints = {
    source: { address: remoteAddress, port: remotePort },
    destination: { address: localAddress, port: spec.declaredPort },
  };
  return encodeHeader(spec.protocol, endpoints, v2Options(spec.tlvs));
}
