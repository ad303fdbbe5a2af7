import { EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, ERRNO } from "#proxy/linux/abi.ts";

const ECONNREFUSED = 111;

/** Bytes in a queue. */
export class Bytes {
  #chunks: Uint8Array[] = [];
  length = 0;

  push(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#chunks.push(bytes);
    this.length += bytes.length;
  }

  take(count: number): Uint8Array {
    const taken: Uint8Array[] = [];
    let missing = Math.min(count, this.length);
    this.length -= missing;
    while (missing > 0) {
      const first = this.#chunks[0] ?? new Uint8Array(0);
      taken.push(first.subarray(0, missing));
      if (first.length > missing) this.#chunks[0] = first.subarray(missing);
      else this.#chunks.shift();
      missing -= Math.min(missing, first.length);
    }
    return taken.length === 1 && taken[0] !== undefined ? taken[0] : Buffer.concat(taken);
  }
}

/** A TCP socket of the relay, together with the actions of its far end. */
export class FakeSocket {
  /** Bytes on their way to the relay (`inbound`) and from the relay (`outbound`). */
  readonly inbound = new Bytes();
  readonly outbound = new Bytes();
  /**
   * Number of bytes before urgent data. A read stops there. Only another read gets past the mark; a splice does not.
   */
  mark: number | undefined = undefined;
  /** Number of bytes that the relay has read. */
  taken = 0;
  /** Number of bytes at the end of `outbound` that wait for more bytes, because the relay sent them with MSG_MORE. */
  held = 0;
  /** Number of bytes that the relay may have in flight. It grows with every read of the far end, up to `mostRoom`. */
  room: number;
  readonly mostRoom: number;
  /** The client's port, once the client is accepted. */
  port = 0;
  state: "closed" | "connecting" | "open" = "closed";
  finIn = false;
  /** `finOut`: the relay has sent a FIN. `goneBy`: how the relay has closed the socket. */
  finOut = false;
  goneBy: "fin" | "reset" | undefined = undefined;
  error = 0;
  wasReset = false;
  lingerZero = false;
  wantsRoom = false;
  /**
   * Calls that have failed for this socket: `isUnwatched` is the registration with epoll, `isNameless` is
   * getsockname.
   */
  isUnwatched = false;
  isNameless = false;
  /** State for epoll: the requested events, and whether an edge waits to be reported (`isPending`). */
  interest = 0;
  data: readonly [number, number] = [0, 0];
  isPending = false;

  constructor(room: number, mostRoom: number) {
    this.room = room;
    this.mostRoom = mostRoom;
  }

  // --- actions of the far end

  send(bytes: Uint8Array): void {
    if (this.finIn || this.wasReset || this.goneBy !== undefined) return;
    this.inbound.push(bytes);
    this.edge();
  }

  urge(): void {
    if (this.finIn || this.wasReset || this.goneBy !== undefined) return;
    this.mark = this.inbound.length;
    this.edge();
  }

  end(): void {
    if (this.finIn || this.wasReset || this.goneBy !== undefined) return;
    this.finIn = true;
    this.edge();
  }

  reset(): void {
    if (this.wasReset || this.goneBy !== undefined) return;
    this.wasReset = true;
    this.error = this.state === "connecting" ? ECONNREFUSED : this.finIn ? ERRNO.EPIPE : ERRNO.ECONNRESET;
    this.edge();
  }

  connected(): void {
    if (this.state !== "connecting" || this.wasReset) return;
    this.state = "open";
    this.edge();
  }

  read(count: number): Uint8Array {
    const bytes = this.outbound.take(Math.min(count, this.outbound.length - this.held));
    this.room = Math.min(this.mostRoom, this.room + 2 * bytes.length);
    if (bytes.length > 0 && this.wantsRoom && this.outbound.length <= this.room / 2) {
      this.wantsRoom = false;
      this.edge();
    }
    return bytes;
  }

  // --- results of the relay's calls

  /** Takes up to `count` received bytes. Call it only if `readable` returns undefined. */
  take(count: number): Uint8Array {
    if (this.mark === 0) this.mark = undefined;
    const bytes = this.inbound.take(Math.min(count, this.mark ?? count));
    if (this.mark !== undefined) this.mark -= bytes.length;
    this.taken += bytes.length;
    return bytes;
  }

  /** The result of a read that returns no bytes: 0 for a FIN, or a negative errno. */
  readable(): number | undefined {
    return this.inbound.length > 0 ? undefined : this.atMark();
  }

  /**
   * The result of a splice at the mark of urgent data (tcp_splice_read). It is 0 if the far end has ended, as at the
   * end of the stream.
   */
  atMark(): number {
    if (this.finIn) return 0;
    if (this.error !== 0) return this.takeError();
    return this.wasReset ? 0 : -ERRNO.EAGAIN;
  }

  /** The negative errno of a write that fails. */
  writable(): number | undefined {
    if (this.error !== 0) return this.takeError();
    if (this.wasReset || this.finOut) return -ERRNO.EPIPE;
    return this.state === "open" ? undefined : -ERRNO.EAGAIN;
  }

  /** Returns the pending error as a negative errno, and clears it. */
  takeError(): number {
    const { error } = this;
    this.error = 0;
    return -error;
  }

  // --- what epoll reports

  edge(): void {
    this.isPending = true;
  }

  /** Follows tcp_poll: a reset removes neither the bytes nor the mark of urgent data. */
  ready(): number {
    const urgent = this.mark === undefined ? 0 : EPOLLPRI;
    if (this.wasReset) return EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | urgent | (this.error === 0 ? 0 : EPOLLERR);
    if (this.state === "connecting") return 0;
    let events = this.outbound.length < this.room && !this.wantsRoom ? EPOLLOUT : 0;
    if (this.inbound.length > 0) events |= EPOLLIN;
    events |= urgent;
    if (this.finIn) events |= EPOLLIN | EPOLLRDHUP;
    if (this.finIn && this.finOut) events |= EPOLLHUP;
    return events;
  }
}
