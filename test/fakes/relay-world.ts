import assert from "node:assert/strict";
import { type EngineLimits, LINGER_MS } from "#proxy/engine.ts";
import { ERRNO } from "#proxy/linux/abi.ts";
import { ConnectionLimiter, newConnectionLimits } from "#proxy/linux/connection-limiter.ts";
import { EventLoop } from "#proxy/linux/event-loop.ts";
import type { TargetStats } from "#proxy/target-stats.ts";
import { type Chance, FakeKernel, type Faults } from "./kernel.ts";
import type { FakeSocket } from "./kernel-socket.ts";
import { End, MOST_CLIENTS, PROTOCOLS, type Protocol } from "./relay-end.ts";
import { MainThread } from "./relay-main-thread.ts";

/** An event in a world. `which` selects one of the ends to which it can happen. */
export type Step = readonly [kind: string, which: number, amount: number];

/** How a world ends: all ends send a FIN, a drain's grace period is over, the worker dies, or all ends stay silent. */
export type Ending = "orderly" | "drain" | "death" | "silence";

export interface WorldOptions {
  readonly chance: Chance;
  readonly faults: Faults;
  /** How many of two upstreams answer before connect() returns, on average. */
  readonly near: number;
  /** Whether every upstream answers in the end. */
  readonly isCalm?: boolean;
  readonly idleTimeoutMs?: number;
  readonly halfClosedMs?: number;
}

const CONNECT_TIMEOUT_MS = 5000;
const MOST_OPEN = 12;
const ECONNREFUSED = 111;
const ENETUNREACH = 101;
const CONNECT_ERRORS = [ENETUNREACH, ECONNREFUSED, ERRNO.EADDRNOTAVAIL, ERRNO.ENOBUFS];
/** Longer than all timeouts of the relay. */
const LONG_MS = LINGER_MS + 10_000;

/**
 * A worker's loop on a kernel in memory. Steps drive its clients and upstreams, and a model has the expected results.
 */
export class World {
  readonly kernel: FakeKernel;
  readonly loop: EventLoop;
  readonly clients: End[] = [];
  readonly upstreams: End[] = [];
  readonly #options: WorldOptions;
  readonly #limits: EngineLimits;
  readonly #connectionLimits: SharedArrayBuffer;
  readonly #main: MainThread;
  #now = 1000;

  constructor(options: WorldOptions) {
    const { chance, faults, idleTimeoutMs = 0, halfClosedMs = 0 } = options;
    this.#options = options;
    this.kernel = new FakeKernel(chance, faults);
    this.kernel.onConnect = (socket) => this.#answer(socket);
    this.#limits = {
      maxConnections: MOST_OPEN - 2,
      maxConnectionsPerSource: 100,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      idleTimeoutMs,
      halfClosedMs,
      keepaliveMs: 30_000,
      firstBytesMs: 50,
      dropGraceMs: 0,
    };
    this.#connectionLimits = newConnectionLimits(this.#limits);
    this.#main = new MainThread(this.kernel, this.clients);
    this.loop = new EventLoop({
      libc: this.kernel,
      wake: this.#main.wake,
      limits: this.#limits,
      connectionLimits: this.#connectionLimits,
      receive: this.#main.receive,
      reply: this.#main.reply,
      clock: () => this.#now,
    });
    this.turns(2);
  }

  step([kind, which, amount]: Step): void {
    const pick = (ends: readonly End[]): End | undefined => {
      const alive = ends.filter((end) => end.isAlive);
      return alive[which % Math.max(1, alive.length)];
    };
    const protocol = PROTOCOLS[which % PROTOCOLS.length] ?? "v1";
    const steps: Readonly<Record<string, () => void>> = {
      open: () => this.#open(protocol, amount),
      /** The first bytes, or all bytes, of these clients arrive before the relay accepts them. */
      openAndSend: () => this.#open(protocol, 100_000)?.send(amount),
      openSendAndEnd: () => {
        const client = this.#open(protocol, 100_000);
        client?.send(amount);
        client?.end(this.#now);
      },
      turn: () => this.turns(1),
      wait: () => this.#wait(amount % 100),
      sweep: () => this.#wait((amount % 3) * 260),
      late: () => this.#wait(1 + (amount % 4 === 0 ? LINGER_MS : CONNECT_TIMEOUT_MS)),
      connect: () => this.#dialled(which)?.connected(),
      refuse: () => this.#dialled(which)?.reset(),
      clientSend: () => pick(this.clients)?.send(amount),
      /** Urgent data between the bytes already sent and those sent next. */
      clientUrge: () => pick(this.clients)?.urge(),
      upstreamUrge: () => pick(this.#allUpstreams())?.urge(),
      clientEnd: () => pick(this.clients)?.end(this.#now),
      clientReset: () => pick(this.clients)?.reset(this.#now),
      upstreamSend: () => pick(this.#allUpstreams())?.send(amount),
      upstreamEnd: () => pick(this.#allUpstreams())?.end(this.#now),
      upstreamReset: () => pick(this.#allUpstreams())?.reset(this.#now),
      read: () => this.#readAll(amount),
      /** epoll may report an event twice. */
      nudge: () => pick([...this.clients, ...this.upstreams])?.socket.edge(),
      starve: () => {
        this.kernel.maxFiles = this.kernel.open().length + (amount % 3);
      },
      feed: () => {
        this.kernel.maxFiles = 1024;
      },
      cut: () => this.#main.cut(amount % 2 === 0 ? undefined : protocol),
      drop: () => this.#main.drop(protocol),
      adopt: () => this.#main.adopt(protocol),
      swap: () => this.#main.swap(protocol),
      move: () => this.#main.move(amount),
    };
    const run = steps[kind];
    assert.ok(run !== undefined, `unknown step: ${kind}`);
    run();
  }

  turns(count: number): void {
    for (let turn = 0; turn < count; turn += 1) {
      this.loop.runOnce(0);
      for (const end of [...this.clients, ...this.#allUpstreams()]) end.observe(this.#now);
    }
  }

  /** Lets time pass while all ends read, until no more bytes arrive. */
  settle(): void {
    for (let quiet = 0, rounds = 0; quiet < 12; rounds += 1) {
      assert.ok(rounds < 20_000, "the world settles");
      for (const socket of this.kernel.sockets) socket.connected();
      this.#wait(20);
      quiet = this.#readAll(1_000_000) > 0 ? 0 : quiet + 1;
    }
  }

  /** Ends the world, and checks that nothing remains. */
  finish(ending: Ending): void {
    this.kernel.maxFiles = 1024;
    if (ending === "orderly") this.#endAll();
    else if (ending === "silence") this.#fallSilent();
    if (ending === "death") this.loop.abandon();
    else {
      this.#main.end();
      this.loop.run();
      assert.ok(!this.kernel.open().includes("listener"), "every listener is closed");
    }
    this.#checkEmpty();
  }

  stats(): TargetStats {
    return this.#main.stats();
  }

  /** Checks what must hold after every ending. */
  #checkEmpty(): void {
    for (const end of [...this.clients, ...this.#allUpstreams()]) end.observe(this.#now);
    assert.equal(this.loop.openConnections, 0, "no connection is left");
    assert.equal(new ConnectionLimiter(this.#connectionLimits, this.#limits).total(), 0);
    for (const socket of this.kernel.sockets)
      assert.ok(socket.goneBy !== undefined, "every upstream's socket is closed");
    const accepted = this.clients.filter((client) => client.socket.port !== 0);
    for (const client of accepted) assert.ok(client.isGone, "every client's socket is closed");
    const stats = this.stats();
    assert.equal(stats.active, 0);
    assert.equal(stats.clientBytes, sum(this.clients));
    assert.equal(stats.upstreamBytes, sum(this.upstreams));
    const refused = stats.refused["local-limit"] + stats.refused["limit-total"];
    assert.ok(stats.accepted + refused >= accepted.length, "every client is accounted for");
    const left = this.kernel.open().filter((kind) => kind !== "listener");
    assert.deepEqual(left, ["event"], "every descriptor is closed");
  }

  // --- the remote ends

  #open(protocol: Protocol, mostRoom: number): End | undefined {
    const listener = this.#main.listener(protocol);
    const open = this.clients.filter((client) => !client.isGone).length;
    if (listener === undefined || open >= MOST_OPEN || this.clients.length >= MOST_CLIENTS) return undefined;
    const client = new End(this.kernel.client(listener, 4096 + mostRoom), this.clients.length, protocol);
    this.clients.push(client);
    return client;
  }

  /** Returns the result of connect() to a new upstream, and sets the upstream's state. */
  #answer(socket: FakeSocket): number {
    const { chance, near, isCalm = false } = this.#options;
    const outcome = isCalm ? 2 : chance(12);
    if (outcome === 0) return -(CONNECT_ERRORS[chance(CONNECT_ERRORS.length)] ?? ENETUNREACH);
    const isThere = outcome !== 1 && chance(2) < near;
    socket.state = isThere ? "open" : "connecting";
    if (outcome === 1) socket.reset();
    return isThere && chance(4) === 0 ? 0 : -ERRNO.EINPROGRESS;
  }

  /** An upstream that has not answered yet. */
  #dialled(which: number): FakeSocket | undefined {
    const waiting = this.kernel.sockets.filter((socket) => socket.state === "connecting" && !socket.wasReset);
    return waiting[which % Math.max(1, waiting.length)];
  }

  /** All upstreams that the relay has ever dialed. */
  #allUpstreams(): readonly End[] {
    for (const socket of this.kernel.sockets.slice(this.upstreams.length)) {
      this.upstreams.push(new End(socket, this.upstreams.length));
    }
    return this.upstreams;
  }

  #readAll(count: number): number {
    const upstreams = this.#allUpstreams();
    let total = 0;
    for (const upstream of upstreams) total += upstream.read(count, this.clients);
    for (const client of this.clients) total += client.read(count, upstreams);
    return total;
  }

  #wait(ms: number): void {
    this.#now += ms;
    this.turns(1);
  }

  // --- the end

  #endAll(): void {
    this.settle();
    // Ends that have not exchanged a byte yet now send one, so that every end has its peer.
    for (const end of [...this.clients, ...this.#allUpstreams()]) end.send(1);
    this.settle();
    for (const client of this.clients) client.end(this.#now);
    this.settle();
    for (const upstream of this.#allUpstreams()) {
      const isUndisturbed = upstream.isAlive && upstream.peer !== undefined && !upstream.peer.hasReset;
      if (isUndisturbed) assert.ok(upstream.socket.finOut, "a client's FIN is passed on while the upstream may answer");
    }
    for (const upstream of this.upstreams) upstream.end(this.#now);
    this.settle();
    this.#wait(LONG_MS);
    this.turns(3);
    this.#checkEndings();
  }

  /** Checks that the idle timeout cuts all silent connections. */
  #fallSilent(): void {
    if (this.#limits.idleTimeoutMs === 0) return;
    this.settle();
    for (let sweep = 0; sweep < 12; sweep += 1) this.#wait(this.#limits.idleTimeoutMs / 4 + 1);
    assert.equal(this.loop.openConnections, 0, "no connection stays open for longer than the idle timeout");
    this.#checkEndings();
  }

  #checkEndings(): void {
    for (const client of this.clients) checkEnding(client, this.upstreams, this.#limits);
  }
}

/** Number of bytes that the relay has read from these ends. */
function sum(ends: readonly End[]): number {
  return ends.reduce((total, { socket }) => total + socket.taken, 0);
}

type Timeouts = Pick<EngineLimits, "idleTimeoutMs" | "halfClosedMs">;

/** Fails unless a client's connection has ended as the actions of both ends require. */
function checkEnding(client: End, upstreams: readonly End[], limits: Timeouts): void {
  const { peer: upstream } = client;
  assert.ok(client.isGone, "the client's socket is closed");
  if (client.hasReset) return;
  if (upstream === undefined) {
    if (!hadNothingToSend(client, upstreams, limits))
      assert.equal(client.socket.goneBy, "reset", "a client that found no upstream is reset");
    return;
  }
  assert.ok(upstream.isGone, "the upstream's socket is closed");
  if (wasCut(client, upstream, limits)) {
    assert.deepEqual([client.socket.goneBy, upstream.socket.goneBy], ["reset", "reset"]);
    return;
  }
  if (hasIgnoredFin(client, upstream, limits)) {
    assert.equal(upstream.socket.goneBy, "reset");
    if (client.socket.goneBy === "fin") assert.equal(client.got, upstream.sent, "the whole answer has arrived");
    return;
  }
  if (upstream.hasReset && !upstream.hasEnded) {
    assert.equal(client.socket.goneBy, "reset", "an upstream's reset is not a finished answer");
    return;
  }
  const lingered = client.goneAt - upstream.resetAt >= LINGER_MS && client.socket.goneBy === "reset";
  if (upstream.hasReset && lingered) return;
  assert.equal(client.got, upstream.sent, "all of the upstream's bytes have arrived");
  if (upstream.hasReset) return;
  assert.equal(upstream.got, client.sent, "all of the client's bytes have arrived");
  assert.deepEqual([client.socket.goneBy, upstream.socket.goneBy], ["fin", "fin"]);
}

/**
 * Whether a client may have ended regularly without exchanging a byte that would identify its upstream. Neither end
 * had bytes to send, and either no header was due or the upstream had reset by then.
 */
function hadNothingToSend(client: End, upstreams: readonly End[], { halfClosedMs }: Timeouts): boolean {
  const silent = upstreams.filter(({ peer, hasEnded, sent }) => peer === undefined && hasEnded && sent === 0);
  // The upstream ended without sending anything, and the client ignored that.
  if (halfClosedMs > 0 && silent.some(({ socket }) => socket.goneBy === "reset")) return true;
  if (!client.hasEnded || silent.length === 0) return false;
  return (client.protocol === "none" && client.sent === 0) || silent.some(({ hasReset }) => hasReset);
}

/** Whether the relay had another reason to end this connection, independent of both ends. */
function wasCut(client: End, upstream: End, { idleTimeoutMs }: Timeouts): boolean {
  if (client.wasCut || client.socket.isUnwatched || upstream.socket.isUnwatched) return true;
  return idleTimeoutMs > 0 && client.socket.goneBy === "reset" && silenceOf(client, upstream) >= idleTimeoutMs;
}

/** Whether the relay may have ended the connection because no bytes moved after the upstream's FIN. */
function hasIgnoredFin(client: End, upstream: End, { halfClosedMs }: Timeouts): boolean {
  const isEndedByRelay = upstream.hasEnded && upstream.socket.goneBy === "reset";
  const silence = Math.min(silenceOf(client, upstream), client.goneAt - upstream.endedAt);
  return halfClosedMs > 0 && isEndedByRelay && silence >= halfClosedMs;
}

/** Time without a read from either end before the connection was closed, in milliseconds. */
function silenceOf(client: End, upstream: End): number {
  return client.goneAt - Math.max(client.bornAt ?? 0, client.movedAt, upstream.movedAt);
}
