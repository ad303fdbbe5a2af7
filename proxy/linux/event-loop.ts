import { addressText } from "../address.ts";
import type { EngineLimits } from "../engine.ts";
import { encodeHeaderOf } from "../proxy-header.ts";
import { v2Options } from "../proxy-header-tlvs.ts";
import { EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, ERRNO, O_CLOEXEC } from "./abi.ts";
import { ARMED_EVENTS, LinuxConnection, type RelayContext } from "./connection.ts";
import { ConnectionLimiter, LIMIT_TOTAL } from "./connection-limiter.ts";
import type { UpstreamConnect } from "./dial.ts";
import type { Libc } from "./libc.ts";
import { ListenerState } from "./listener-state.ts";
import { EVENTS, MAX_EVENTS, WORDS } from "./memory.ts";
import { PipePool } from "./pipes.ts";
import type { Command, Reply, WorkerData, WorkerListener } from "./plan.ts";
import { Pump } from "./pump.ts";
import { Refusals } from "./refusals.ts";
import { ReservedFds } from "./reserved-fds.ts";
import type { SocketState } from "./socket-state.ts";
import { acceptFrom, closeWithReset, errnoName, localName, must } from "./sockets.ts";
import { TimeoutQueue, type Waiter } from "./timeout-queue.ts";

/**
 * Clients taken from one listener before other events have their turn: one, so that nobody asks in vain whether there is another; twice
 * as many each time the next round finds more, up to this.
 */
const ACCEPT_BATCH = 64;
/** Most that are taken from a listener that is closed, so that no client is reset that had been let in. */
const LAST_ACCEPTS = 4096;
/** Pause after the system refused a client for a reason that closing the client does not mend. */
const ACCEPT_PAUSE_MS = 100;
/** The loop comes up for air at least this often. */
const LONGEST_WAIT_MS = 1000;
const SWEEPS = 4;
/** Long enough for a client to notice that it is answered, as nginx's lingering_time. */
export const LINGER_MS = 30_000;

const OUT_OF = new Set<number>([ERRNO.EMFILE, ERRNO.ENFILE, ERRNO.ENOBUFS, ERRNO.ENOMEM]);

/** A listening socket in the loop's books. */
class Acceptor {
  readonly state: ListenerState;
  readonly fd: number;
  serial = 0;
  pausedUntil = 0;
  /** Clients to take at a time, and the last round in which there were any. */
  batch = 1;
  round = 0;

  constructor(state: ListenerState, fd: number) {
    this.state = state;
    this.fd = fd;
  }
}

interface EventLoopOptions extends WorkerData {
  readonly libc: Libc;
  readonly receive: () => Command | undefined;
  readonly reply: (reply: Reply) => void;
  readonly lingerMs?: number;
  /** Milliseconds since any moment. */
  readonly clock?: () => number;
}

/** One worker: an epoll set, and everything that is in it. */
export class EventLoop implements RelayContext {
  readonly libc: Libc;
  readonly pipes: PipePool;
  readonly pump: Pump;
  readonly limits: EngineLimits;
  readonly dialling: TimeoutQueue;
  readonly greeting: TimeoutQueue;
  readonly lingering: TimeoutQueue;
  now = 0;
  readonly #options: EventLoopOptions;
  readonly #clock: () => number;
  readonly #epoll: number;
  readonly #places: ConnectionLimiter;
  /** By descriptor. */
  readonly #table: (SocketState | Acceptor | undefined)[] = [];
  readonly #acceptors = new Map<string, Acceptor>();
  #queue: LinuxConnection[] = [];
  #serial = 0;
  readonly #spares: ReservedFds;
  readonly #refusals: Refusals;
  readonly #sweepMs: number;
  readonly #silentSweeps: number;
  #sweepAt = Number.POSITIVE_INFINITY;
  #resumeAt = Number.POSITIVE_INFINITY;
  #round = 0;
  #isEnding = false;
  #open = 0;

  /** Connections that are open. */
  get open(): number {
    return this.#open;
  }

  /** Throws SystemError if the system has no descriptor left. */
  constructor(options: EventLoopOptions) {
    const { libc, limits } = options;
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
    this.libc = libc;
    this.limits = limits;
    this.pipes = new PipePool(libc);
    this.pump = new Pump(this);
    this.#places = new ConnectionLimiter(options.places, limits);
    this.dialling = new TimeoutQueue(limits.connectTimeoutMs, (waiter) => connectionOf(waiter).dialTimedOut());
    this.greeting = new TimeoutQueue(limits.firstBytesMs, (waiter) => connectionOf(waiter).firstBytesAreLate());
    this.lingering = new TimeoutQueue(options.lingerMs ?? LINGER_MS, (waiter) => connectionOf(waiter).lingeredEnough());
    const timeoutMs = limits.idleTimeoutMs > 0 ? limits.idleTimeoutMs : Number.POSITIVE_INFINITY;
    this.#sweepMs = Math.min(LONGEST_WAIT_MS, timeoutMs / SWEEPS);
    this.#silentSweeps = Math.ceil(timeoutMs / this.#sweepMs);
    this.#epoll = must("epoll_create1", libc.epollCreate(O_CLOEXEC));
    this.#spares = new ReservedFds(libc);
    this.#refusals = new Refusals(options.reply);
    must("epoll_ctl", this.#control(EPOLL_CTL_ADD, options.wake, EPOLLIN, 0));
  }

  /** Runs until it is told to exit. */
  run(): void {
    while (!this.#isEnding) this.turn(this.#timeout());
    this.#shutDown();
  }

  /** One round: waits at most `timeoutMs` for events, and handles what there is. */
  turn(timeoutMs: number): void {
    const { libc } = this;
    const { address, words, epollEvent } = libc.memory;
    const count = libc.epollWait(this.#epoll, address + EVENTS, MAX_EVENTS, timeoutMs);
    this.now = this.#clock();
    this.#round += 1;
    if (count < 0 && count !== -ERRNO.EINTR) must("epoll_wait", count);
    // The events lie in memory that nothing else writes to while they are handled.
    const data = epollEvent.data >> 2;
    for (let index = 0, at = EVENTS >> 2; index < count; index += 1, at += epollEvent.size >> 2) {
      this.#handle(words[at] ?? 0, words[at + data] ?? 0, words[at + data + 1] ?? 0);
    }
    this.#advanceQueued();
    this.#expire();
  }

  register(side: SocketState, events: number): boolean {
    this.#serial = (this.#serial + 1) | 0;
    side.serial = this.#serial;
    this.#table[side.fd] = side;
    return this.#control(EPOLL_CTL_ADD, side.fd, events, side.serial) === 0;
  }

  forget(side: SocketState): void {
    if (this.#table[side.fd] === side) this.#table[side.fd] = undefined;
  }

  arm(side: SocketState): void {
    side.isArmed = true;
    must("epoll_ctl", this.#control(EPOLL_CTL_MOD, side.fd, ARMED_EVENTS, side.serial));
  }

  again(connection: LinuxConnection): void {
    if (connection.isQueued) return;
    connection.isQueued = true;
    this.#queue.push(connection);
  }

  moved(source: SocketState, bytes: number): void {
    const { connection } = source;
    connection.silentSweeps = 0;
    const { counters } = connection.listener;
    if (source.isClient) counters.fromClient(bytes);
    else counters.fromUpstream(bytes);
  }

  dialled({ listener }: LinuxConnection, { failures }: UpstreamConnect, connected: boolean): void {
    const hadConnected = listener.dials.ended(connected);
    if (failures.length === 0 && hadConnected) return;
    this.#options.reply({ kind: "dial", report: { listener: listener.spec.name, connected, failures: [...failures] } });
  }

  outOfResources({ listener }: LinuxConnection, detail: string): void {
    listener.counters.refused("local-limit");
    this.#refusals.tell("local-limit", { target: listener.spec.target, err: detail }, this.now);
  }

  closed(connection: LinuxConnection): void {
    this.#open -= 1;
    connection.listener.counters.closed();
    this.#places.release(connection.place);
  }

  /** Resets everything at once, after a failure of the loop itself. */
  abandon(): void {
    for (const connection of this.#connections()) connection.cut("drain");
    this.#shutDown();
  }

  #handle(events: number, fd: number, serial: number): void {
    if (fd === this.#options.wake) {
      this.#commands();
      return;
    }
    const entry = this.#table[fd];
    // A descriptor that was closed earlier in this round, its number perhaps taken by another.
    if (entry === undefined || entry.serial !== serial) return;
    if (entry instanceof Acceptor) this.#acceptBatch(entry);
    else entry.connection.onEvents(entry, events);
  }

  #advanceQueued(): void {
    if (this.#queue.length === 0) return;
    const queue = this.#queue;
    this.#queue = [];
    for (const connection of queue) {
      connection.isQueued = false;
      connection.advance();
    }
  }

  // --- time

  #timeout(): number {
    if (this.#queue.length > 0) return 0;
    const now = this.#clock();
    const due = Math.min(
      this.dialling.next(),
      this.greeting.next(),
      this.lingering.next(),
      this.#sweepAt,
      this.#refusals.dueAt,
      this.#resumeAt,
      now + LONGEST_WAIT_MS,
    );
    return Math.max(0, Math.ceil(due - now));
  }

  #expire(): void {
    const { now } = this;
    this.dialling.expire(now);
    this.greeting.expire(now);
    this.lingering.expire(now);
    if (now >= this.#sweepAt) this.#sweep();
    if (now >= this.#refusals.dueAt) this.#refusals.flush();
    if (now >= this.#resumeAt) this.#resume();
  }

  /**
   * Cuts connections over which no byte has moved for the idle timeout. One sweep for all: a timer each would cost at every read.
   * Those that have lasted until a sweep get keepalive probes towards the upstream too; most are over before.
   */
  #sweep(): void {
    this.#sweepAt = this.#open > 0 ? this.now + this.#sweepMs : Number.POSITIVE_INFINITY;
    for (const connection of this.#connections()) {
      if (connection.silentSweeps > this.#silentSweeps) connection.cut("idle-timeout");
      else {
        connection.silentSweeps += 1;
        connection.keepUpstreamAlive();
      }
    }
  }

  // --- clients

  #acceptBatch(acceptor: Acceptor): void {
    acceptor.batch = acceptor.round === this.#round - 1 ? Math.min(ACCEPT_BATCH, acceptor.batch * 2) : 1;
    acceptor.round = this.#round;
    this.#accept(acceptor, acceptor.batch);
  }

  #accept(acceptor: Acceptor, most: number): void {
    for (let count = 0; count < most; count += 1) {
      const fd = acceptFrom(this.libc, acceptor.fd);
      if (fd >= 0) this.#admit(acceptor.state, fd);
      else if (fd === -ERRNO.EAGAIN) return;
      else if (OUT_OF.has(-fd) && !this.#turnAway(acceptor, -fd)) return;
      // Anything else is the fault of one client's connection (accept(2)): on to the next.
    }
  }

  #admit(state: ListenerState, fd: number): void {
    const { spec, counters } = state;
    const source = this.libc.memory.peer.address();
    if (source === undefined) {
      this.libc.close(fd);
      return;
    }
    const place = this.#places.admit(source);
    if (place < 0) {
      const cause = place === LIMIT_TOTAL ? "limit-total" : "limit-source";
      counters.refused(cause);
      this.#refusals.tell(cause, { target: spec.target, source: addressText(source) }, this.now);
      closeWithReset(this.libc, fd);
      return;
    }
    const header = spec.protocol === "none" ? undefined : this.#header(spec.protocol, spec, fd, source);
    counters.opened();
    this.#open += 1;
    if (this.#sweepAt === Number.POSITIVE_INFINITY) this.#sweepAt = this.now + this.#sweepMs;
    new LinuxConnection(this, state, fd, place).open(header);
  }

  #header(version: "v1" | "v2", spec: WorkerListener, fd: number, source: Uint8Array): Uint8Array {
    const ends = {
      source,
      sourcePort: this.libc.memory.peer.port(),
      // The address that the client called; if it cannot be told the client is gone already, and the next read will say so.
      destination: spec.localAddress ?? localName(this.libc, fd)?.address ?? source,
      destinationPort: spec.declaredPort,
    };
    return encodeHeaderOf(version, ends, v2Options(spec.tlvs));
  }

  /**
   * No descriptor is left for a client that waits in the queue. It gets a reset rather than be left hanging, by means of the spare
   * descriptor; false if even that does not help: then the listener rests a while.
   */
  #turnAway(acceptor: Acceptor, errno: number): boolean {
    const { spec, counters } = acceptor.state;
    this.#refusals.tell("local-limit", { listener: spec.name, err: `accept ${errnoName(errno)}` }, this.now);
    if (this.#spares.free()) {
      const fd = acceptFrom(this.libc, acceptor.fd);
      if (fd >= 0) {
        counters.refused("local-limit");
        closeWithReset(this.libc, fd);
      }
      this.#spares.keep();
      // Fewer spares and no client: another worker took the descriptor. All spares and no client: it is not descriptors that lack.
      if (this.#spares.any && (fd >= 0 || !this.#spares.all)) return true;
    }
    acceptor.pausedUntil = this.now + ACCEPT_PAUSE_MS;
    this.#resumeAt = Math.min(this.#resumeAt, acceptor.pausedUntil);
    must("epoll_ctl", this.#control(EPOLL_CTL_MOD, acceptor.fd, 0, acceptor.serial));
    return false;
  }

  #resume(): void {
    this.#resumeAt = Number.POSITIVE_INFINITY;
    this.#spares.keep();
    for (const acceptor of this.#acceptors.values()) {
      if (acceptor.pausedUntil === 0) continue;
      acceptor.pausedUntil = 0;
      must("epoll_ctl", this.#control(EPOLL_CTL_MOD, acceptor.fd, EPOLLIN, acceptor.serial));
    }
  }

  // --- commands

  #commands(): void {
    const { address } = this.libc.memory;
    // Only takes the count back to 0; the commands are in the port.
    this.libc.read(this.#options.wake, address + WORDS, 8);
    for (let command = this.#options.receive(); command !== undefined; command = this.#options.receive()) {
      this.#options.reply({ kind: "done", id: command.id, count: this.#carryOut(command) });
    }
  }

  #carryOut(command: Command): number {
    if (command.kind === "plan") {
      this.#adopt(command.listeners);
      return this.#open;
    }
    if (command.kind === "cut") return this.#cut(command.listener);
    this.#isEnding = true;
    return this.#open;
  }

  #adopt(specs: readonly WorkerListener[]): void {
    for (const [name, acceptor] of this.#acceptors) {
      if (!specs.some((spec) => spec.name === name && spec.fd === acceptor.fd)) this.#drop(name, acceptor);
    }
    for (const spec of specs) {
      const running = this.#acceptors.get(spec.name);
      if (running === undefined) this.#listen(spec);
      else running.state.update(spec);
    }
  }

  #listen(spec: WorkerListener): void {
    const acceptor = new Acceptor(new ListenerState(spec), spec.fd);
    this.#serial = (this.#serial + 1) | 0;
    acceptor.serial = this.#serial;
    this.#table[spec.fd] = acceptor;
    this.#acceptors.set(spec.name, acceptor);
    must("epoll_ctl", this.#control(EPOLL_CTL_ADD, spec.fd, EPOLLIN, acceptor.serial));
  }

  #drop(name: string, acceptor: Acceptor): void {
    this.#accept(acceptor, LAST_ACCEPTS);
    must("epoll_ctl", this.#control(EPOLL_CTL_DEL, acceptor.fd, 0, 0));
    this.#table[acceptor.fd] = undefined;
    this.#acceptors.delete(name);
  }

  #cut(listener: string | undefined): number {
    let count = 0;
    for (const connection of this.#connections()) {
      if (listener !== undefined && connection.listener.spec.name !== listener) continue;
      connection.cut("drain");
      count += 1;
    }
    return count;
  }

  *#connections(): Iterable<LinuxConnection> {
    for (const entry of this.#table) {
      if (entry !== undefined && !(entry instanceof Acceptor) && entry.isClient) yield entry.connection;
    }
  }

  #control(operation: number, fd: number, events: number, serial: number): number {
    const { words, address, epollEvent } = this.libc.memory;
    const data = (WORDS + epollEvent.data) >> 2;
    words[WORDS >> 2] = events;
    words[data] = fd;
    words[data + 1] = serial;
    return this.libc.epollCtl(this.#epoll, operation, fd, address + WORDS);
  }

  #shutDown(): void {
    this.#refusals.flush();
    this.pipes.close();
    this.#spares.close();
    this.libc.close(this.#epoll);
  }
}

/** Connections are all that waits in a loop's lists. */
function connectionOf(waiter: Waiter): LinuxConnection {
  if (waiter instanceof LinuxConnection) return waiter;
  throw new TypeError("not a connection");
}
