import {
  EPOLL_CTL_ADD,
  EPOLL_CTL_DEL,
  EPOLLERR,
  EPOLLET,
  EPOLLHUP,
  EPOLLIN,
  ERRNO,
  encodeSockaddr,
  epollEventLayout,
  MSG_MORE,
  SHUT_WR,
  SO_ERROR,
  SO_LINGER,
  SOL_SOCKET,
} from "#proxy/linux/abi.ts";
import type { Libc } from "#proxy/linux/libc.ts";
import { createMemory, MEMORY_BYTES, type Memory } from "#proxy/linux/memory.ts";
import { Bytes, FakeSocket } from "./kernel-socket.ts";

// The system calls of proxy/linux/libc.ts over sockets that exist only in memory. A test acts at the far ends (send,
// read, FIN, reset, stall). The relay sees this as the kernel would show it, with edge-triggered events. The kernel
// gives out the lowest free descriptor first, so a number is used again at once. A call with a descriptor that is not
// open ends the test.

const BASE_ADDRESS = 0x10000;
const EINVAL = 22;
const ENOSPC = 28;
const PIPE_BYTES = 65_536;

/** Failures of calls that would otherwise succeed. */
export const FAULTS = [
  /** A signal interrupts the call. */
  "interrupt",
  /** EAGAIN: the call would succeed a moment later. epoll reports when. */
  "later",
  /** A client cannot be accepted, because of the client or because memory is short. */
  "accept",
  /** epoll accepts no more descriptors. */
  "watch",
  /** setsockopt fails, except for SO_LINGER, which cannot fail on an open socket. */
  "option",
  /** getsockname fails. */
  "name",
] as const;
export type Fault = (typeof FAULTS)[number];

/** Whether this fault happens to the current call. */
export type Faults = (fault: Fault) => boolean;

/** Makes the kernel's free choices: `below(n)` is 0 to n - 1. */
export type Chance = (below: number) => number;

type Entry =
  | { kind: "socket"; socket: FakeSocket }
  | { kind: "listener"; queue: FakeSocket[]; interest: number; data: readonly [number, number] }
  | { kind: "pipe"; bytes: Bytes; end: "read" | "write" }
  | { kind: "epoll" }
  | { kind: "event"; count: number; interest: number; data: readonly [number, number] };

export class FakeKernel implements Libc {
  readonly memory: Memory;
  /** The sockets that the relay has opened, in order. */
  readonly sockets: FakeSocket[] = [];
  /** Sets a new socket's state in connect(), and returns the result of the call. */
  onConnect: (socket: FakeSocket) => number = (socket) => {
    socket.state = "connecting";
    return -ERRNO.EINPROGRESS;
  };
  /** Maximum number of open files. */
  maxFiles = 1024;
  readonly #view: DataView;
  readonly #bytes: Uint8Array;
  readonly #table: (Entry | undefined)[] = [undefined, undefined, undefined];
  readonly #chance: Chance;
  readonly #faults: Faults;
  #ports = 40_000;

  constructor(chance: Chance, faults: Faults) {
    const buffer = new ArrayBuffer(MEMORY_BYTES);
    this.#view = new DataView(buffer);
    this.#chance = chance;
    this.#faults = faults;
    this.memory = createMemory(buffer, BASE_ADDRESS, epollEventLayout("x64"));
    this.#bytes = this.memory.bytes;
  }

  /** The kind of each open descriptor. */
  open(): string[] {
    return this.#table.flatMap((entry) => (entry === undefined || entry === null ? [] : [entry.kind]));
  }

  /** Creates a listening socket, as the main thread would pass it to a worker. */
  listener(): number {
    return this.#give({ kind: "listener", queue: [], interest: 0, data: [0, 0] });
  }

  /** Creates a client that has connected and waits to be accepted. */
  client(listener: number, mostRoom: number): FakeSocket {
    const entry = this.#entry(listener);
    if (entry.kind !== "listener") throw new Error(`a client of a ${entry.kind}`);
    const socket = new FakeSocket(this.#firstRoom(mostRoom), mostRoom);
    socket.state = "open";
    entry.queue.push(socket);
    return socket;
  }

  socket(): number {
    const mostRoom = 16_384 + this.#chance(200_000);
    const socket = new FakeSocket(this.#firstRoom(mostRoom), mostRoom);
    const given = this.#give({ kind: "socket", socket });
    if (given >= 0) this.sockets.push(socket);
    return given;
  }

  bind(): number {
    throw new Error("a worker binds nothing");
  }

  listen(): number {
    throw new Error("a worker listens on nothing of its own");
  }

  connect(fd: number): number {
    return this.onConnect(this.#socket(fd));
  }

  accept4(fd: number, address: number, length: number): number {
    const entry = this.#entry(fd);
    if (entry.kind !== "listener") throw new Error(`accept4 on a ${entry.kind}`);
    const socket = entry.queue[0];
    if (socket === undefined) return -ERRNO.EAGAIN;
    if (this.#faults("interrupt")) return -ERRNO.EINTR;
    if (this.#faults("later")) return -ERRNO.EAGAIN;
    if (this.#faults("accept")) return this.#chance(2) === 0 ? -ERRNO.ECONNABORTED : -ERRNO.ENOMEM;
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
    const socket = this.#socket(fd);
    socket.isNameless = this.#faults("name");
    if (socket.isNameless) return -ERRNO.ENOBUFS;
    this.#bytes.set(encodeSockaddr(Uint8Array.of(198, 51, 100, 9), 15_443), address - BASE_ADDRESS);
    return 0;
  }

  getsockopt(fd: number, _level: number, name: number, value: number): number {
    if (name !== SO_ERROR) return -EINVAL;
    this.#view.setInt32(value - BASE_ADDRESS, -this.#socket(fd).takeError(), true);
    return 0;
  }

  setsockopt(fd: number, level: number, name: number): number {
    const socket = this.#socket(fd);
    if (level === SOL_SOCKET && name === SO_LINGER) socket.lingerZero = true;
    else if (this.#faults("option")) return -EINVAL;
    return 0;
  }

  recv(fd: number, buffer: number, length: number): number {
    const socket = this.#socket(fd);
    const outcome = this.#unreadable(socket);
    if (outcome !== undefined) return outcome;
    const bytes = socket.take(length);
    this.#bytes.set(bytes, buffer - BASE_ADDRESS);
    return bytes.length;
  }

  send(fd: number, buffer: number, length: number, flags: number): number {
    const socket = this.#socket(fd);
    const start = buffer - BASE_ADDRESS;
    const sent = this.#write(socket, (count) => this.#bytes.slice(start, start + count), length);
    // If the socket is full, it sends what it has, despite MSG_MORE.
    socket.held = sent === length && (flags & MSG_MORE) !== 0 ? length : 0;
    return sent;
  }

  splice(from: number, to: number, length: number): number {
    const [source, sink] = [this.#entry(from), this.#entry(to)];
    if (source.kind === "socket" && sink.kind === "pipe" && sink.end === "write") {
      const outcome = this.#unreadable(source.socket);
      if (outcome !== undefined) return outcome;
      if (source.socket.mark === 0) return source.socket.atMark();
      const free = PIPE_BYTES - sink.bytes.length;
      if (free === 0) return -ERRNO.EAGAIN;
      // A pipe fills by pages, even if they are partly empty. So it may accept fewer bytes than its free space.
      const bytes = source.socket.take(1 + this.#chance(Math.min(length, free)));
      sink.bytes.push(bytes);
      return bytes.length;
    }
    if (source.kind === "pipe" && source.end === "read" && sink.kind === "socket") {
      const count = Math.min(length, source.bytes.length);
      return count === 0 ? -ERRNO.EAGAIN : this.#write(sink.socket, (taken) => source.bytes.take(taken), count);
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
    // The kernel resets clients that are still in a listener's queue.
    if (entry.kind === "listener") for (const client of entry.queue) client.goneBy = "reset";
    if (entry.kind !== "socket") return 0;
    const { socket } = entry;
    const isReset = socket.lingerZero || socket.inbound.length > 0;
    socket.held = 0;
    if (isReset) socket.outbound.take(Number.MAX_SAFE_INTEGER);
    socket.goneBy = isReset ? "reset" : "fin";
    return 0;
  }

  pipe2(pair: number): number {
    const bytes = new Bytes();
    const read = this.#give({ kind: "pipe", bytes, end: "read" });
    if (read < 0) return read;
    const write = this.#give({ kind: "pipe", bytes, end: "write" });
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
      if (operation === EPOLL_CTL_ADD && this.#faults("watch")) {
        entry.socket.isUnwatched = true;
        return this.#chance(2) === 0 ? -ERRNO.ENOMEM : -ENOSPC;
      }
      Object.assign(entry.socket, { interest, data });
      entry.socket.edge();
    } else if (entry.kind === "listener" || entry.kind === "event") Object.assign(entry, { interest, data });
    else throw new Error(`epoll_ctl for a ${entry.kind}`);
    return 0;
  }

  epollWait(epoll: number, events: number, count: number): number {
    if (this.#entry(epoll).kind !== "epoll") throw new Error("epoll_wait on something else");
    if (this.#faults("interrupt")) return -ERRNO.EINTR;
    let found = 0;
    // The search does not always start at the lowest descriptor.
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

  /** The result of a read that returns no bytes. */
  #unreadable(socket: FakeSocket): number | undefined {
    if (this.#faults("interrupt")) return -ERRNO.EINTR;
    const outcome = socket.readable();
    if ((outcome ?? 0) !== 0 || !this.#faults("later")) return outcome;
    socket.edge();
    return -ERRNO.EAGAIN;
  }

  #write(socket: FakeSocket, take: (count: number) => Uint8Array, length: number): number {
    if (this.#faults("interrupt")) return -ERRNO.EINTR;
    const outcome = socket.writable();
    if (outcome !== undefined) return outcome;
    const taken = Math.max(0, Math.min(length, socket.room - socket.outbound.length));
    // A full socket reports room only after the far end has read, so this fault needs room.
    if (taken > 0 && this.#faults("later")) {
      socket.edge();
      return -ERRNO.EAGAIN;
    }
    if (taken < length) socket.wantsRoom = true;
    if (taken === 0) return -ERRNO.EAGAIN;
    socket.outbound.push(take(taken).slice());
    return taken;
  }

  /** At first, a socket may have less room than a header needs. */
  #firstRoom(mostRoom: number): number {
    const room = [1 + this.#chance(100), 1 + this.#chance(20_000), mostRoom][this.#chance(3)] ?? mostRoom;
    return Math.min(room, mostRoom);
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

/** The events that epoll reports for a descriptor now; 0 if there are none. An edge is reported once. */
function readyOf(entry: Entry): number {
  if (entry.kind === "listener") return entry.queue.length > 0 ? entry.interest & EPOLLIN : 0;
  if (entry.kind === "event") return entry.count > 0 ? entry.interest & EPOLLIN : 0;
  if (entry.kind !== "socket" || entry.socket.interest === 0) return 0;
  const { socket } = entry;
  if (!socket.isPending || (socket.interest & EPOLLET) === 0) return 0;
  socket.isPending = false;
  return socket.ready() & (socket.interest | EPOLLERR | EPOLLHUP);
}
