import type { CutCause } from "../close-causes.ts";
import type { EngineLimits } from "../engine.ts";
import {
  EPOLLERR,
  EPOLLET,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLPRI,
  EPOLLRDHUP,
  ERRNO,
  MSG_NOSIGNAL,
  SHUT_WR,
} from "./abi.ts";
import { DIAL_LOCAL_LIMIT, UpstreamConnect } from "./dial.ts";
import type { ListenerState } from "./listener-state.ts";
import { IO } from "./memory.ts";
import { PUMP, type Pump, type PumpContext, READ_BYTES } from "./pump.ts";
import { SocketState } from "./socket-state.ts";
import { closeWithReset, pendingError, setKeepalive } from "./sockets.ts";
import type { TimeoutQueue, Waiter } from "./timeout-queue.ts";

/** What connections need of the loop they live in. */
export interface RelayContext extends PumpContext {
  readonly pump: Pump;
  readonly limits: EngineLimits;
  /** Wait for the upstream's answer, for the client's first bytes, for a client that still sends to an upstream that is gone. */
  readonly dialling: TimeoutQueue;
  readonly greeting: TimeoutQueue;
  readonly lingering: TimeoutQueue;
  /** Milliseconds, as of the last event. */
  readonly now: number;
  /** Watches a socket; false if the kernel does not take it. */
  register(side: SocketState, events: number): boolean;
  /** Before a descriptor is closed. */
  forget(side: SocketState): void;
  /** To be advanced again soon, after others. */
  again(connection: LinuxConnection): void;
  /** A dial is over. */
  dialled(connection: LinuxConnection, dial: UpstreamConnect, connected: boolean): void;
  outOfResources(connection: LinuxConnection, detail: string): void;
  /** Both sockets are closed. */
  closed(connection: LinuxConnection): void;
}

const PHASE = { dialling: 0, greeting: 1, relaying: 2, lingering: 3, closed: 4 } as const;
type Phase = (typeof PHASE)[keyof typeof PHASE];

const READABLE = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
const HUNG_UP = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
/** Of a socket that was writable when last written to. */
const QUIET_EVENTS = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;
export const ARMED_EVENTS = QUIET_EVENTS | EPOLLOUT;
const NO_HEADER = new Uint8Array(0);
/** The client has neither sent a byte nor ended so far. */
const NOTHING = -1;

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
 * The header and the client's first bytes leave in one send, hence in one segment: some receivers take a header that comes alone for
 * a whole request that is malformed. Where the client has spoken before it is accepted and the upstream is on this machine, that send
 * follows connect() at once, and a connection is RELAYING before epoll has heard of it.
 *
 * A reset by the upstream after its FIN is typically an early answer (413) to an upload that it then refuses to read. Resetting the
 * client now would throw away what of the answer is still on its way, so the client keeps its half, as nginx's lingering_close does.
 */
export class LinuxConnection implements Waiter {
  deadline = 0;
  list: TimeoutQueue | undefined = undefined;
  before: Waiter | undefined = undefined;
  after: Waiter | undefined = undefined;
  readonly listener: ListenerState;
  readonly client: SocketState;
  upstream: SocketState | undefined = undefined;
  /** Of its source, in the books of the limits. */
  readonly place: number;
  phase: Phase = PHASE.dialling;
  /** Idle sweeps that have found no byte moved. */
  silentSweeps = 0;
  /** It is in the loop's queue of those to be advanced again. */
  isQueued = false;
  readonly #context: RelayContext;
  #header: Uint8Array | undefined;
  #dial: UpstreamConnect | undefined = undefined;

  constructor(context: RelayContext, listener: ListenerState, fd: number, place: number) {
    this.#context = context;
    this.listener = listener;
    this.place = place;
    this.client = new SocketState(this, fd, true);
    this.client.writable = true;
  }

  /** Begins to dial. `header`: none for protocol none. */
  open(header: Uint8Array = NO_HEADER): void {
    const dial = new UpstreamConnect(this.#context.libc, this.listener);
    this.#header = header;
    this.#dial = dial;
    const count = this.listener.writesAtOnce() ? this.#readFirst() : NOTHING;
    if (this.#isClosed()) return;
    const fd = dial.step();
    if (fd < 0) {
      this.#notDialled(dial, fd);
      return;
    }
    const upstream = new SocketState(this, fd, false);
    this.upstream = upstream;
    if (header.length + count > 0 && count !== NOTHING && this.#writeAtOnce(dial, upstream, count)) return;
    if (this.#watch(this.client, QUIET_EVENTS)) this.#await(upstream);
  }

  /** Takes in what epoll says of one of the two sockets. */
  onEvents(side: SocketState, events: number): void {
    if (events & READABLE) side.readable = true;
    if (events & HUNG_UP) side.hungUp = true;
    if (events & EPOLLOUT) side.writable = true;
    if (events & EPOLLPRI) side.isUrgent = true;
    if ((events & (EPOLLRDHUP | EPOLLERR)) === EPOLLRDHUP) side.sawFin = true;
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

  /** Has the kernel probe a silent upstream. The client's socket inherits that from its listener. */
  keepUpstreamAlive(): void {
    const { upstream } = this;
    if (upstream === undefined || upstream.isProbed || this.phase === PHASE.dialling) return;
    upstream.isProbed = true;
    setKeepalive(this.#context.libc, upstream.fd, this.#context.limits.keepaliveMs);
  }

  /** Ends both sides at once with a reset. */
  cut(cause: CutCause): void {
    if (this.phase === PHASE.closed) return;
    this.listener.counters.cut(cause);
    this.#refuse();
  }

  #isClosed(): boolean {
    return this.phase === PHASE.closed;
  }

  #isRelaying(): boolean {
    return this.phase === PHASE.relaying || this.phase === PHASE.lingering;
  }

  /** Reads what the client has sent so far, into memory. The number of bytes, 0 at its end, or NOTHING. */
  #readFirst(): number {
    const { client } = this;
    const { libc } = this.#context;
    const read = libc.recv(client.fd, libc.memory.address + IO, READ_BYTES, 0);
    if (read === 0) client.ended = true;
    if (read >= 0) {
      client.isBulk = read === READ_BYTES;
      if (client.isBulk) client.readable = true;
      else if (read > 0) client.readShort();
      if (read > 0) this.#context.moved(client, read);
      return read;
    }
    client.readable = read === -ERRNO.EINTR;
    if (client.readable) this.#context.again(this);
    else if (read !== -ERRNO.EAGAIN) this.cut("client-reset");
    return NOTHING;
  }

  /** Sends the header and `count` bytes in memory to an upstream that has only just been called; false: it has not answered yet. */
  #writeAtOnce(dial: UpstreamConnect, upstream: SocketState, count: number): boolean {
    const { client } = this;
    const { libc } = this.#context;
    const { bytes, address } = libc.memory;
    const start = this.#putHeader();
    const length = IO + count - start;
    const sent = libc.send(upstream.fd, address + start, length, MSG_NOSIGNAL);
    this.listener.wroteAtOnce(sent > 0);
    if (sent <= 0) {
      if (count > 0) client.pending = bytes.slice(IO, IO + count);
      if (sent === -ERRNO.EAGAIN || sent === -ERRNO.EINTR) return false;
      dial.refused(-sent);
      this.#dropUpstream(upstream);
      if (this.#watch(client, QUIET_EVENTS)) this.#dialNext(dial);
      return true;
    }
    upstream.hasSent = true;
    upstream.writable = sent === length;
    upstream.isArmed = sent < length;
    if (sent < length) client.pending = bytes.slice(start + sent, start + length);
    this.#header = undefined;
    this.phase = PHASE.relaying;
    this.#connected(dial);
    const isWatched =
      this.#watch(client, QUIET_EVENTS) && this.#watch(upstream, upstream.isArmed ? ARMED_EVENTS : QUIET_EVENTS);
    if (isWatched && (client.readable || client.ended)) this.advance();
    return true;
  }

  /** Has epoll watch a socket. If the system refuses, the connection is over, and that is said by false. */
  #watch(side: SocketState, events: number): boolean {
    if (this.#context.register(side, events)) return true;
    this.#context.outOfResources(this, "epoll_ctl");
    this.#refuse();
    return false;
  }

  #dialNext(dial: UpstreamConnect): void {
    const fd = dial.step();
    if (fd < 0) {
      this.#notDialled(dial, fd);
      return;
    }
    this.upstream = new SocketState(this, fd, false);
    this.#await(this.upstream);
  }

  /** Waits for the upstream's answer. */
  #await(upstream: SocketState): void {
    const { limits, dialling, now } = this.#context;
    if (limits.connectTimeoutMs > 0) dialling.add(this, now);
    this.#watch(upstream, ARMED_EVENTS);
  }

  #notDialled(dial: UpstreamConnect, step: number): void {
    if (step === DIAL_LOCAL_LIMIT) this.#context.outOfResources(this, dial.limit);
    else {
      this.listener.counters.refused("upstream");
      this.#context.dialled(this, dial, false);
    }
    this.#refuse();
  }

  #dialAnswered(upstream: SocketState, events: number): void {
    const dial = this.#dial;
    if (dial === undefined || (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return;
    if (events & (EPOLLERR | EPOLLHUP)) {
      dial.refused(pendingError(this.#context.libc, upstream.fd) || ERRNO.ECONNRESET);
      this.#dropUpstream(upstream);
      this.#dialNext(dial);
      return;
    }
    this.list?.remove(this);
    this.phase = this.#header?.length === 0 ? PHASE.relaying : PHASE.greeting;
    this.#connected(dial);
    this.advance();
  }

  #connected(dial: UpstreamConnect): void {
    this.#dial = undefined;
    this.silentSweeps = 0;
    dial.connected();
    this.#context.dialled(this, dial, true);
  }

  /** Sends the header with the client's first bytes, or its end; if there is neither, waits for them. */
  #greet(client: SocketState, upstream: SocketState): void {
    const { bytes } = this.#context.libc.memory;
    const early = client.pending;
    if (early !== undefined) {
      client.pending = undefined;
      bytes.set(early, IO);
      this.#sendHeader(client, upstream, early.length);
      return;
    }
    const count = client.ended ? 0 : client.readable ? this.#readFirst() : NOTHING;
    if (count !== NOTHING) this.#sendHeader(client, upstream, count);
    else if (!this.#isClosed() && this.list === undefined) this.#context.greeting.add(this, this.#context.now);
  }

  /** Puts the header in memory so that it ends where the client's bytes begin; where it begins. */
  #putHeader(): number {
    const header = this.#header ?? NO_HEADER;
    const start = IO - header.length;
    this.#context.libc.memory.bytes.set(header, start);
    return start;
  }

  /** The header and `count` bytes of the client that lie in memory behind it. GREETING to RELAYING. */
  #sendHeader(client: SocketState, upstream: SocketState, count: number): void {
    const { pump } = this.#context;
    const start = this.#putHeader();
    this.list?.remove(this);
    this.#header = undefined;
    this.phase = PHASE.relaying;
    if (pump.send(client, upstream, start, IO + count - start) !== undefined) this.#lost(upstream, pump.errno);
  }

  #move(source: SocketState, sink: SocketState): void {
    if (source.finished) return;
    const { pump } = this.#context;
    const outcome = pump.run(source, sink);
    if (outcome === PUMP.atEnd) this.#finish(source, sink);
    else if (outcome === PUMP.hasMore) this.#context.again(this);
    else if (outcome === PUMP.sourceFailed) this.#lost(source, pump.errno);
    else if (outcome === PUMP.sinkFailed) this.#lost(sink, pump.errno);
  }

  /** Passes a FIN on. When both are through, closing does that by itself. */
  #finish(source: SocketState, sink: SocketState): void {
    source.finished = true;
    if (sink.finished) this.#close();
    // If it fails the peer is gone, and an event or the next read says so.
    else if (!source.discarded) this.#context.libc.shutdown(sink.fd, SHUT_WR);
  }

  /** A socket has failed. EPIPE is what Linux says of a reset that came after a FIN. */
  #lost(side: SocketState, errno: number): void {
    if (side.isClient) this.cut("client-reset");
    else if (side.ended || errno === ERRNO.EPIPE) this.#linger(this.client);
    else this.cut("upstream-reset");
  }

  #linger(client: SocketState): void {
    if (this.phase === PHASE.lingering) return;
    this.phase = PHASE.lingering;
    client.discarded = true;
    this.#context.lingering.add(this, this.#context.now);
    this.#context.again(this);
  }

  /** No upstream: the client gets a reset, so that it cannot take this for an empty answer. */
  #refuse(): void {
    this.#release();
    this.#reset(this.client);
    if (this.upstream !== undefined) this.#reset(this.upstream);
    this.#context.closed(this);
  }

  #reset(side: SocketState): void {
    this.#context.forget(side);
    closeWithReset(this.#context.libc, side.fd);
  }

  #close(): void {
    this.#release();
    this.#closeSide(this.client);
    if (this.upstream !== undefined) this.#closeSide(this.upstream);
    this.#context.closed(this);
  }

  #closeSide(side: SocketState): void {
    this.#context.forget(side);
    this.#context.libc.close(side.fd);
  }

  #dropUpstream(upstream: SocketState): void {
    this.list?.remove(this);
    this.upstream = undefined;
    this.#closeSide(upstream);
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
