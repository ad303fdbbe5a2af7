import type { CutCause } from "../close-causes.ts";
import type { SignatureMatcher } from "../signature-matcher.ts";
import { EPOLLET, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP } from "./abi.ts";
import type { ListenerState } from "./listener-state.ts";
import type { Pipe } from "./pipes.ts";

/** Events for a socket that was writable at its last write. */
export const QUIET_EVENTS = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;
export const ARMED_EVENTS = QUIET_EVENTS | EPOLLOUT;

/** The connection of a socket, as its event loop sees it. */
export interface SocketOwner {
  readonly listener: ListenerState;
  /** The slot of the client's address in the connection limiter. */
  readonly limiterSlot: number;
  /** Consecutive idle sweeps without traffic. */
  silentSweeps: number;
  /** Whether it is in the loop's run queue. */
  isQueued: boolean;
  readonly isHalfClosed: boolean;
  onEvents(socket: SocketState, events: number): void;
  advance(): void;
  cut(cause: CutCause): void;
  halfClosedTimedOut(): void;
  enableUpstreamKeepalive(): void;
}

/**
 * One socket of a connection, and the stream that is read from it and sent to the other socket. Edge-triggered epoll
 * reports a change once: `readable` and `writable` store it until a call returns EAGAIN.
 */
export class SocketState {
  readonly connection: SocketOwner;
  readonly fd: number;
  readonly isClient: boolean;
  /** The serial of its entry in the epoll set. */
  serial = 0;
  readable = false;
  writable = false;
  /** EPOLLOUT is requested. For a client's socket only after a send returned EAGAIN. */
  isArmed: boolean;
  /** The peer has sent a FIN or a reset. Reads continue until one returns 0 or an error. */
  hungUp = false;
  /** epoll has reported a FIN. Everything before it is in the receive buffer, so a short read is the last one. */
  finReported = false;
  /** There was urgent data. Reads stop at its mark, so a short read implies nothing. */
  hasUrgentData = false;
  /** The socket has a pending error, or a call has returned one. */
  hasFailed = false;
  /** The FIN has been read. */
  finRead = false;
  /** The FIN has been passed on to the other socket, after all bytes. */
  finForwarded = false;
  /** The other socket is gone, so bytes read are dropped. */
  isDiscarding = false;
  /** Bytes have been sent on it. */
  hasBeenWritten = false;
  /** TCP_NODELAY is set. A client's socket inherits it from its listener. */
  hasNoDelay: boolean;
  /** TCP keepalive is set. */
  hasKeepalive = false;
  /** The last read filled the buffer, so the next one is a splice. */
  isBulk = false;
  /** Set for a client that may not send a PROXY header, until its first bytes show that it sends none. */
  signature: SignatureMatcher | undefined = undefined;
  /** Bytes read but not sent to the other socket yet. */
  pending: Uint8Array | undefined = undefined;
  /** Holds bytes spliced from this socket but not sent to the other one yet. */
  pipe: Pipe | undefined = undefined;

  constructor(connection: SocketOwner, fd: number, isClient: boolean) {
    this.connection = connection;
    this.fd = fd;
    this.isClient = isClient;
    this.isArmed = !isClient;
    this.hasNoDelay = isClient;
  }

  /** Records a read that returned less than requested. */
  recordShortRead(): void {
    if (this.hasUrgentData) return;
    // Later bytes cause a new edge.
    if (!this.hungUp) this.readable = false;
    else if (this.finReported) this.finRead = true;
  }

  /** Whether the stream, with these next bytes, begins with the signature of a PROXY header. */
  beginsWithSignature(bytes: Uint8Array): boolean {
    const answer = this.signature?.take(bytes);
    if (answer === "no") this.signature = undefined;
    return answer === "yes";
  }

  /** All bytes read have been sent. */
  get isFlushed(): boolean {
    return this.pending === undefined && this.pipe === undefined;
  }
}
