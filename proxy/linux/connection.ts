import type { CutCause } from "../close-causes.ts";
import { SignatureMatcher } from "../signature-matcher.ts";
import { EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, ERRNO, SHUT_WR } from "./abi.ts";
import { type OpenedConnection, Opening } from "./connection-opening.ts";
import { PHASE, type Phase } from "./connection-phase.ts";
import type { ListenerState } from "./listener-state.ts";
import { PUMP } from "./pump.ts";
import type { RelayContext } from "./relay-context.ts";
import { SocketState } from "./socket-state.ts";
import { closeWithReset, setKeepalive } from "./sockets.ts";
import type { TimeoutEntry, TimeoutQueue } from "./timeout-queue.ts";

const READABLE = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
const HUNG_UP = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

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
 *                   |                  |                          |                   dropped until its FIN, max. 30 s
 *                   +------------------+--------------------------+-- RST of one side, idle, drain:
 *                                                                 |   RST to the other -----> CLOSED
 *                                                                 +-- upstream's FIN, then silence:
 *                                                                     close the client, RST to the upstream
 *
 * The header and the client's first bytes leave in one send, hence in one segment. Some receivers treat a header that
 * arrives alone as a complete, malformed request. If the client's first bytes are there at accept and the upstream is
 * on this machine, the send follows connect() at once. The connection is RELAYING before it is added to epoll.
 *
 * A reset from the upstream after its FIN is typically an early answer (413) to an upload that the upstream does not
 * read. A reset of the client would discard the part of the answer in flight. So the client's half stays open, as with
 * nginx's lingering_close.
 */
export class LinuxConnection implements OpenedConnection {
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
  /** Whether it is in the loop's run queue. */
  isQueued = false;
  readonly #context: RelayContext;
  /** Defined until the header is sent. */
  #opening: Opening | undefined = undefined;

  constructor(context: RelayContext, listener: ListenerState, fd: number, limiterSlot: number) {
    this.#context = context;
    this.listener = listener;
    this.limiterSlot = limiterSlot;
    this.client = new SocketState(this, fd, true);
    this.client.writable = true;
    if (listener.spec.refusesClientHeaders) this.client.signature = new SignatureMatcher();
  }

  /** Starts to dial. `header` is omitted for protocol `none`. */
  open(header?: Uint8Array): void {
    this.#opening = new Opening(this.#context, this, header);
    this.#opening.start();
  }

  /** The upstream is connected and the header is sent. CONNECTING or AWAITING FIRST BYTES to RELAYING. */
  startRelaying(): void {
    this.phase = PHASE.relaying;
    this.#opening = undefined;
  }

  /** Handles epoll events of one of the two sockets. */
  onEvents(socket: SocketState, events: number): void {
    if (events & READABLE) socket.readable = true;
    if (events & HUNG_UP) socket.hungUp = true;
    if (events & EPOLLOUT) {
      socket.writable = true;
      // The peer has taken bytes.
      this.silentSweeps = 0;
    }
    if (events & EPOLLPRI) socket.hasUrgentData = true;
    if ((events & (EPOLLRDHUP | EPOLLERR)) === EPOLLRDHUP) this.#finReported(socket);
    if (events & EPOLLERR) {
      // The client is gone. Its earlier bytes are discarded.
      if (socket.isClient) {
        this.cut("client-reset");
        return;
      }
      socket.hasFailed = true;
    }
    if (this.phase !== PHASE.connecting) this.advance();
    else if (!socket.isClient) this.#opening?.connectCompleted(socket, events);
  }

  /** Moves as many bytes as possible in both directions. */
  advance(): void {
    const { client, upstream } = this;
    if (upstream === undefined || this.phase === PHASE.connecting || this.phase === PHASE.closed) return;
    if (this.phase === PHASE.awaitingFirstBytes) this.#opening?.sendFirstBytes(upstream);
    // Not `else`: the line above may have sent the header.
    if (this.#isRelaying()) this.#relay(client, upstream);
    if (!this.isClosed()) this.#relay(upstream, client);
    if (upstream.finRead && upstream.hasFailed && this.#isRelaying()) this.#linger(client);
  }

  connectTimedOut(): void {
    if (this.phase === PHASE.connecting) this.#opening?.connectTimedOut();
  }

  firstBytesTimedOut(): void {
    if (this.phase !== PHASE.awaitingFirstBytes) return;
    this.#opening?.firstBytesTimedOut();
    this.advance();
  }

  lingerTimedOut(): void {
    // Lingering protects the answer, of which some bytes are not sent yet.
    if (this.upstream?.isFlushed === false) this.#context.lingerTimeouts.add(this, this.#context.now);
    else this.cut("upstream-reset");
  }

  /** Whether the upstream has sent its FIN. The client may not have all bytes before it yet. */
  get isHalfClosed(): boolean {
    return this.upstream?.finReported === true || this.upstream?.finRead === true;
  }

  /**
   * The upstream has sent its FIN, and no byte has moved for the half-closed timeout. If the kernel has all bytes for
   * the client, it still sends them after the close. Otherwise a reset shows that the answer is not complete. The
   * upstream gets a reset too, because it must not consider the client's bytes complete.
   */
  halfClosedTimedOut(): void {
    const { client, upstream } = this;
    if (upstream?.finForwarded !== true) {
      this.cut("half-closed-timeout");
      return;
    }
    this.listener.counters.cut("half-closed-timeout");
    this.#release();
    this.#closeSocket(client);
    this.#resetSocket(upstream);
    this.#context.connectionClosed(this);
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
    this.resetBoth();
  }

  /** The client has begun with a PROXY header that is not allowed. */
  refuseClientHeader(): void {
    this.#context.clientHeaderRefused(this);
    this.resetBoth();
  }

  isClosed(): boolean {
    return this.phase === PHASE.closed;
  }

  #isRelaying(): boolean {
    return this.phase === PHASE.relaying || this.phase === PHASE.lingering;
  }

  #relay(source: SocketState, sink: SocketState): void {
    if (source.finForwarded) return;
    const { pump } = this.#context;
    const result = pump.run(source, sink);
    if (result === PUMP.endOfStream) this.#forwardFin(source, sink);
    else if (result === PUMP.hasMore) this.#context.requeue(this);
    else if (result === PUMP.sourceFailed) this.socketFailed(source, pump.errno);
    else if (result === PUMP.sinkFailed) this.socketFailed(sink, pump.errno);
    else if (result === PUMP.refused) this.refuseClientHeader();
  }

  #finReported(socket: SocketState): void {
    if (!socket.finReported) this.silentSweeps = 0;
    socket.finReported = true;
  }

  /** Passes a FIN on. When both directions are done, closing the sockets sends it. */
  #forwardFin(source: SocketState, sink: SocketState): void {
    source.finForwarded = true;
    this.silentSweeps = 0;
    if (sink.finForwarded) this.#closeBoth();
    // If shutdown fails the peer is gone, and an event or the next read reports it.
    else if (!source.isDiscarding) this.#context.libc.shutdown(sink.fd, SHUT_WR);
  }

  /** A socket has failed with a positive errno. Linux reports EPIPE for a reset that follows a FIN. */
  socketFailed(socket: SocketState, errno: number): void {
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
  resetBoth(): void {
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

  /** Closes the socket of an address that did not connect. */
  closeUpstream(upstream: SocketState): void {
    this.queue?.remove(this);
    this.upstream = undefined;
    this.#closeSocket(upstream);
  }

  #release(): void {
    this.phase = PHASE.closed;
    this.queue?.remove(this);
    this.#opening = undefined;
    this.#context.pump.release(this.client);
    if (this.upstream !== undefined) this.#context.pump.release(this.upstream);
  }
}
