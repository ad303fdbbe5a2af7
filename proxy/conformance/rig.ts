import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket, type TcpNetConnectOpts } from "node:net";
import type { Logger } from "#lib/telemetry/log.ts";
import { freePorts } from "#test/cluster/ports.ts";
import type {
  DialReport,
  EngineLimits,
  ListenerSpec,
  MakeEngine,
  RelayEngine,
  RelaySpec,
  SelfEndpoints,
} from "../engine.ts";
import type { TlvOptions } from "../proxy-header.ts";
import { newTargetStats, type TargetStats } from "../target-stats.ts";

/** One conformance case: a sentence that holds for every engine, and the function that checks it. */
export type Case = readonly [title: string, run: (make: MakeEngine) => Promise<void>];

export const LISTENER = "target:443";
export const DECLARED_PORT = 443;

/** Generous defaults: a case that depends on a limit sets its own. */
const LIMITS: EngineLimits = {
  maxConnections: 1000,
  maxConnectionsPerSource: 1000,
  connectTimeoutMs: 5000,
  idleTimeoutMs: 60_000,
  halfClosedMs: 60_000,
  keepaliveMs: 30_000,
  firstBytesMs: 20,
  dropGraceMs: 5000,
};

/** A server that provides its connections, half-open and paused, in the order of arrival. */
export class Upstream {
  readonly server: Server;
  readonly sockets: Socket[] = [];
  readonly #waiting: ((socket: Socket) => void)[] = [];
  #taken = 0;

  private constructor() {
    this.server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) => {
      // A case that expects an error has its own error listener. Other cases ignore late resets during the clean-up.
      socket.on("error", () => {});
      this.sockets.push(socket);
      this.#waiting.shift()?.(socket);
    });
  }

  static async listen(host = "127.0.0.1", port = 0): Promise<Upstream> {
    const upstream = new Upstream();
    upstream.server.listen(port, host);
    await once(upstream.server, "listening");
    return upstream;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Returns the next connection, and waits until it arrives. */
  next(): Promise<Socket> {
    const index = this.#taken++;
    const there = this.sockets[index];
    if (there !== undefined) return Promise.resolve(there);
    return soon(new Promise((resolve) => this.#waiting.push(resolve)), "a connection at the upstream");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    await once(this.server, "close");
  }
}

export interface RigOptions {
  readonly protocol?: ListenerSpec["protocol"];
  readonly refusesClientHeaders?: boolean;
  readonly tlvs?: TlvOptions;
  /** Where the engine listens; default 127.0.0.1. */
  readonly address?: string;
  /** Where the engine dials; default: the rig's upstream alone. */
  readonly upstream?: ListenerSpec["upstream"];
  readonly upstreamHost?: string;
  readonly self?: SelfEndpoints;
  readonly limits?: Partial<EngineLimits>;
}

/** An engine with one listener, its upstream, and the reports and log lines of the engine. */
export class Rig {
  readonly engine: RelayEngine;
  readonly upstream: Upstream;
  readonly reports: DialReport[] = [];
  readonly lines: string[] = [];
  readonly #clients: Socket[] = [];
  readonly #options: RigOptions;

  private constructor(make: MakeEngine, upstream: Upstream, options: RigOptions) {
    this.upstream = upstream;
    this.#options = options;
    const note = (_fields: object, message: string): void => void this.lines.push(message);
    const log: Logger = { debug: note, info: note, warn: note, error: note };
    const onDial = (report: DialReport): void => void this.reports.push(report);
    this.engine = make({ limits: { ...LIMITS, ...options.limits }, log, onDial });
  }

  static async start(make: MakeEngine, options: RigOptions = {}): Promise<Rig> {
    const rig = new Rig(make, await Upstream.listen(options.upstreamHost), options);
    await rig.engine.start(rig.relaySpec());
    return rig;
  }

  /** The rig's plan; `change` replaces fields of its listener. */
  relaySpec(change: Partial<ListenerSpec> = {}, ...more: ListenerSpec[]): RelaySpec {
    return {
      listeners: [this.spec(change), ...more],
      self: this.#options.self ?? { interfaceAddresses: [], frontEndpoints: [] },
    };
  }

  spec(change: Partial<ListenerSpec> = {}): ListenerSpec {
    const { protocol = "v1", address = "127.0.0.1", upstreamHost = "127.0.0.1" } = this.#options;
    return {
      name: LISTENER,
      target: "target",
      address,
      port: 0,
      declaredPort: DECLARED_PORT,
      protocol,
      ...(this.#options.tlvs && { tlvs: this.#options.tlvs }),
      refusesClientHeaders: this.#options.refusesClientHeaders ?? false,
      upstream: this.#options.upstream ?? { addresses: [upstreamHost], port: this.upstream.port },
      ...change,
    };
  }

  port(name = LISTENER): number {
    return this.engine.listeners().find((listener) => listener.name === name)?.port ?? 0;
  }

  stats(target = "target"): Readonly<TargetStats> {
    return this.engine.stats().get(target) ?? newTargetStats();
  }

  /** A half-open client of the engine, without an error listener, which would hide errors from `endOf`. */
  async connect(options: Partial<TcpNetConnectOpts> = {}): Promise<Socket> {
    const socket = this.dial(options);
    await once(socket, "connect");
    return socket;
  }

  dial(options: Partial<TcpNetConnectOpts> = {}): Socket {
    const host = this.#options.address === "::1" ? "::1" : "127.0.0.1";
    const socket = connect({ host, port: this.port(), allowHalfOpen: true, noDelay: true, ...options });
    socket.on("error", () => {});
    this.#clients.push(socket);
    return socket;
  }

  /** Resolves when the engine counts no connections, so that a case detects connections that are never released. */
  async idle(): Promise<void> {
    await until(() => this.stats().active === 0, "active connections to end");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#clients) socket.destroy();
    await this.engine.close();
    await this.upstream[Symbol.asyncDispose]();
  }
}

/**
 * Timeout of each wait: an endless wait would prevent the clean-up and keep the process alive. Long enough for a busy
 * machine.
 */
const PATIENCE_MS = 60_000;

/** Returns `promise`. After a timeout, rejects with an error that names what was waited for. */
export function soon<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`waited ${PATIENCE_MS} ms for ${what}`)), PATIENCE_MS);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Polls every 2 ms. */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited ${PATIENCE_MS} ms for ${what}`);
    await pause(2);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A port of 127.0.0.1 that was free a moment ago. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}
