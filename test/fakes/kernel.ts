import {
  EPOLL_CTL_ADD,
  EPOLL_CTL_DEL,
  EPOLLERR,
  EPOLLET,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLRDHUP,
  ERRNO,
  encodeSockaddr,
  epollEventLayout,
  MSG_MORE,
  SHUT_WR,
  SO_ERROR,
  SO_LINGER,
} from "../../proxy/linux/abi.ts";
import type { Libc } from "../../proxy/linux/libc.ts";
import { layMemory, MEMORY_BYTES, type Memory } from "../../proxy/linux/memory.ts";

/*
 * The system calls of proxy/linux/libc.ts over sockets that exist in memory only: what a test does at the far ends (send, read, FIN,
 * reset, stall) the relay sees as the kernel would show it, edge-triggered events included. Descriptors are given out lowest first, so
 * that a number is used again at once, and using one that is not open is an error that ends the test.
 */
const BASE_ADDRESS = 0x10000;
const EINVAL = 22;

/** Bytes in a queue, with their number in the stream. */
class Bytes {
  #chunks: Uint8Array[] = [];
  length = 0;

  push(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#chunks.push(bytes);
    this.length += bytes.length;
  }

  take(count: number): Uint8Array {
    const all = Buffer.concat(this.#chunks);
    this.#chunks = all.length > count ? [all.subarray(count)] : [];
    this.length = Math.max(0, this.length - count);
    return all.subarray(0, count);
  }
}

/** One TCP socket of the relay, with what its far end does. */
export class FakeSocket {
  readonly kernel: FakeKernel;
  readonly isAccepted: boolean;
  /** On their way to the relay, and from it. */
  readonly inbound = new Bytes();
  readonly outbound = new Bytes();
  /** The last bytes of those, which the relay has said more will follow (MSG_MORE): they wait for it. */
  held = 0;
  /** Bytes that the relay may have under way. */
  room: number;
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
  /** epoll: what is asked for, and whether an edge waits to be reported. */
  interest = 0;
  data: readonly [number, number] = [0, 0];
  isPending = false;

  constructor(kernel: FakeKernel, isAccepted: boolean, room: number) {
    this.kernel = kernel;
    this.isAccepted = isAccepted;
    this.room = room;
  }

  // --- what the far end does

  send(bytes: Uint8Array): void {
    if (this.finIn || this.wasReset || this.goneBy !== undefined) return;
    this.inbound.push(bytes);
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
    this.error = this.state === "connecting" ? 111 : this.finIn ? ERRNO.EPIPE : ERRNO.ECONNRESET;
    this.edge();
  }

  connected(): void {
    if (this.state !== "connecting" || this.wasReset) return;
    this.state = "open";
    this.edge();
  }

  read(count: number): Uint8Array {
    const bytes = this.outbound.take(Math.min(count, this.outbound.length - this.held));
    if (bytes.length > 0 && this.wantsRoom && this.outbound.length <= this.room / 2) {
      this.wantsRoom = false;
      this.edge();
    }
    return bytes;
  }

  // --- what epoll sees

  edge(): void {
    this.isPending = true;
  }

  ready(): number {
    if (this.wasReset) return EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | (this.error === 0 ? 0 : EPOLLERR);
    if (this.state === "connecting") return 0;
    let events = this.outbound.length < this.room && !this.wantsRoom ? EPOLLOUT : 0;
    if (this.inbound.length > 0) events |= EPOLLIN;
    if (this.finIn) events |= EPOLLIN | EPOLLRDHUP;
    if (this.finIn && this.finOut) events |= EPOLLHUP;
    return events;
  }

  /** The error that waits, taken away; as a negative errno. */
  takeError(): number {
    const { error } = this;
    this.error = 0;
    return -error;
  }
}

interface FakePipe {
  readonly bytes: Bytes;
  readonly capacity: number;
}
type Entry =
  | { kind: "socket"; socket: FakeSocket }
  | { kind: "listener"; queue: FakeSocket[]; interest: number; data: readonly [number, number] }
  | { kind: "pipe"; pipe: FakePipe; end: "read" | "write" }
  | { kind: "epoll" }
  | { kind: "event"; count: number; interest: number; data: readonly [number, number] };

/** Decisions that the kernel takes as it likes: `below(n)` is 0 to n - 1. */
export type Chance = (below: number) => number;

export class FakeKernel implements Libc {
  readonly memory: Memory;
  readonly sockets: FakeSocket[] = [];
  /** What connect() makes of a new socket. */
  onConnect: (socket: FakeSocket) => number = (socket) => {
    socket.state = "connecting";
    return -ERRNO.EINPROGRESS;
  };
  /** Open files at most. */
  maxFiles = 1024;
  readonly #view: DataView;
  readonly #bytes: Uint8Array;
  readonly #table: (Entry | undefined)[] = [undefined, undefined, undefined];
  readonly #chance: Chance;
  #ports = 40_000;

  constructor(chance: Chance = () => 1) {
    const buffer = new ArrayBuffer(MEMORY_BYTES);
    this.#view = new DataView(buffer);
    this.#chance = chance;
    this.memory = layMemory(buffer, BASE_ADDRESS, epollEventLayout("x64"));
    this.#bytes = this.memory.bytes;
  }

  /** Descriptors that are open, by what they are. */
  open(): string[] {
    return this.#table.flatMap((entry) => (entry === undefined || entry === null ? [] : [entry.kind]));
  }

  /** A client that has connected and waits to be accepted. */
  client(listener: number, room: number): FakeSocket {
    const entry = this.#entry(listener);
    const socket = new FakeSocket(this, true, room);
    socket.state = "open";
    if (entry.kind === "listener") entry.queue.push(socket);
    return socket;
  }

  socket(): number {
    const socket = new FakeSocket(this, false, 16_384 + this.#chance(200_000));
    this.sockets.push(socket);
    return this.#give({ kind: "socket", socket });
  }

  bind(fd: number): number {
    this.#table[fd] = { kind: "listener", queue: [], interest: 0, data: [0, 0] };
    return 0;
  }

  listen(fd: number): number {
    return this.#entry(fd).kind === "listener" ? 0 : -EINVAL;
  }

  connect(fd: number): number {
    return this.onConnect(this.#socket(fd));
  }

  accept4(fd: number, address: number, length: number): number {
    const entry = this.#entry(fd);
    if (entry.kind !== "listener") throw new Error(`accept4 on a ${entry.kind}`);
    const socket = entry.queue[0];
    if (socket === undefined) return -ERRNO.EAGAIN;
    if (this.#chance(16) === 0) return -ERRNO.EINTR;
    const given = this.#give({ kind: "socket", socket });
    if (given < 0) return given;
    entry.queue.shift();
    this.#ports += 1;
    socket.port = this.#ports;
    this.#bytes.set(encodeSockaddr(Uint8Array.of(192, 0, 2, 7), this.#ports), address - BASE_ADDRESS);
    this.#view.setUint32(length - BASE_ADDRESS, 16, true);
    return given;
  }

  getsockname(fd: number, address: number): number {
    this.#entry(fd);
    this.#bytes.set(encodeSockaddr(Uint8Array.of(198, 51, 100, 9), 15_443), address - BASE_ADDRESS);
    return 0;
  }

  getsockopt(fd: number, _level: number, name: number, value: number): number {
    if (name !== SO_ERROR) return -EINVAL;
    this.#view.setInt32(value - BASE_ADDRESS, -this.#socket(fd).takeError(), true);
    return 0;
  }

  setsockopt(fd: number, level: number, name: number): number {
    const entry = this.#entry(fd);
    if (entry.kind === "socket" && level === 1 && name === SO_LINGER) entry.socket.lingerZero = true;
    return 0;
  }

  recv(fd: number, buffer: number, length: number): number {
    const socket = this.#socket(fd);
    if (this.#chance(16) === 0) return -ERRNO.EINTR;
    const outcome = this.#readable(socket);
    if (outcome !== undefined) return outcome;
    const bytes = socket.inbound.take(length);
    this.#bytes.set(bytes, buffer - BASE_ADDRESS);
    return bytes.length;
  }

  send(fd: number, buffer: number, length: number, flags: number): number {
    const socket = this.#socket(fd);
    if (this.#chance(16) === 0) return -ERRNO.EINTR;
    const start = buffer - BASE_ADDRESS;
    const sent = this.#write(socket, () => this.#bytes.slice(start, start + length), length);
    // A full socket sends what it has.
    socket.held = sent === length && (flags & MSG_MORE) !== 0 ? length : 0;
    return sent;
  }

  splice(from: number, to: number, length: number): number {
    const [source, sink] = [this.#entry(from), this.#entry(to)];
    if (this.#chance(16) === 0) return -ERRNO.EINTR;
    if (source.kind === "socket" && sink.kind === "pipe" && sink.end === "write") {
      const outcome = this.#readable(source.socket);
      if (outcome !== undefined) return outcome;
      const free = sink.pipe.capacity - sink.pipe.bytes.length;
      if (free === 0) return -ERRNO.EAGAIN;
      // A pipe fills by pages, whatever is in them: it may take less than there is.
      const bytes = source.socket.inbound.take(1 + this.#chance(Math.min(length, free)));
      sink.pipe.bytes.push(bytes);
      return bytes.length;
    }
    if (source.kind === "pipe" && source.end === "read" && sink.kind === "socket") {
      const count = Math.min(length, source.pipe.bytes.length);
      if (count === 0) return -ERRNO.EAGAIN;
      return this.#write(sink.socket, (taken) => source.pipe.bytes.take(taken), count);
    }
    throw new Error(`splice from ${source.kind} to ${sink.kind}`);
  }

  shutdown(fd: number, how: number): number {
    const socket = this.#socket(fd);
    if (how !== SHUT_WR || socket.finOut) throw new Error("a second shutdown");
    if (socket.wasReset) return -107;
    socket.finOut = true;
    socket.held = 0;
    return 0;
  }

  close(fd: number): number {
    const entry = this.#entry(fd);
    this.#table[fd] = undefined;
    if (entry.kind !== "socket") return 0;
    const { socket } = entry;
    const isReset = socket.lingerZero || socket.inbound.length > 0;
    socket.held = 0;
    if (isReset) socket.outbound.take(Number.MAX_SAFE_INTEGER);
    socket.goneBy = isReset ? "reset" : "fin";
    return 0;
  }

  pipe2(pair: number): number {
    const pipe: FakePipe = { bytes: new Bytes(), capacity: 65_536 };
    const read = this.#give({ kind: "pipe", pipe, end: "read" });
    if (read < 0) return read;
    const write = this.#give({ kind: "pipe", pipe, end: "write" });
    if (write < 0) {
      this.#table[read] = undefined;
      return write;
    }
    this.#view.setInt32(pair - BASE_ADDRESS, read, true);
    this.#view.setInt32(pair - BASE_ADDRESS + 4, write, true);
    return 0;
  }

  fcntl(fd: number): number {
    this.#entry(fd);
    return this.#chance(2) === 0 ? -ERRNO.EPERM : 0;
  }

  epollCreate(): number {
    return this.#give({ kind: "epoll" });
  }

  epollCtl(epoll: number, operation: number, fd: number, event: number): number {
    if (this.#entry(epoll).kind !== "epoll") throw new Error("epoll_ctl on something else");
    const entry = this.#entry(fd);
    const at = event - BASE_ADDRESS;
    const { data: dataAt } = this.memory.epollEvent;
    const interest = operation === EPOLL_CTL_DEL ? 0 : this.#view.getUint32(at, true);
    const data = [this.#view.getUint32(at + dataAt, true), this.#view.getUint32(at + dataAt + 4, true)] as const;
    if (entry.kind === "socket") {
      if ((operation === EPOLL_CTL_ADD) !== (entry.socket.interest === 0)) throw new Error("epoll_ctl out of order");
      Object.assign(entry.socket, { interest, data });
      entry.socket.edge();
    } else if (entry.kind === "listener" || entry.kind === "event") Object.assign(entry, { interest, data });
    else throw new Error(`epoll_ctl for a ${entry.kind}`);
    return 0;
  }

  epollWait(epoll: number, events: number, count: number): number {
    if (this.#entry(epoll).kind !== "epoll") throw new Error("epoll_wait on something else");
    if (this.#chance(16) === 0) return -ERRNO.EINTR;
    let found = 0;
    // Not always from the lowest descriptor on.
    const start = this.#chance(this.#table.length);
    for (let index = 0; index < this.#table.length && found < count; index += 1) {
      const entry = this.#table[(start + index) % this.#table.length];
      const ready = entry === undefined ? 0 : readyOf(entry);
      if (entry === undefined || ready === 0 || !("interest" in entry || entry.kind === "socket")) continue;
      const at = events - BASE_ADDRESS + found * this.memory.epollEvent.size;
      const data = entry.kind === "socket" ? entry.socket.data : entry.data;
      this.#view.setUint32(at, ready, true);
      this.#view.setUint32(at + this.memory.epollEvent.data, data[0], true);
      this.#view.setUint32(at + this.memory.epollEvent.data + 4, data[1], true);
      found += 1;
    }
    return found;
  }

  eventfd(): number {
    return this.#give({ kind: "event", count: 0, interest: 0, data: [0, 0] });
  }

  read(fd: number): number {
    const entry = this.#entry(fd);
    if (entry.kind !== "event") throw new Error(`read from a ${entry.kind}`);
    entry.count = 0;
    return 8;
  }

  write(fd: number): number {
    const entry = this.#entry(fd);
    if (entry.kind !== "event") throw new Error(`write to a ${entry.kind}`);
    entry.count += 1;
    return 8;
  }

  #readable(socket: FakeSocket): number | undefined {
    if (socket.inbound.length > 0) return undefined;
    if (socket.finIn) return 0;
    if (socket.error !== 0) return socket.takeError();
    return socket.wasReset ? 0 : -ERRNO.EAGAIN;
  }

  #write(socket: FakeSocket, take: (count: number) => Uint8Array, length: number): number {
    if (socket.error !== 0) return socket.takeError();
    if (socket.wasReset || socket.finOut) return -ERRNO.EPIPE;
    if (socket.state !== "open") return -ERRNO.EAGAIN;
    const free = socket.room - socket.outbound.length;
    const taken = free <= 0 ? 0 : Math.min(length, free);
    if (taken < length) socket.wantsRoom = true;
    if (taken === 0) return -ERRNO.EAGAIN;
    socket.outbound.push(take(taken).slice(0, taken));
    return taken;
  }

  #give(entry: Entry): number {
    if (this.open().length >= this.maxFiles) return -ERRNO.EMFILE;
    let fd = 3;
    while (this.#table[fd] !== undefined) fd += 1;
    this.#table[fd] = entry;
    return fd;
  }

  #entry(fd: number): Entry {
    const entry = this.#table[fd];
    if (entry === undefined) throw new Error(`descriptor ${fd} is not open`);
    return entry;
  }

  #socket(fd: number): FakeSocket {
    const entry = this.#entry(fd);
    if (entry.kind !== "socket") throw new Error(`descriptor ${fd} is a ${entry.kind}`);
    return entry.socket;
  }
}

/** What epoll reports of a descriptor now, 0 for nothing; an edge is reported once. */
function readyOf(entry: Entry): number {
  if (entry.kind === "listener") return entry.queue.length > 0 ? entry.interest & EPOLLIN : 0;
  if (entry.kind === "event") return entry.count > 0 ? entry.interest & EPOLLIN : 0;
  if (entry.kind !== "socket" || entry.socket.interest === 0) return 0;
  const { socket } = entry;
  if (!socket.isPending || (socket.interest & EPOLLET) === 0) return 0;
  socket.isPending = false;
  return socket.ready() & (socket.interest | EPOLLERR | EPOLLHUP);
}
