import { EPOLLERR, EPOLLHUP, EPOLLOUT, ERRNO, MSG_NOSIGNAL } from "./abi.ts";
import { PHASE, type Phase } from "./connection-phase.ts";
import { IO_OFFSET } from "./memory.ts";
import { READ_BYTES } from "./pump.ts";
import type { RelayContext } from "./relay-context.ts";
import { ARMED_EVENTS, QUIET_EVENTS, type SocketOwner, SocketState } from "./socket-state.ts";
import { pendingError } from "./sockets.ts";
import type { TimeoutEntry } from "./timeout-queue.ts";
import { DIAL_LOCAL_LIMIT, UpstreamDial } from "./upstream-dial.ts";

const NO_HEADER = new Uint8Array(0);
/** The client has not sent bytes or a FIN yet. */
const NO_BYTES_YET = -1;

/** The connection that is opened. */
export interface OpenedConnection extends SocketOwner, TimeoutEntry {
  readonly client: SocketState;
  upstream: SocketState | undefined;
  phase: Phase;
  isClosed(): boolean;
  startRelaying(): void;
  refuseClientHeader(): void;
  closeUpstream(upstream: SocketState): void;
  socketFailed(socket: SocketState, errno: number): void;
  resetBoth(): void;
}

/**
 * The opening of a connection: dials, and sends the header with the client's first bytes. In the diagram of
 * LinuxConnection, its phases are CONNECTING and AWAITING FIRST BYTES.
 */
export class Opening {
  readonly #context: RelayContext;
  readonly #connection: OpenedConnection;
  readonly #header: Uint8Array;
  readonly #dial: UpstreamDial;

  constructor(context: RelayContext, connection: OpenedConnection, header: Uint8Array = NO_HEADER) {
    this.#context = context;
    this.#connection = connection;
    this.#header = header;
    this.#dial = new UpstreamDial(context.libc, connection.listener, context.isOutOfFds);
  }

  start(): void {
    const { client, listener } = this.#connection;
    const count = listener.shouldWriteEarly() ? this.#readFirstBytes() : NO_BYTES_YET;
    if (this.#connection.isClosed()) return;
    const upstream = this.#connectNext();
    if (upstream === undefined) return;
    if (this.#header.length + count > 0 && count !== NO_BYTES_YET && this.#writeEarly(upstream, count)) return;
    if (this.#register(client, QUIET_EVENTS)) this.#awaitConnect(upstream);
  }

  /** Handles epoll events of the socket that is connecting. */
  connectCompleted(upstream: SocketState, events: number): void {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return;
    const connection = this.#connection;
    if (events & (EPOLLERR | EPOLLHUP)) {
      this.#dial.connectFailed(pendingError(this.#context.libc, upstream.fd) || ERRNO.ECONNRESET);
      connection.closeUpstream(upstream);
      this.#dialNext();
      return;
    }
    connection.queue?.remove(connection);
    if (this.#header.length === 0) connection.startRelaying();
    else connection.phase = PHASE.awaitingFirstBytes;
    this.#dialConnected();
    connection.advance();
  }

  /** The address did not answer within the connect timeout. */
  connectTimedOut(): void {
    const { upstream } = this.#connection;
    if (upstream === undefined) return;
    this.#dial.connectTimedOut(this.#context.limits.connectTimeoutMs);
    this.#connection.closeUpstream(upstream);
    this.#dialNext();
  }

  /** The client has sent nothing within firstBytesMs: sends the header alone. */
  firstBytesTimedOut(): void {
    const { upstream } = this.#connection;
    if (upstream !== undefined) this.#sendHeader(upstream, 0);
  }

  /** Sends the header with the client's first bytes, or alone after its FIN. Without either, waits for them. */
  sendFirstBytes(upstream: SocketState): void {
    const connection = this.#connection;
    const { client } = connection;
    const firstBytes = client.pending;
    if (firstBytes !== undefined) {
      client.pending = undefined;
      this.#context.libc.memory.bytes.set(firstBytes, IO_OFFSET);
      this.#sendHeader(upstream, firstBytes.length);
      return;
    }
    const count = client.finRead ? 0 : client.readable ? this.#readFirstBytes() : NO_BYTES_YET;
    if (count !== NO_BYTES_YET) this.#sendHeader(upstream, count);
    else if (!connection.isClosed() && connection.queue === undefined)
      this.#context.firstBytesTimeouts.add(connection, this.#context.now);
  }

  /** Reads what the client has sent so far into memory. Returns the number of bytes, 0 after a FIN, or NO_BYTES_YET. */
  #readFirstBytes(): number {
    const { client } = this.#connection;
    const { libc } = this.#context;
    const read = libc.recv(client.fd, libc.memory.address + IO_OFFSET, READ_BYTES, 0);
    if (read === 0) client.finRead = true;
    if (read >= 0) {
      client.isBulk = read === READ_BYTES;
      if (client.isBulk) client.readable = true;
      else if (read > 0) client.recordShortRead();
      if (read > 0) this.#context.bytesRead(client, read);
      if (client.signature === undefined) return read;
      const bytes = libc.memory.bytes.subarray(IO_OFFSET, IO_OFFSET + read);
      if (!client.beginsWithSignature(bytes)) return read;
      this.#connection.refuseClientHeader();
      return NO_BYTES_YET;
    }
    client.readable = read === -ERRNO.EINTR;
    if (client.readable) this.#context.requeue(this.#connection);
    else if (read !== -ERRNO.EAGAIN) this.#connection.cut("client-reset");
    return NO_BYTES_YET;
  }

  /** Sends the header and `count` bytes in memory right after connect(). False if the handshake is not complete yet. */
  #writeEarly(upstream: SocketState, count: number): boolean {
    const connection = this.#connection;
    const { client, listener } = connection;
    const { libc } = this.#context;
    const { bytes, address } = libc.memory;
    const start = this.#placeHeader();
    const length = IO_OFFSET + count - start;
    const sent = libc.send(upstream.fd, address + start, length, MSG_NOSIGNAL);
    listener.recordEarlyWrite(sent > 0);
    if (sent <= 0) {
      if (count > 0) client.pending = bytes.slice(IO_OFFSET, IO_OFFSET + count);
      if (sent === -ERRNO.EAGAIN || sent === -ERRNO.EINTR) return false;
      this.#dial.connectFailed(-sent);
      connection.closeUpstream(upstream);
      if (this.#register(client, QUIET_EVENTS)) this.#dialNext();
      return true;
    }
    upstream.hasBeenWritten = true;
    upstream.writable = sent === length;
    upstream.isArmed = sent < length;
    if (sent < length) client.pending = bytes.slice(start + sent, start + length);
    connection.startRelaying();
    this.#dialConnected();
    const isWatched =
      this.#register(client, QUIET_EVENTS) && this.#register(upstream, upstream.isArmed ? ARMED_EVENTS : QUIET_EVENTS);
    if (isWatched && (client.readable || client.finRead)) connection.advance();
    return true;
  }

  /** Adds a socket to the epoll set. If the kernel refuses, resets the connection and returns false. */
  #register(socket: SocketState, events: number): boolean {
    if (this.#context.register(socket, events)) return true;
    this.#context.outOfResources(this.#connection, "epoll_ctl");
    this.#connection.resetBoth();
    return false;
  }

  /** Starts to connect to the next address. Undefined if none is left: the client is then refused. */
  #connectNext(): SocketState | undefined {
    const fd = this.#dial.connectNext();
    if (fd < 0) {
      this.#dialFailed(fd);
      return undefined;
    }
    const upstream = new SocketState(this.#connection, fd, false);
    this.#connection.upstream = upstream;
    return upstream;
  }

  #dialNext(): void {
    const upstream = this.#connectNext();
    if (upstream !== undefined) this.#awaitConnect(upstream);
  }

  /** Waits until connect() completes. */
  #awaitConnect(upstream: SocketState): void {
    const { limits, connectTimeouts, nextAddressTimeouts, now } = this.#context;
    const timeouts = this.#dial.hasNext ? nextAddressTimeouts : connectTimeouts;
    if (limits.connectTimeoutMs > 0) timeouts.add(this.#connection, now);
    this.#register(upstream, ARMED_EVENTS);
  }

  #dialFailed(result: number): void {
    const connection = this.#connection;
    if (result === DIAL_LOCAL_LIMIT) this.#context.outOfResources(connection, this.#dial.localLimit);
    else {
      connection.listener.counters.refused("upstream");
      this.#context.dialEnded(connection, this.#dial, false);
    }
    connection.resetBoth();
  }

  #dialConnected(): void {
    this.#connection.silentSweeps = 0;
    this.#dial.connected();
    this.#context.dialEnded(this.#connection, this.#dial, true);
  }

  /** Puts the header in memory so that it ends where the client's bytes begin. Returns the offset of the header. */
  #placeHeader(): number {
    const start = IO_OFFSET - this.#header.length;
    this.#context.libc.memory.bytes.set(this.#header, start);
    return start;
  }

  /** Sends the header and `count` bytes of the client that follow it in memory. AWAITING FIRST BYTES to RELAYING. */
  #sendHeader(upstream: SocketState, count: number): void {
    const connection = this.#connection;
    const { pump } = this.#context;
    const start = this.#placeHeader();
    connection.queue?.remove(connection);
    connection.startRelaying();
    if (pump.send(connection.client, upstream, start, IO_OFFSET + count - start) !== undefined)
      connection.socketFailed(upstream, pump.errno);
  }
}
