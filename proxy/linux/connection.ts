import type { CutCause } from "../causes.ts";
import type { EngineLimits } from "../engine.ts";
import { EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, ERRNO, SHUT_WR } from "./abi.ts";
import { Dial } from "./dial.ts";
import type { ListenerState } from "./listener-state.ts";
import { IO, IO_BYTES } from "./memory.ts";
import { PUMP, type Pump, type PumpContext } from "./pump.ts";
import { Side } from "./side.ts";
import { closeWithReset } from "./sockets.ts";
import type { Waiter, WaitingList } from "./waiting.ts";

/** What connections need of the loop they live in. */
export interface RelayContext extends PumpContext {
  readonly pump: Pump;
  readonly limits: EngineLimits;
  /** Wait for the upstream's answer, for the client's first bytes, for a client that still sends to an upstream that is gone. */
  readonly dialling: WaitingList;
  readonly greeting: WaitingList;
  readonly lingering: WaitingList;
  /** Milliseconds, as of the last event. */
  readonly now: number;
  /** Watches a socket; false if the kernel does not take it. */
  register(side: Side, events: number): boolean;
  /** Before a descriptor is closed. */
  forget(side: Side): void;
  /** To be advanced again soon, after others. */
  again(connection: Connection): void;
  /** A dial is over. */
  dialled(connection: Connection, dial: Dial, connected: boolean): void;
  outOfResources(connection: Connection, detail: string): void;
  /** Both sockets are closed. */
  closed(connection: Connection): void;
}

export const PHASE = { dialling: 0, greeting: 1, relaying: 2, lingering: 3, closed: 4 } as const;
type Phase = (typeof PHASE)[keyof typeof PHASE];

const READABLE = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
const HUNG_UP = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
const CLIENT_EVENTS = EPOLLIN + EPOLLRDHUP + EPOLLET;
const UPSTREAM_EVENTS = EPOLLIN + EPOLLOUT + EPOLLRDHUP + EPOLLET;
export const ARMED_EVENTS = UPSTREAM_EVENTS;
const NO_HEADER = new Uint8Array(0);

/**
 * One client and its upstream.
 *
 *      accepted          connected             header sent
 *     ---------> DIALLING --------> GREETING ---------------> RELAYING -----------------------> CLOSED
 *                   |                  |  client's first bytes    |  FIN one way: passed on, half-closed
 *                   | no address       |  or FIN, or after        |  FIN both ways: closed
 *                   | is left: RST     |  firstBytesMs            |
 *                   |                  |                          |  upstream's FIN, then its RST
 *                   |                  |                          +-----------------> LINGERING ---> CLOSED
 *                   |                  |                          |                   the client is read and its bytes
 *                   |                  |                          |                   dropped until its FIN, 30 s at most
 *                   +------------------+--------------------------+-- RST of one side, idle, drain: RST to the other --> CLOSED
 *
 * While dialling, what the client sends stays in the kernel. The header and the client's first bytes leave in one send, hence in
 * one segment: some receivers take a header that comes alone for a whole request that is malformed.
 *
 * A reset by the upstream after its FIN is typically an early answer (413) to an upload that it then refuses to read. Resetting the
 * client now would throw away what of the answer is still on its way, so the client keeps its half, as nginx's lingering_close does.
 */
export class Connection implements Waiter {
  deadline = 0;
  list: WaitingList | undefined = undefined;
  before: Waiter | undefined = undefined;
  after: Waiter | undefined = undefined;
  readonly listener: ListenerState;
  readonly client: Side;
  upstream: Side | undefined = undefined;
  /** Of its source, in the books of the limits. */
  readonly place: number;
  phase: Phase = PHASE.dialling;
  /** Idle sweeps that have found no byte moved. */
  silentSweeps = 0;
  /** It is in the loop's queue of those to be advanced again. */
  isQueued = false;
  readonly #context: RelayContext;
  #header: Uint8Array | undefined;
  #dial: Dial | undefined = undefined;

  constructor(context: RelayContext, listener: ListenerState, fd: number, place: number) {
    this.#context = context;
    this.listener = listener;
    this.place = place;
    this.client = new Side(this, fd, true);
    this.client.writable = true;
  }

  /** Begins to dial. `header`: none for protocol none. */
  open(header: Uint8Array = NO_HEADER): void {
    const context = this.#context;
    this.#header = header;
    if (!context.register(this.client, CLIENT_EVENTS)) {
      context.outOfResources(this, "epoll_ctl");
      this.#refuse();
      return;
    }
    this.#dial = new Dial(context.libc, this.listener);
    this.#dialNext(this.#dial);
  }

  /** Takes in what epoll says of one of the two sockets. */
  onEvents(side: Side, events: number): void {
    if (events & READABLE) side.readable = true;
    if (events & HUNG_UP) side.hungUp = true;
    if (events & EPOLLOUT) side.writable = true;
    if (events & EPOLLERR) {
      // Nobody is left to be served. What the client has sent before goes with it.
      if (side.isClient) {
        this.cut("client-reset");
        return;
      }
      side.hasFailed = true;
    }
    if (this.phase !== PHASE.dialling) this.advance();
    else if (!side.isClient) this.#dialAnswered(side, events);
  }

  /** Moves what can be moved, both ways. */
  advance(): void {
    const { client, upstream } = this;
    if (upstream === undefined || this.phase === PHASE.dialling || this.phase === PHASE.closed) return;
    if (this.phase === PHASE.greeting) this.#greet(client, upstream);
    // Not else: the header may just have gone out.
    if (this.#isRelaying()) this.#move(client, upstream);
    if (!this.#isClosed()) this.#move(upstream, client);
    if (upstream.ended && upstream.hasFailed && this.#isRelaying()) this.#linger(client);
  }

  /** The upstream has not answered in time. */
  dialTimedOut(): void {
    const { upstream } = this;
    if (upstream === undefined || this.#dial === undefined) return;
    this.#dial.timedOut(this.#context.limits.connectTimeoutMs);
    this.#dropUpstream(upstream);
    this.#dialNext(this.#dial);
  }

  /** The client has sent nothing so far: the header goes out alone. */
  firstBytesAreLate(): void {
    if (this.upstream === undefined || this.phase !== PHASE.greeting) return;
    this.#sendHeader(this.client, this.upstream, 0);
    this.advance();
  }

  lingeredEnough(): void {
    // What is still to be sent to the client is the answer that all this is for.
    if (this.upstream?.isFlushed === false) this.#context.lingering.add(this, this.#context.now);
    else this.cut("upstream-reset");
  }

  /** Ends both sides at once with a reset. */
  cut(cause: CutCause): void {
    if (this.phase === PHASE.closed) return;
    this.listener.counters.cut(cause);
    const isConnected = this.phase !== PHASE.dialling;
    this.#release();
    this.#context.forget(this.client);
    closeWithReset(this.#context.libc, this.client.fd);
    if (this.upstream !== undefined) {
      this.#context.forget(this.upstream);
      if (isConnected) closeWithReset(this.#context.libc, this.upstream.fd);
      else this.#context.libc.close(this.upstream.fd);
    }
    this.#context.closed(this);
  }

  #isClosed(): boolean {
    return this.phase === PHASE.closed;
  }

  #isRelaying(): boolean {
    return this.phase === PHASE.relaying || this.phase === PHASE.lingering;
  }

  #dialNext(dial: Dial): void {
    const context = this.#context;
    const step = dial.step(context.limits.keepaliveMs);
    if (step.kind === "connecting") {
      this.upstream = new Side(this, step.fd, false);
      if (context.limits.connectTimeoutMs > 0) context.dialling.add(this, context.now);
      if (context.register(this.upstream, UPSTREAM_EVENTS)) return;
      this.#dropUpstream(this.upstream);
      context.outOfResources(this, "epoll_ctl");
    } else if (step.kind === "local-limit") context.outOfResources(this, step.detail);
    else {
      this.listener.counters.refused("upstream");
      context.dialled(this, dial, false);
    }
    this.#refuse();
  }

  #dialAnswered(upstream: Side, events: number): void {
    const dial = this.#dial;
    if (dial === undefined || (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return;
    if (!dial.isConnected(upstream.fd, events)) {
      this.#dropUpstream(upstream);
      this.#dialNext(dial);
      return;
    }
    this.list?.remove(this);
    this.#dial = undefined;
    this.silentSweeps = 0;
    this.phase = this.#header?.length === 0 ? PHASE.relaying : PHASE.greeting;
    // The client may have spoken, or ended, before it was asked.
    this.client.readable = true;
    this.#context.dialled(this, dial, true);
    this.advance();
  }

  /** Sends the header with the client's first bytes, or its end; if there is neither, waits for them. */
  #greet(client: Side, upstream: Side): void {
    const { libc, greeting, now } = this.#context;
    const read = client.readable ? libc.recv(client.fd, libc.memory.address + IO, IO_BYTES) : -ERRNO.EAGAIN;
    if (read >= 0) {
      if (read > 0) this.#context.moved(client, read);
      else client.ended = true;
      if (read < IO_BYTES && !client.hungUp) client.readable = false;
      this.#sendHeader(client, upstream, read);
    } else if (read === -ERRNO.EINTR) this.#context.again(this);
    else if (read !== -ERRNO.EAGAIN) this.cut("client-reset");
    else {
      client.readable = false;
      if (this.list === undefined) greeting.add(this, now);
    }
  }

  /** The header and `count` bytes of the client that lie in memory behind it. GREETING to RELAYING. */
  #sendHeader(client: Side, upstream: Side, count: number): void {
    const header = this.#header ?? NO_HEADER;
    const { libc, pump } = this.#context;
    this.list?.remove(this);
    this.#header = undefined;
    this.phase = PHASE.relaying;
    const start = IO - header.length;
    libc.memory.bytes.set(header, start);
    if (pump.send(client, upstream, start, header.length + count) !== undefined) this.#lost(upstream, pump.errno);
  }

  #move(source: Side, sink: Side): void {
    if (source.finished) return;
    const { pump } = this.#context;
    const outcome = pump.run(source, sink);
    if (outcome === PUMP.atEnd) this.#finish(source, sink);
    else if (outcome === PUMP.hasMore) this.#context.again(this);
    else if (outcome === PUMP.sourceFailed) this.#lost(source, pump.errno);
    else if (outcome === PUMP.sinkFailed) this.#lost(sink, pump.errno);
  }

  /** Passes a FIN on. When both are through, closing does that by itself. */
  #finish(source: Side, sink: Side): void {
    source.finished = true;
    if (sink.finished) this.#close();
    // If it fails the peer is gone, and an event or the next read says so.
    else if (!source.discarded) this.#context.libc.shutdown(sink.fd, SHUT_WR);
  }

  /** A socket has failed. EPIPE is what Linux says of a reset that came after a FIN. */
  #lost(side: Side, errno: number): void {
    if (side.isClient) this.cut("client-reset");
    else if (side.ended || errno === ERRNO.EPIPE) this.#linger(this.client);
    else this.cut("upstream-reset");
  }

  #linger(client: Side): void {
    if (this.phase === PHASE.lingering) return;
    this.phase = PHASE.lingering;
    client.discarded = true;
    this.#context.lingering.add(this, this.#context.now);
    this.#context.again(this);
  }

  /** No upstream: the client gets a reset, so that it cannot take this for an empty answer. */
  #refuse(): void {
    this.#release();
    this.#context.forget(this.client);
    closeWithReset(this.#context.libc, this.client.fd);
    this.#context.closed(this);
  }

  #close(): void {
    this.#release();
    for (const side of [this.client, this.upstream]) {
      if (side === undefined) continue;
      this.#context.forget(side);
      this.#context.libc.close(side.fd);
    }
    this.#context.closed(this);
  }

  #dropUpstream(upstream: Side): void {
    this.list?.remove(this);
    this.upstream = undefined;
    this.#context.forget(upstream);
    this.#context.libc.close(upstream.fd);
  }

  #release(): void {
    this.phase = PHASE.closed;
    this.list?.remove(this);
    this.#dial = undefined;
    this.#header = undefined;
    this.#context.pump.release(this.client);
    if (this.upstream !== undefined) this.#context.pump.release(this.upstream);
  }
}
