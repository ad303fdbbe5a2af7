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

/** One TCP socket of the relay, with what its far end does. */
export class FakeSocket {
  /** On their way to the relay, and from it. */
  readonly inbound = new Bytes();
  readonly outbound = new Bytes();
  /** Bytes before urgent data, at which a read stops; it takes another read, and no splice, to get past. */
  mark: number | undefined = undefined;
  /** Bytes that the relay has read. */
  taken = 0;
  /** The last bytes of `outbound`, which the relay has said more will follow (MSG_MORE): they wait for it. */
  held = 0;
  /** Bytes that the relay may have under way; more with every read of the far end, up to `mostRoom`. */
  room: number;
  readonly mostRoom: number;
  /** The client's port, once it is accepted. */
  port = 0;
  state: "closed" | "connecting" | "open" = "closed";
  finIn = false;
  /** The relay has said FIN; it has closed the socket, by a FIN or a reset. */
  finOut = false;
  goneBy: "fin" | "reset" | undefined = undefined;
  error = 0;
  wasReset = false;
  lingerZero = false;
  wantsRoom = false;
  /** What has failed for this socket: its registration with epoll; the question for its name. */
  isUnwatched = false;
  isNameless = false;
  /** epoll: what is asked for, and whether an edge waits to be reported. */
  interest = 0;
  data: readonly [number, number] = [0, 0];
  isPending = false;

  constructor(room: number, mostRoom: number) {
    this.room = room;
    this.mostRoom = mostRoom;
  }

  // --- what the far end does

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

  // --- what the relay's calls see

  /** What came in, up to `count` bytes; to be called if `readable` says nothing. */
  take(count: number): Uint8Array {
    if (this.mark === 0) this.mark = undefined;
    const bytes = this.inbound.take(Math.min(count, this.mark ?? count));
    if (this.mark !== undefined) this.mark -= bytes.length;
    this.taken += bytes.length;
    return bytes;
  }

  /** What a read gives instead of bytes: 0 for a FIN, or a negative errno. */
  readable(): number | undefined {
    return this.inbound.length > 0 ? undefined : this.atMark();
  }

  /**
   * What a splice gives at the mark of urgent data (tcp_splice_read): 0, as if it were the end, if the far end has
   * ended.
   */
  atMark(): number {
    if (this.finIn) return 0;
    if (this.error !== 0) return this.takeError();
    return this.wasReset ? 0 : -ERRNO.EAGAIN;
  }

  /** What a write gives instead of a count, a negative errno. */
  writable(): number | undefined {
    if (this.error !== 0) return this.takeError();
    if (this.wasReset || this.finOut) return -ERRNO.EPIPE;
    return this.state === "open" ? undefined : -ERRNO.EAGAIN;
  }

  /** The error that waits, taken away; as a negative errno. */
  takeError(): number {
    const { error } = this;
    this.error = 0;
    return -error;
  }

  // --- what epoll sees

  edge(): void {
    this.isPending = true;
  }

  /** As tcp_poll: a reset takes the mark of urgent data away no more than the bytes. */
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
