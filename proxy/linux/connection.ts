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
import type { ListenerState } from "./listener-state.ts";
import { IO_OFFSET } from "./memory.ts";
import { PUMP, type Pump, type PumpContext, READ_BYTES } from "./pump.ts";
import { SocketState } from "./socket-state.ts";
import { closeWithReset, pendingError, setKeepalive } from "./sockets.ts";
import type { TimeoutEntry, TimeoutQueue } from "./timeout-queue.ts";
import { DIAL_LOCAL_LIMIT, UpstreamDial } from "./upstream-dial.ts";

/** What a connection needs from its event loop. */
export interface RelayContext extends PumpContext {
  readonly pump: Pump;
  readonly limits: EngineLimits;
  /** Timeouts of connect(), of the client's first bytes, and of a client that still sends after the upstream is gone. */
  readonly connectTimeouts: TimeoutQueue;
  readonly firstBytesTimeouts: TimeoutQueue;
  readonly lingerTimeouts: TimeoutQueue;
  /** The loop's clock in milliseconds, read once per round. */
  readonly now: number;
  /** Adds a socket to the epoll set; false if the kernel refuses. */
  register(socket: SocketState, events: number): boolean;
  /** To be called before a descriptor is closed. */
  unregister(socket: SocketState): void;
  /** Has the connection advanced again at the end of this round. */
  requeue(connection: LinuxConnection): void;
  /** A dial has connected, or failed at every address. */
  dialEnded(connection: LinuxConnection, dial: UpstreamDial, connected: boolean): void;
  outOfResources(connection: LinuxConnection, detail: string): void;
  /** Both sockets are closed. */
  connectionClosed(connection: LinuxConnection): void;
}

const PHASE = { connecting: 0, awaitingFirstBytes: 1, relaying: 2, lingering: 3, closed: 4 } as const;
type Phase = (typeof PHASE)[keyof typeof PHASE];

const READABLE = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
const HUNG_UP = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
/** Events for a socket that was writable at its last write. */
const QUIET_EVENTS = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;
export const ARMED_EVENTS = QUIET_EVENTS | EPOLLOUT;
const NO_HEADER = new Uint8Array(0);
/** The client has sent neither bytes nor a FIN yet. */
const NO_BYTES_YET = -1;

/**
 * One client and its upstream.
 *
 *      accepted          connected             header sent
 *     --------> CONNECTING ---> AWAITING FIRST BYTES --------> RELAYING -----------------------> CLOSED
 *                   |                  |  client's first bytes    |  FIN one way: passed on, half-closed
 *                   | no address       |  or FIN, or after        |  FIN both ways: closed
 *                   | is left: RST     |  firstBytesMs            |
 *                   |                  |                          |  upstream's FIN, then its RST
 *                   |                  |                          +-----------------> LINGERING ---> CLOSED
 *                   |                  |                          |                   the client is read and its bytes
 *                   |                  |                          |                   dropped until its FIN, 30 s at most
 *                   +------------------+--------------------------+-- RST of one side, idle, drain: RST to the other --> CLOSED
 *
 * The header and the client's first bytes leave in one send, hence in one segment: some receivers treat a header that arrives alone as
 * a complete, malformed request. If the client's first bytes are there at accept and the upstream is on this machine, the send follows
 * connect() at once: the connection is RELAYING before it is added to epoll.
 *
 * A reset from the upstream after its FIN is typically an early answer (413) to an upload that it then refuses to read. Resetting the
 * client at that point would discard the part of the answer in flight, so the client's half stays open, as with nginx's lingering_close.
 */
export class LinuxConnection implements TimeoutEntry {
  deadline = 0;
  queue: TimeoutQueue | undefined = undefined;
  previous: TimeoutEntry | undefined = undefined;
  next: TimeoutEntry | undefined = undefined;
  readonly listener: ListenerState;
  readonly client: SocketState;
  upstream: SocketState | undefined = undefined;
  /** The slot of the client's address in the connection limiter. */
  readonly limiterSlot: number;
  phase: Phase = PHASE.connecting;
  /** Consecutive idle sweeps without traffic. */
  silentSweeps = 0;
  /** It is in the loop's run queue. */
  isQueued = false;
  readonly #context: RelayContext;
  #header: Uint8Array | undefined;
  #dial: UpstreamDial | undefined = undefined;

  constructor(context: RelayContext, listener: ListenerState, fd: number, limiterSlot: number) {
    this.#context = context;
    this.listener = listener;
    this.limiterSlot = limiterSlot;
    this.client = new SocketState(this, fd, true);
    this.client.writable = true;
  }

  /** Starts to dial. `header` is omitted for protocol `none`. */
  open(header: Uint8Array = NO_HEADER): void {
    const dial = new UpstreamDial(this.#context.libc, this.listener);
    this.#header = header;
    this.#dial = dial;
    const count = this.listener.shouldWriteEarly() ? this.#readFirstBytes() : NO_BYTES_YET;
    if (this.#isClosed()) return;
    const fd = dial.connectNext();
    if (fd < 0) {
      this.#dialFailed(dial, fd);
      return;
    }
    const upstream = new SocketState(this, fd, false);
    this.upstream = upstream;
    if (header.length + count > 0 && count !== NO_BYTES_YET && this.#writeEarly(dial, upstream, count)) return;
    if (this.#register(this.client, QUIET_EVENTS)) this.#awaitConnect(upstream);
  }

  /** Handles epoll events of one of the two sockets. */
  onEvents(socket: SocketState, events: number): void {
    if (events & READABLE) socket.readable = true;
    if (events & HUNG_UP) socket.hungUp = true;
    if (events & EPOLLOUT) socket.writable = true;
    if (events & EPOLLPRI) socket.hasUrgentData = true;
    if ((events & (EPOLLRDHUP | EPOLLERR)) === EPOLLRDHUP) socket.finReported = true;
    if (events & EPOLLERR) {
      // The client is gone. Bytes that it sent before are discarded.
      if (socket.isClient) {
        this.cut("client-reset");
        return;
      }
      socket.hasFailed = true;
    }
    if (this.phase !== PHASE.connecting) this.advance();
    else if (!socket.isClient) this.#connectCompleted(socket, events);
  }

  /** Moves as many bytes as possible in both directions. */
  advance(): void {
    const { client, upstream } = this;
    if (upstream === undefined || this.phase === PHASE.connecting || this.phase === PHASE.closed) return;
    if (this.phase === PHASE.awaitingFirstBytes) this.#sendFirstBytes(client, upstream);
    // Not `else`: the header may just have been sent.
    if (this.#isRelaying()) this.#relay(client, upstream);
    if (!this.#isClosed()) this.#relay(upstream, client);
    if (upstream.finRead && upstream.hasFailed && this.#isRelaying()) this.#linger(client);
  }

  /** The address did not answer within the connect timeout. */
  connectTimedOut(): void {
    const { upstream } = this;
    if (upstream === undefined || this.#dial === undefined) return;
    this.#dial.connectTimedOut(this.#context.limits.connectTimeoutMs);
    this.#closeUpstream(upstream);
    this.#connectNext(this.#dial);
  }

  /** The client has sent nothing within firstBytesMs: sends the header alone. */
  firstBytesTimedOut(): void {
    if (this.upstream === undefined || this.phase !== PHASE.awaitingFirstBytes) return;
    this.#sendHeader(this.client, this.upstream, 0);
    this.advance();
  }

  lingerTimedOut(): void {
    // Bytes still to be sent to the client are the answer that lingering protects.
    if (this.upstream?.isFlushed === false) this.#context.lingerTimeouts.add(this, this.#context.now);
    else this.cut("upstream-reset");
  }

  /** Enables TCP keepalive towards the upstream. The client's socket inherits it from its listener. */
  enableUpstreamKeepalive(): void {
    const { upstream } = this;
    if (upstream === undefined || upstream.hasKeepalive || this.phase === PHASE.connecting) return;
    upstream.hasKeepalive = true;
    setKeepalive(this.#context.libc, upstream.fd, this.#context.limits.keepaliveMs);
  }

  /** Resets both sockets. */
  cut(cause: CutCause): void {
    if (this.phase === PHASE.closed) return;
    this.listener.counters.cut(cause);
    this.#resetBoth();
  }

  #isClosed(): boolean {
    return this.phase === PHASE.closed;
  }

  #isRelaying(): boolean {
    return this.phase === PHASE.relaying || this.phase === PHASE.lingering;
  }

  /** Reads what the client has sent so far into memory. Returns the number of bytes, 0 after a FIN, or NO_BYTES_YET. */
  #readFirstBytes(): number {
    const { client } = this;
    const { libc } = this.#context;
    const read = libc.recv(client.fd, libc.memory.address + IO_OFFSET, READ_BYTES, 0);
    if (read === 0) client.finRead = true;
    if (read >= 0) {
      client.isBulk = read === READ_BYTES;
      if (client.isBulk) client.readable = true;
      else if (read > 0) client.recordShortRead();
      if (read > 0) this.#context.bytesRead(client, read);
      return read;
    }
    client.readable = read === -ERRNO.EINTR;
    if (client.readable) this.#context.requeue(this);
    else if (read !== -ERRNO.EAGAIN) this.cut("client-reset");
    return NO_BYTES_YET;
  }

  /** Sends the header and `count` bytes in memory right after connect(); false if the handshake is not complete yet. */
  #writeEarly(dial: UpstreamDial, upstream: SocketState, count: number): boolean {
    const { client } = this;
    const { libc } = this.#context;
    const { bytes, address } = libc.memory;
    const start = this.#placeHeader();
    const length = IO_OFFSET + count - start;
    const sent = libc.send(upstream.fd, address + start, length, MSG_NOSIGNAL);
    this.listener.recordEarlyWrite(sent > 0);
    if (sent <= 0) {
      if (count > 0) client.pending = bytes.slice(IO_OFFSET, IO_OFFSET + count);
      if (sent === -ERRNO.EAGAIN || sent === -ERRNO.EINTR) return false;
      dial.connectFailed(-sent);
      this.#closeUpstream(upstream);
      if (this.#register(client, QUIET_EVENTS)) this.#connectNext(dial);
      return true;
    }
    upstream.hasBeenWritten = true;
    upstream.writable = sent === length;
    upstream.isArmed = sent < length;
    if (sent < length) client.pending = bytes.slice(start + sent, start + length);
    this.#header = undefined;
    this.phase = PHASE.relaying;
    this.#dialConnected(dial);
    const isWatched =
      this.#register(client, QUIET_EVENTS) && this.#register(upstream, upstream.isArmed ? ARMED_EVENTS : QUIET_EVENTS);
    if (isWatched && (client.readable || client.finRead)) this.advance();
    return true;
  }

  /** Adds a socket to the epoll set. If the kernel refuses, resets the connection and returns false. */
  #register(socket: SocketState, events: number): boolean {
    if (this.#context.register(socket, events)) return true;
    this.#context.outOfResources(this, "epoll_ctl");
    this.#resetBoth();
    return false;
  }

  #connectNext(dial: UpstreamDial): void {
    const fd = dial.connectNext();
    if (fd < 0) {
      this.#dialFailed(dial, fd);
      return;
    }
    this.upstream = new SocketState(this, fd, false);
    this.#awaitConnect(this.upstream);
  }

  /** Waits until connect() completes. */
  #awaitConnect(upstream: SocketState): void {
    const { limits, connectTimeouts, now } = this.#context;
    if (limits.connectTimeoutMs > 0) connectTimeouts.add(this, now);
    this.#register(upstream, ARMED_EVENTS);
  }

  #dialFailed(dial: UpstreamDial, result: number): void {
    if (result === DIAL_LOCAL_LIMIT) this.#context.outOfResources(this, dial.localLimit);
    else {
      this.listener.counters.refused("upstream");
      this.#context.dialEnded(this, dial, false);
    }
    this.#resetBoth();
  }

  #connectCompleted(upstream: SocketState, events: number): void {
    const dial = this.#dial;
    if (dial === undefined || (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return;
    if (events & (EPOLLERR | EPOLLHUP)) {
      dial.connectFailed(pendingError(this.#context.libc, upstream.fd) || ERRNO.ECONNRESET);
      this.#closeUpstream(upstream);
      this.#connectNext(dial);
      return;
    }
    this.queue?.remove(this);
    this.phase = this.#header?.length === 0 ? PHASE.relaying : PHASE.awaitingFirstBytes;
    this.#dialConnected(dial);
    this.advance();
  }

  #dialConnected(dial: UpstreamDial): void {
    this.#dial = undefined;
    this.silentSweeps = 0;
    dial.connected();
    this.#context.dialEnded(this, dial, true);
  }

  /** Sends the header with the client's first bytes or after its FIN; without either, waits for them. */
  #sendFirstBytes(client: SocketState, upstream: SocketState): void {
    const { bytes } = this.#context.libc.memory;
    const firstBytes = client.pending;
    if (firstBytes !== undefined) {
      client.pending = undefined;
      bytes.set(firstBytes, IO_OFFSET);
      this.#sendHeader(client, upstream, firstBytes.length);
      return;
    }
    const count = client.finRead ? 0 : client.readable ? this.#readFirstBytes() : NO_BYTES_YET;
    if (count !== NO_BYTES_YET) this.#sendHeader(client, upstream, count);
    else if (!this.#isClosed() && this.queue === undefined)
      this.#context.firstBytesTimeouts.add(this, this.#context.now);
  }

  /** Puts the header in memory so that it ends where the client's bytes begin. Returns the offset of the header. */
  #placeHeader(): number {
    const header = this.#header ?? NO_HEADER;
    const start = IO_OFFSET - header.length;
    this.#context.libc.memory.bytes.set(header, start);
    return start;
  }

  /** Sends the header and `count` bytes of the client that follow it in memory. AWAITING FIRST BYTES to RELAYING. */
  #sendHeader(client: SocketState, upstream: SocketState, count: number): void {
    const { pump } = this.#context;
    const start = this.#placeHeader();
    this.queue?.remove(this);
    this.#header = undefined;
    this.phase = PHASE.relaying;
    if (pump.send(client, upstream, start, IO_OFFSET + count - start) !== undefined)
      this.#socketFailed(upstream, pump.errno);
  }

  #relay(source: SocketState, sink: SocketState): void {
    if (source.finForwarded) return;
    const { pump } = this.#context;
    const result = pump.run(source, sink);
    if (result === PUMP.endOfStream) this.#forwardFin(source, sink);
    else if (result === PUMP.hasMore) this.#context.requeue(this);
    else if (result === PUMP.sourceFailed) this.#socketFailed(source, pump.errno);
    else if (result === PUMP.sinkFailed) this.#socketFailed(sink, pump.errno);
  }

  /** Passes a FIN on. When both directions are done, closing the sockets sends it. */
  #forwardFin(source: SocketState, sink: SocketState): void {
    source.finForwarded = true;
    if (sink.finForwarded) this.#closeBoth();
    // If shutdown fails the peer is gone, and an event or the next read reports it.
    else if (!source.isDiscarding) this.#context.libc.shutdown(sink.fd, SHUT_WR);
  }

  /** A socket has failed. Linux reports EPIPE for a reset that follows a FIN. */
  #socketFailed(socket: SocketState, errno: number): void {
    if (socket.isClient) this.cut("client-reset");
    else if (socket.finRead || errno === ERRNO.EPIPE) this.#linger(this.client);
    else this.cut("upstream-reset");
  }

  #linger(client: SocketState): void {
    if (this.phase === PHASE.lingering) return;
    this.phase = PHASE.lingering;
    client.isDiscarding = true;
    this.#context.lingerTimeouts.add(this, this.#context.now);
    this.#context.requeue(this);
  }

  /** Resets both sockets, so that the client cannot mistake a failure for an empty answer. */
  #resetBoth(): void {
    this.#release();
    this.#resetSocket(this.client);
    if (this.upstream !== undefined) this.#resetSocket(this.upstream);
    this.#context.connectionClosed(this);
  }

  #resetSocket(socket: SocketState): void {
    this.#context.unregister(socket);
    closeWithReset(this.#context.libc, socket.fd);
  }

  #closeBoth(): void {
    this.#release();
    this.#closeSocket(this.client);
    if (this.upstream !== undefined) this.#closeSocket(this.upstream);
    this.#context.connectionClosed(this);
  }

  #closeSocket(socket: SocketState): void {
    this.#context.unregister(socket);
    this.#context.libc.close(socket.fd);
  }

  #closeUpstream(upstream: SocketState): void {
    this.queue?.remove(this);
    this.upstream = undefined;
    this.#closeSocket(upstream);
  }

  #release(): void {
    this.phase = PHASE.closed;
    this.queue?.remove(this);
    this.#dial = undefined;
    this.#header = undefined;
    this.#context.pump.release(this.client);
    if (this.upstream !== undefined) this.#context.pump.release(this.upstream);
  }
}
