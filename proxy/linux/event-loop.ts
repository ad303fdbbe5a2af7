import { addressText } from "../address.ts";
import { type EngineLimits, LINGER_MS } from "../engine.ts";
import { encodeHeaderOf } from "../proxy-header.ts";
import { v2Options } from "../proxy-header-tlvs.ts";
import { EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, ERRNO, O_CLOEXEC } from "./abi.ts";
import { ARMED_EVENTS, LinuxConnection, type RelayContext } from "./connection.ts";
import { ConnectionLimiter, LIMIT_TOTAL } from "./connection-limiter.ts";
import type { Libc } from "./libc.ts";
import { ListenerState } from "./listener-state.ts";
import { EVENTS_OFFSET, MAX_EVENTS, WORDS_OFFSET } from "./memory.ts";
import { PipePool } from "./pipes.ts";
import { Pump } from "./pump.ts";
import { RefusalReporter } from "./refusal-reporter.ts";
import { ReservedFds } from "./reserved-fds.ts";
import type { SocketState } from "./socket-state.ts";
import { acceptFrom, closeWithReset, errnoName, localName, throwOnError } from "./sockets.ts";
import { type TimeoutEntry, TimeoutQueue } from "./timeout-queue.ts";
import type { UpstreamDial } from "./upstream-dial.ts";
import type { Command, Reply, WorkerData, WorkerListener } from "./worker-messages.ts";

/**
 * Upper limit of clients accepted from one listener before other events are handled. The batch starts at 1, which saves the accept4 that
 * only returns EAGAIN, and doubles each time the next round finds more clients.
 */
const ACCEPT_BATCH = 64;
/** Upper limit of clients accepted from a listener before it closes, so that clients already in its backlog are not reset. */
const MAX_FINAL_ACCEPTS = 4096;
/** How long a listener pauses when accept4 fails for lack of resources and closing the client does not help. */
const ACCEPT_PAUSE_MS = 100;
/** Longest wait for events. */
const MAX_WAIT_MS = 1000;
const SWEEPS_PER_TIMEOUT = 4;

const RESOURCE_ERRNOS = new Set<number>([ERRNO.EMFILE, ERRNO.ENFILE, ERRNO.ENOBUFS, ERRNO.ENOMEM]);

/** A listening socket registered with the loop. */
class Acceptor {
  readonly state: ListenerState;
  readonly fd: number;
  serial = 0;
  pausedUntil = 0;
  /** Clients to accept at a time, and the last round that had any. */
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
  /** Monotonic, in milliseconds; the origin is arbitrary. */
  readonly clock?: () => number;
}

/** The event loop of one worker: an epoll set, its listeners and its connections. */
export class EventLoop implements RelayContext {
  readonly libc: Libc;
  readonly pipes: PipePool;
  readonly pump: Pump;
  readonly limits: EngineLimits;
  readonly connectTimeouts: TimeoutQueue;
  readonly firstBytesTimeouts: TimeoutQueue;
  readonly lingerTimeouts: TimeoutQueue;
  now = 0;
  readonly #options: EventLoopOptions;
  readonly #clock: () => number;
  readonly #epoll: number;
  readonly #limiter: ConnectionLimiter;
  /** Indexed by file descriptor. */
  readonly #entries: (SocketState | Acceptor | undefined)[] = [];
  readonly #acceptors = new Map<string, Acceptor>();
  #runQueue: LinuxConnection[] = [];
  #lastSerial = 0;
  readonly #reservedFds: ReservedFds;
  readonly #refusalReporter: RefusalReporter;
  readonly #sweepMs: number;
  readonly #silentSweeps: number;
  #sweepAt = Number.POSITIVE_INFINITY;
  #resumeAt = Number.POSITIVE_INFINITY;
  #round = 0;
  #isExiting = false;
  #openConnections = 0;

  /** Number of open connections. */
  get openConnections(): number {
    return this.#openConnections;
  }

  /** Throws SystemError if no file descriptor is left. */
  constructor(options: EventLoopOptions) {
    const { libc, limits } = options;
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
    this.libc = libc;
    this.limits = limits;
    this.pipes = new PipePool(libc);
    this.pump = new Pump(this);
    this.#limiter = new ConnectionLimiter(options.connectionLimits, limits);
    this.connectTimeouts = new TimeoutQueue(limits.connectTimeoutMs, (entry) => connectionOf(entry).connectTimedOut());
    this.firstBytesTimeouts = new TimeoutQueue(limits.firstBytesMs, (entry) =>
      connectionOf(entry).firstBytesTimedOut(),
    );
    this.lingerTimeouts = new TimeoutQueue(options.lingerMs ?? LINGER_MS, (entry) =>
      connectionOf(entry).lingerTimedOut(),
    );
    const timeoutMs = limits.idleTimeoutMs > 0 ? limits.idleTimeoutMs : Number.POSITIVE_INFINITY;
    this.#sweepMs = Math.min(MAX_WAIT_MS, timeoutMs / SWEEPS_PER_TIMEOUT);
    this.#silentSweeps = Math.ceil(timeoutMs / this.#sweepMs);
    this.#epoll = throwOnError("epoll_create1", libc.epollCreate(O_CLOEXEC));
    this.#reservedFds = new ReservedFds(libc);
    this.#refusalReporter = new RefusalReporter(options.reply);
    throwOnError("epoll_ctl", this.#epollControl(EPOLL_CTL_ADD, options.wake, EPOLLIN, 0));
  }

  /** Runs until an `exit` command arrives. */
  run(): void {
    while (!this.#isExiting) this.runOnce(this.#timeout());
    this.#shutDown();
  }

  /** One round: waits up to `timeoutMs` milliseconds for events and handles them. */
  runOnce(timeoutMs: number): void {
    const { libc } = this;
    const { address, words, epollEvent } = libc.memory;
    const count = libc.epollWait(this.#epoll, address + EVENTS_OFFSET, MAX_EVENTS, timeoutMs);
    this.now = this.#clock();
    this.#round += 1;
    if (count < 0 && count !== -ERRNO.EINTR) throwOnError("epoll_wait", count);
    // Handling an event does not write to the memory that holds the events.
    const data = epollEvent.data >> 2;
    for (let index = 0, at = EVENTS_OFFSET >> 2; index < count; index += 1, at += epollEvent.size >> 2) {
      this.#handleEvent(words[at] ?? 0, words[at + data] ?? 0, words[at + data + 1] ?? 0);
    }
    this.#advanceQueued();
    this.#expire();
  }

  register(socket: SocketState, events: number): boolean {
    this.#lastSerial = (this.#lastSerial + 1) | 0;
    socket.serial = this.#lastSerial;
    this.#entries[socket.fd] = socket;
    return this.#epollControl(EPOLL_CTL_ADD, socket.fd, events, socket.serial) === 0;
  }

  unregister(socket: SocketState): void {
    if (this.#entries[socket.fd] === socket) this.#entries[socket.fd] = undefined;
  }

  arm(socket: SocketState): void {
    socket.isArmed = true;
    throwOnError("epoll_ctl", this.#epollControl(EPOLL_CTL_MOD, socket.fd, ARMED_EVENTS, socket.serial));
  }

  requeue(connection: LinuxConnection): void {
    if (connection.isQueued) return;
    connection.isQueued = true;
    this.#runQueue.push(connection);
  }

  bytesRead(source: SocketState, bytes: number): void {
    const { connection } = source;
    connection.silentSweeps = 0;
    const { counters } = connection.listener;
    if (source.isClient) counters.fromClient(bytes);
    else counters.fromUpstream(bytes);
  }

  dialEnded({ listener }: LinuxConnection, { failures }: UpstreamDial, connected: boolean): void {
    const hadConnected = listener.dialFailures.recordOutcome(connected);
    if (failures.length === 0 && hadConnected) return;
    this.#options.reply({ kind: "dial", report: { listener: listener.spec.name, connected, failures: [...failures] } });
  }

  outOfResources({ listener }: LinuxConnection, detail: string): void {
    listener.counters.refused("local-limit");
    this.#refusalReporter.report("local-limit", { target: listener.spec.target, err: detail }, this.now);
  }

  connectionClosed(connection: LinuxConnection): void {
    this.#openConnections -= 1;
    connection.listener.counters.closed();
    this.#limiter.release(connection.limiterSlot);
  }

  /** Resets all connections after the loop itself has failed. */
  abandon(): void {
    for (const connection of this.#connections()) connection.cut("drain");
    this.#shutDown();
  }

  #handleEvent(events: number, fd: number, serial: number): void {
    if (fd === this.#options.wake) {
      this.#receiveCommands();
      return;
    }
    const entry = this.#entries[fd];
    // The descriptor was closed earlier in this round; its number may already be reused.
    if (entry === undefined || entry.serial !== serial) return;
    if (entry instanceof Acceptor) this.#acceptBatch(entry);
    else entry.connection.onEvents(entry, events);
  }

  #advanceQueued(): void {
    if (this.#runQueue.length === 0) return;
    const queue = this.#runQueue;
    this.#runQueue = [];
    for (const connection of queue) {
      connection.isQueued = false;
      connection.advance();
    }
  }

  // --- time

  #timeout(): number {
    if (this.#runQueue.length > 0) return 0;
    const now = this.#clock();
    const due = Math.min(
      this.connectTimeouts.nextDeadline(),
      this.firstBytesTimeouts.nextDeadline(),
      this.lingerTimeouts.nextDeadline(),
      this.#sweepAt,
      this.#refusalReporter.flushAt,
      this.#resumeAt,
      now + MAX_WAIT_MS,
    );
    return Math.max(0, Math.ceil(due - now));
  }

  #expire(): void {
    const { now } = this;
    this.connectTimeouts.expire(now);
    this.firstBytesTimeouts.expire(now);
    this.lingerTimeouts.expire(now);
    if (now >= this.#sweepAt) this.#sweep();
    if (now >= this.#refusalReporter.flushAt) this.#refusalReporter.flush();
    if (now >= this.#resumeAt) this.#resume();
  }

  /**
   * Cuts connections without traffic for the idle timeout. One sweep serves all: a timer per connection would cost a reset on every read.
   * It also enables keepalive probes towards the upstream. Most connections end before the first sweep and save that call.
   */
  #sweep(): void {
    this.#sweepAt = this.#openConnections > 0 ? this.now + this.#sweepMs : Number.POSITIVE_INFINITY;
    for (const connection of this.#connections()) {
      if (connection.silentSweeps > this.#silentSweeps) connection.cut("idle-timeout");
      else {
        connection.silentSweeps += 1;
        connection.enableUpstreamKeepalive();
      }
    }
  }

  // --- clients

  #acceptBatch(acceptor: Acceptor): void {
    acceptor.batch = acceptor.round === this.#round - 1 ? Math.min(ACCEPT_BATCH, acceptor.batch * 2) : 1;
    acceptor.round = this.#round;
    this.#accept(acceptor, acceptor.batch);
  }

  #accept(acceptor: Acceptor, max: number): void {
    for (let count = 0; count < max; count += 1) {
      const fd = acceptFrom(this.libc, acceptor.fd);
      if (fd >= 0) this.#admit(acceptor.state, fd);
      else if (fd === -ERRNO.EAGAIN) return;
      else if (RESOURCE_ERRNOS.has(-fd) && !this.#refuseWithReservedFd(acceptor, -fd)) return;
      // Any other errno concerns only that client's connection (accept(2)): continue with the next.
    }
  }

  #admit(state: ListenerState, fd: number): void {
    const { spec, counters } = state;
    const source = this.libc.memory.peer.address();
    if (source === undefined) {
      this.libc.close(fd);
      return;
    }
    const slot = this.#limiter.admit(source);
    if (slot < 0) {
      const limit = slot === LIMIT_TOTAL ? "limit-total" : "limit-source";
      counters.refused(limit);
      this.#refusalReporter.report(limit, { target: spec.target, source: addressText(source) }, this.now);
      closeWithReset(this.libc, fd);
      return;
    }
    const header = spec.protocol === "none" ? undefined : this.#header(spec.protocol, spec, fd, source);
    counters.opened();
    this.#openConnections += 1;
    if (this.#sweepAt === Number.POSITIVE_INFINITY) this.#sweepAt = this.now + this.#sweepMs;
    new LinuxConnection(this, state, fd, slot).open(header);
  }

  #header(version: "v1" | "v2", spec: WorkerListener, fd: number, source: Uint8Array): Uint8Array {
    const endpoints = {
      source,
      sourcePort: this.libc.memory.peer.port(),
      // The address that the client connected to. If getsockname fails, the client is gone and the next read reports it.
      destination: spec.localAddress ?? localName(this.libc, fd)?.address ?? source,
      destinationPort: spec.declaredPort,
    };
    return encodeHeaderOf(version, endpoints, v2Options(spec.tlvs));
  }

  /**
   * No file descriptor is left for a client in the backlog. Frees a reserved descriptor to accept and reset the client, so that it does not
   * hang. If that does not help, pauses the listener and returns false.
   */
  #refuseWithReservedFd(acceptor: Acceptor, errno: number): boolean {
    const { spec, counters } = acceptor.state;
    this.#refusalReporter.report("local-limit", { listener: spec.name, err: `accept ${errnoName(errno)}` }, this.now);
    if (this.#reservedFds.releaseOne()) {
      const fd = acceptFrom(this.libc, acceptor.fd);
      if (fd >= 0) {
        counters.refused("local-limit");
        closeWithReset(this.libc, fd);
      }
      this.#reservedFds.refill();
      // No client and fewer reserved descriptors: another worker took one. No client and all reserved: another resource is exhausted.
      if (this.#reservedFds.hasAny && (fd >= 0 || !this.#reservedFds.isFull)) return true;
    }
    acceptor.pausedUntil = this.now + ACCEPT_PAUSE_MS;
    this.#resumeAt = Math.min(this.#resumeAt, acceptor.pausedUntil);
    throwOnError("epoll_ctl", this.#epollControl(EPOLL_CTL_MOD, acceptor.fd, 0, acceptor.serial));
    return false;
  }

  #resume(): void {
    this.#resumeAt = Number.POSITIVE_INFINITY;
    this.#reservedFds.refill();
    for (const acceptor of this.#acceptors.values()) {
      if (acceptor.pausedUntil === 0) continue;
      acceptor.pausedUntil = 0;
      throwOnError("epoll_ctl", this.#epollControl(EPOLL_CTL_MOD, acceptor.fd, EPOLLIN, acceptor.serial));
    }
  }

  // --- commands

  #receiveCommands(): void {
    const { address } = this.libc.memory;
    // Only resets the eventfd's counter to 0; the commands are in the message port.
    this.libc.read(this.#options.wake, address + WORDS_OFFSET, 8);
    for (let command = this.#options.receive(); command !== undefined; command = this.#options.receive()) {
      this.#options.reply({ kind: "done", id: command.id, count: this.#execute(command) });
    }
  }

  #execute(command: Command): number {
    if (command.kind === "listen") {
      this.#updateListeners(command.listeners);
      return this.#openConnections;
    }
    if (command.kind === "cut") return this.#cutConnections(command.listener);
    this.#isExiting = true;
    return this.#openConnections;
  }

  #updateListeners(specs: readonly WorkerListener[]): void {
    for (const [name, acceptor] of this.#acceptors) {
      if (!specs.some((spec) => spec.name === name && spec.fd === acceptor.fd)) this.#removeListener(name, acceptor);
    }
    for (const spec of specs) {
      const running = this.#acceptors.get(spec.name);
      if (running === undefined) this.#addListener(spec);
      else running.state.update(spec);
    }
  }

  #addListener(spec: WorkerListener): void {
    const acceptor = new Acceptor(new ListenerState(spec), spec.fd);
    this.#lastSerial = (this.#lastSerial + 1) | 0;
    acceptor.serial = this.#lastSerial;
    this.#entries[spec.fd] = acceptor;
    this.#acceptors.set(spec.name, acceptor);
    throwOnError("epoll_ctl", this.#epollControl(EPOLL_CTL_ADD, spec.fd, EPOLLIN, acceptor.serial));
  }

  #removeListener(name: string, acceptor: Acceptor): void {
    this.#accept(acceptor, MAX_FINAL_ACCEPTS);
    throwOnError("epoll_ctl", this.#epollControl(EPOLL_CTL_DEL, acceptor.fd, 0, 0));
    this.#entries[acceptor.fd] = undefined;
    this.#acceptors.delete(name);
  }

  #cutConnections(listener: string | undefined): number {
    let count = 0;
    for (const connection of this.#connections()) {
      if (listener !== undefined && connection.listener.spec.name !== listener) continue;
      connection.cut("drain");
      count += 1;
    }
    return count;
  }

  *#connections(): Iterable<LinuxConnection> {
    for (const entry of this.#entries) {
      if (entry !== undefined && !(entry instanceof Acceptor) && entry.isClient) yield entry.connection;
    }
  }

  #epollControl(operation: number, fd: number, events: number, serial: number): number {
    const { words, address, epollEvent } = this.libc.memory;
    const data = (WORDS_OFFSET + epollEvent.data) >> 2;
    words[WORDS_OFFSET >> 2] = events;
    words[data] = fd;
    words[data + 1] = serial;
    return this.libc.epollCtl(this.#epoll, operation, fd, address + WORDS_OFFSET);
  }

  #shutDown(): void {
    this.#refusalReporter.flush();
    this.pipes.close();
    this.#reservedFds.close();
    this.libc.close(this.#epoll);
  }
}

/** All entries of the loop's timeout queues are connections. */
function connectionOf(entry: TimeoutEntry): LinuxConnection {
  if (entry instanceof LinuxConnection) return entry;
  throw new TypeError("not a connection");
}
