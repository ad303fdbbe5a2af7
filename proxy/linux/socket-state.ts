import type { LinuxConnection } from "./connection.ts";
import type { Pipe } from "./pipes.ts";

/**
 * One socket of a connection, and the stream that is read from it and goes out at the other socket. Edge-triggered epoll tells of
 * a change once: `readable` and `writable` remember it until a call says EAGAIN.
 */
export class SocketState {
  readonly connection: LinuxConnection;
  readonly fd: number;
  readonly isClient: boolean;
  /** Stands in epoll's data next to fd: an event of a closed descriptor never reaches the one that got its number. */
  serial = 0;
  readable = false;
  writable = false;
  /** epoll reports when it becomes writable. A client's socket is only asked once it has said EAGAIN. */
  isArmed: boolean;
  /** The peer has sent a FIN or a reset: what is read ends in 0 or an error, and is read until then. */
  hungUp = false;
  /** It was a FIN. All that comes before a FIN is in the socket by then: a short read is the last. */
  finReported = false;
  /** There was urgent data: reads stop at its mark, so that a short read says nothing. */
  hasUrgentData = false;
  /** An error waits in the socket, or has been read from it. */
  hasFailed = false;
  /** The FIN has been read. */
  finRead = false;
  /** And passed on to the other socket, after all bytes. */
  finForwarded = false;
  /** Read and dropped: the other side takes no more. */
  isDiscarding = false;
  /** Something has been written to it; small writes go out at once (TCP_NODELAY), which a client's socket inherits. */
  hasBeenWritten = false;
  hasNoDelay: boolean;
  /** The kernel probes it when it is silent. */
  hasKeepalive = false;
  /** The last read was a large one: the next is a splice. */
  isBulk = false;
  /** Read, but not taken by the other socket yet. */
  pending: Uint8Array | undefined = undefined;
  /** Holds bytes that were spliced from here and not taken by the other socket yet. */
  pipe: Pipe | undefined = undefined;

  constructor(connection: LinuxConnection, fd: number, isClient: boolean) {
    this.connection = connection;
    this.fd = fd;
    this.isClient = isClient;
    this.isArmed = !isClient;
    this.hasNoDelay = isClient;
  }

  /** Takes in that a read gave less than it could have. */
  recordShortRead(): void {
    if (this.hasUrgentData) return;
    // What comes later is a new edge.
    if (!this.hungUp) this.readable = false;
    else if (this.finReported) this.finRead = true;
  }

  /** Nothing that was read waits to be sent. */
  get isFlushed(): boolean {
    return this.pending === undefined && this.pipe === undefined;
  }
}
