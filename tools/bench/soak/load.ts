import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { normalAddress } from "#proxy/address.ts";
import { type ParsedHeader, parseHeader } from "#proxy/proxy-header-parse.ts";
import { randomFrom } from "../pattern.ts";
import { nextPlan, requestPlan } from "./kinds.ts";
import { type Plan, Session, type SessionFault } from "./session.ts";

/** One route through the proxy. */
export interface Route {
  readonly name: string;
  readonly protocol: "v1" | "v2";
  /** Port of the proxy's listener. */
  readonly listenPort: number;
  /** Destination port in the header. */
  readonly declaredPort: number;
  readonly upstreamHost: string;
  readonly upstreamPort: number;
  /** Share of the connections. */
  readonly weight: number;
  /** Whether nothing listens at the upstream. */
  readonly isRefused?: boolean;
  /** Whether the upstream restarts from time to time and resets all its connections. */
  readonly restarts?: boolean;
}

interface LoadOptions {
  readonly routes: readonly Route[];
  /** Connections per second. */
  readonly rate: number;
  readonly seed: number;
  readonly hasIpv6: boolean;
  /** Index of the first client port. */
  readonly firstSource?: number;
  readonly onFault: (fault: SessionFault) => void;
}

const TICK_MS = 20;
/** Maximum number of open connections: a slow machine gets fewer connections instead of too many at a time. */
const MAX_OPEN = 600;
/** Missed connections beyond this time are dropped. */
const MAX_DEBT_SECONDS = 0.5;
const BURST_EVERY_SECONDS = 30;
const BURST = 150;
const RESTART_EVERY_SECONDS = 25;
const RESTART_MS = 1_500;
/** Maximum time without progress, except in planned pauses. */
export const STUCK_SECONDS = 120;
/** Time after the end of a client in which the proxy's connection may still arrive. */
const RETIRE_SECONDS = 60;
/**
 * First port that the clients bind. The ports are below Linux' ephemeral range. There are enough of them, so that a
 * port is reused only after its TIME_WAIT.
 */
const FIRST_SOURCE_PORT = 10_000;
const SOURCE_PORTS = 14_000;
const SOURCES_V4 = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];
const SOURCES_V6 = ["::1"];
const V6_SHARE = 0.2;

/** The clients and the upstreams of the soak test. */
export class Load {
  readonly #options: LoadOptions;
  readonly #random: () => number;
  readonly #open = new Set<Session>();
  /** Sessions by the client's address and port. A session stays here for a while after its end. */
  readonly #bySource = new Map<string, Session>();
  readonly #retired: { readonly session: Session; readonly at: number }[] = [];
  readonly #standing = new Map<Session, number>();
  readonly #servers = new Map<Route, Server>();
  /** Upstream sockets whose header has not arrived yet. */
  readonly #strangers = new Map<Route, Set<Socket>>();
  readonly #byRoute = new Map<Route, Set<Session>>();
  readonly #downRoutes = new Set<Route>();
  /** Number of used source addresses of each family. */
  readonly #sourceCount: { v4: number; v6: number };
  #nextId = 1;
  #seconds = 0;
  #debt = 0;
  #isRunning = false;
  #lastTick = performance.now();
  #timer: NodeJS.Timeout | undefined;
  connections = 0;
  bytes = 0;
  restarts = 0;
  /** Number of connections that were not tried because their local port was taken. */
  voids = 0;
  /** Number of connections from other programs. */
  strangers = 0;
  readonly kinds: Record<string, number> = {};

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#sourceCount = { v4: options.firstSource ?? 0, v6: 0 };
    this.#random = randomFrom(options.seed);
  }

  /** Starts the upstreams. */
  async listen(): Promise<void> {
    for (const route of this.#options.routes) if (route.isRefused !== true) await this.#up(route);
    this.#lastTick = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  start(): void {
    this.#isRunning = true;
  }

  /** Starts no more connections; open ones continue. */
  pause(): void {
    this.#isRunning = false;
    this.#debt = 0;
  }

  /**
   * Running time of this process, in seconds. It does not increase while the process is stopped or waits for a slow
   * machine.
   */
  get seconds(): number {
    return this.#seconds;
  }

  get open(): number {
    return this.#open.size;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    for (const { client, upstream } of this.#open) {
      client.socket.destroy();
      upstream?.socket.destroy();
    }
    for (const route of this.#options.routes) this.#down(route);
  }

  /** Starts one connection now. */
  begin(plan: Plan, route: Route = this.#route(this.#random())): Session {
    const id = this.#nextId++;
    const source = this.#nextSource();
    const isV6 = source.address.includes(":");
    const host = isV6 ? "::1" : "127.0.0.1";
    const socket = connect({
      host,
      port: route.listenPort,
      localAddress: source.address,
      localPort: source.port,
      allowHalfOpen: true,
      noDelay: true,
    });
    const session = new Session(
      id,
      plan,
      {
        version: route.protocol === "v1" ? 1 : 2,
        source,
        destination: { address: host, port: route.declaredPort },
        isRefused: route.isRefused === true,
      },
      socket,
      { fault: this.#options.onFault, closed: (closed) => this.#closed(closed) },
    );
    session.isDisturbed = this.#downRoutes.has(route);
    socket.once("connect", () => {
      this.connections += 1;
      this.kinds[plan.kind] = (this.kinds[plan.kind] ?? 0) + 1;
      session.client.start();
    });
    this.#bySource.set(keyOf(source), session);
    this.#sessionsOf(route).add(session);
    this.#open.add(session);
    return session;
  }

  #sessionsOf(route: Route): Set<Session> {
    const known = this.#byRoute.get(route) ?? new Set();
    this.#byRoute.set(route, known);
    return known;
  }

  #nextSource(): { address: string; port: number } {
    const isV6 = this.#options.hasIpv6 && this.#random() < V6_SHARE;
    const count = isV6 ? this.#sourceCount.v6++ : this.#sourceCount.v4++;
    const addresses = isV6 ? SOURCES_V6 : SOURCES_V4;
    const address = addresses[Math.floor(count / SOURCE_PORTS) % addresses.length] ?? "127.0.0.2";
    return { address, port: FIRST_SOURCE_PORT + (count % SOURCE_PORTS) };
  }

  #route(choice: number): Route {
    const { routes } = this.#options;
    let left = choice * routes.reduce((sum, { weight }) => sum + weight, 0);
    const found = routes.find(({ weight }) => {
      left -= weight;
      return left < 0;
    });
    const route = found ?? routes[0];
    if (route === undefined) throw new Error("no route");
    return route;
  }

  #tick(): void {
    const now = performance.now();
    const passed = Math.min((now - this.#lastTick) / 1_000, MAX_DEBT_SECONDS);
    this.#lastTick = now;
    const before = this.#seconds;
    this.#seconds += passed;
    const every = (seconds: number): boolean => Math.floor(before / seconds) < Math.floor(this.#seconds / seconds);
    if (every(STUCK_SECONDS / 4)) this.#findStuck();
    if (every(1)) this.#retire();
    if (!this.#isRunning) return;
    if (every(RESTART_EVERY_SECONDS))
      for (const route of this.#options.routes) if (route.restarts) this.#restart(route);
    this.#debt = Math.min(this.#debt + passed * this.#options.rate, MAX_DEBT_SECONDS * this.#options.rate + 1);
    for (; this.#debt >= 1 && this.#open.size < MAX_OPEN; this.#debt -= 1) this.begin(nextPlan(this.#random));
    if (every(BURST_EVERY_SECONDS)) {
      for (let count = 0; count < BURST; count += 1) this.begin(requestPlan(this.#random, "burst"));
    }
  }

  #findStuck(): void {
    for (const session of this.#open) {
      const quarters = session.moved() ? 0 : (this.#standing.get(session) ?? 0) + 1;
      this.#standing.set(session, quarters);
      if (quarters === 4) session.stuck(STUCK_SECONDS);
    }
  }

  #closed(session: Session): void {
    if (!this.#open.delete(session)) return;
    this.#standing.delete(session);
    if (session.isVoid) this.voids += 1;
    this.bytes += session.takeBytes();
    for (const sessions of this.#byRoute.values()) sessions.delete(session);
    this.#retired.push({ session, at: this.#seconds + RETIRE_SECONDS });
  }

  #retire(): void {
    while (this.#retired[0] !== undefined && this.#retired[0].at < this.#seconds) {
      const { session } = this.#retired.shift() ?? this.#retired[0];
      const key = keyOf(session.expected.source);
      if (this.#bySource.get(key) === session) this.#bySource.delete(key);
    }
  }

  async #up(route: Route): Promise<void> {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accepted(route, socket));
    this.#servers.set(route, server);
    server.listen(route.upstreamPort, route.upstreamHost);
    await once(server, "listening");
  }

  #down(route: Route): void {
    this.#servers.get(route)?.close();
    this.#servers.delete(route);
    for (const socket of this.#strangers.get(route) ?? []) socket.resetAndDestroy();
  }

  /**
   * Resets all connections of the upstream at once, as if its process were killed. Starts the upstream again after a
   * while.
   */
  #restart(route: Route): void {
    if (this.#downRoutes.has(route)) return;
    this.restarts += 1;
    this.#downRoutes.add(route);
    for (const session of this.#sessionsOf(route)) session.disturb();
    this.#down(route);
    setTimeout(async () => {
      await this.#up(route);
      // New connections reach the upstream. Earlier ones are marked as disturbed.
      this.#downRoutes.delete(route);
    }, RESTART_MS);
  }

  /** Reads the header, then passes the socket to the session of the client in the header. */
  #accepted(route: Route, socket: Socket): void {
    const sockets = this.#strangers.get(route) ?? new Set();
    this.#strangers.set(route, sockets.add(socket));
    let bytes = Buffer.alloc(0);
    const ignore = (): void => {};
    socket.once("close", () => sockets.delete(socket));
    // Errors do not count until the session is known: if a client resets at once, its connection may end before its
    // header is sent.
    socket.on("error", ignore);
    const onEnd = (): void => {
      if (bytes.length > 0) this.#stranger(`a FIN within the header, after ${bytes.length} bytes`);
      socket.destroy();
    };
    socket.on("end", onEnd);
    const onData = (chunk: Buffer): void => {
      bytes = Buffer.concat([bytes, chunk]);
      const result = parseHeader(bytes);
      if (result.status === "partial") return;
      socket.off("data", onData);
      socket.off("end", onEnd);
      sockets.delete(socket);
      socket.pause();
      if (result.status === "invalid") {
        this.#stranger(`${result.reason.text}: ${bytes.subarray(0, 64).toString("hex")}`);
        socket.destroy();
        return;
      }
      this.#adopt(socket, result.header, bytes.subarray(result.length));
      socket.off("error", ignore);
    };
    socket.on("data", onData);
  }

  #adopt(socket: Socket, header: ParsedHeader, early: Buffer): void {
    const source = header.endpoints?.source;
    const key = source === undefined ? "" : keyOf({ ...source, address: normalAddress(source.address) });
    const session = this.#bySource.get(key);
    if (session === undefined) {
      // A connection of another program to the proxy's port is not a fault. If the proxy had made up the address, one
      // of our clients would lack its upstream.
      const isOurs = source === undefined || [...SOURCES_V4, ...SOURCES_V6].includes(normalAddress(source.address));
      if (isOurs) this.#stranger(`a header that names no client of ours: ${JSON.stringify(header.endpoints)}`);
      else this.strangers += 1;
      socket.destroy();
      return;
    }
    this.#open.add(session);
    session.adopt(socket, header, early);
  }

  #stranger(text: string): void {
    this.#options.onFault({ kind: "upstream", id: 0, text });
  }
}

function keyOf({ address, port }: { readonly address: string; readonly port: number }): string {
  return `${address} ${port}`;
}
