import { addressText } from "../address.ts";
import { dialTimeoutMs, type EngineLimits, LINGER_MS } from "../engine.ts";
import { EPOLLIN } from "./abi.ts";
import { Acceptor, Acceptors } from "./acceptors.ts";
import { LinuxConnection } from "./connection.ts";
import { ConnectionLimiter } from "./connection-limiter.ts";
import { EpollSet } from "./epoll-set.ts";
import type { Libc } from "./libc.ts";
import type { ListenerState } from "./listener-state.ts";
import { WORDS_OFFSET } from "./memory.ts";
import { PipePool } from "./pipes.ts";
import { Pump } from "./pump.ts";
import { RefusalReporter } from "./refusal-reporter.ts";
import type { RelayContext } from "./relay-context.ts";
import { ARMED_EVENTS, type SocketOwner, SocketState } from "./socket-state.ts";
import { throwOnError } from "./sockets.ts";
import { type TimeoutEntry, TimeoutQueue } from "./timeout-queue.ts";
import type { UpstreamDial } from "./upstream-dial.ts";
import type { Command, Reply, WorkerData } from "./worker-messages.ts";

/** Maximum wait for events. */
const MAX_WAIT_MS = 1000;
const SWEEPS_PER_TIMEOUT = 4;

/** The main thread writes to this eventfd when it has sent a command. */
class Wake {
  readonly fd: number;
  serial = 0;

  constructor(fd: number) {
    this.fd = fd;
  }
}

interface EventLoopOptions extends WorkerData {
  readonly libc: Libc;
  readonly receive: () => Command | undefined;
  readonly reply: (reply: Reply) => void;
  /** Monotonic, in milliseconds; the origin is arbitrary. */
  readonly clock?: () => number;
}

/** The event loop of one worker: its connections, their timeouts, and the commands of the main thread. */
export class EventLoop implements RelayContext {
  readonly libc: Libc;
  readonly pipes: PipePool;
  readonly pump: Pump;
  readonly limits: EngineLimits;
  readonly connectTimeouts: TimeoutQueue;
  readonly nextAddressTimeouts: TimeoutQueue;
  readonly firstBytesTimeouts: TimeoutQueue;
  readonly lingerTimeouts: TimeoutQueue;
  now = 0;
  readonly isOutOfFds = (): boolean => this.#limiter.isOutOfFds();
  readonly #options: EventLoopOptions;
  readonly #clock: () => number;
  readonly #epoll: EpollSet<SocketState | Acceptor | Wake>;
  readonly #limiter: ConnectionLimiter;
  readonly #acceptors: Acceptors;
  #runQueue: SocketOwner[] = [];
  readonly #refusalReporter: RefusalReporter;
  readonly #sweepMs: number;
  readonly #silentSweeps: number;
  readonly #halfClosedSweeps: number;
  #sweepAt = Number.POSITIVE_INFINITY;
  #isExiting = false;
  #openConnections = 0;

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
    this.pipes = new PipePool(libc, this.isOutOfFds);
    this.pump = new Pump(this);
    this.#limiter = new ConnectionLimiter(options.connectionLimits, limits);
    const connectTimedOut = (entry: TimeoutEntry) => connectionOf(entry).connectTimedOut();
    this.connectTimeouts = new TimeoutQueue(limits.connectTimeoutMs, connectTimedOut);
    this.nextAddressTimeouts = new TimeoutQueue(dialTimeoutMs(limits.connectTimeoutMs, true), connectTimedOut);
    this.firstBytesTimeouts = new TimeoutQueue(limits.firstBytesMs, (entry) =>
      connectionOf(entry).firstBytesTimedOut(),
    );
    this.lingerTimeouts = new TimeoutQueue(LINGER_MS, (entry) => connectionOf(entry).lingerTimedOut());
    const idleMs = limits.idleTimeoutMs || Number.POSITIVE_INFINITY;
    const halfClosedMs = limits.halfClosedMs || Number.POSITIVE_INFINITY;
    this.#sweepMs = Math.min(MAX_WAIT_MS, idleMs / SWEEPS_PER_TIMEOUT, halfClosedMs / SWEEPS_PER_TIMEOUT);
    this.#silentSweeps = Math.ceil(idleMs / this.#sweepMs);
    this.#halfClosedSweeps = Math.ceil(halfClosedMs / this.#sweepMs);
    this.#epoll = new EpollSet(libc);
    this.#refusalReporter = new RefusalReporter(options.reply);
    this.#acceptors = new Acceptors({
      libc,
      epoll: this.#epoll,
      limiter: this.#limiter,
      refusalReporter: this.#refusalReporter,
      onClient: (listener, fd, slot, header) => this.#openConnection(listener, fd, slot, header),
    });
    throwOnError("epoll_ctl", this.#epoll.add(new Wake(options.wake), EPOLLIN));
  }

  /** Runs until an `exit` command arrives. */
  run(): void {
    while (!this.#isExiting) this.runOnce(this.#timeout());
    this.#shutDown();
  }

  /** One round: waits up to `timeoutMs` milliseconds for events and handles them. */
  runOnce(timeoutMs: number): void {
    const count = this.#epoll.wait(timeoutMs);
    this.now = this.#clock();
    this.#acceptors.startRound(this.now);
    for (let index = 0; index < count; index += 1) this.#handleEvent(index);
    this.#advanceQueued();
    this.#expire();
  }

  register(socket: SocketState, events: number): boolean {
    return this.#epoll.add(socket, events) === 0;
  }

  unregister(socket: SocketState): void {
    this.#epoll.forget(socket);
  }

  arm(socket: SocketState): void {
    socket.isArmed = true;
    this.#epoll.modify(socket, ARMED_EVENTS);
  }

  requeue(connection: SocketOwner): void {
    if (connection.isQueued) return;
    connection.isQueued = true;
    this.#runQueue.push(connection);
  }

  bytesRead(source: SocketState, bytes: number): void {
    const { connection } = source;
    // Dropped bytes must not keep alive a client whose upstream is gone.
    if (!source.isDiscarding) connection.silentSweeps = 0;
    const { counters } = connection.listener;
    if (source.isClient) counters.fromClient(bytes);
    else counters.fromUpstream(bytes);
  }

  dialEnded({ listener }: SocketOwner, { failures }: UpstreamDial, connected: boolean): void {
    const hadConnected = listener.dialFailures.recordOutcome(connected);
    if (failures.length === 0 && hadConnected) return;
    this.#options.reply({ kind: "dial", report: { listener: listener.spec.name, connected, failures: [...failures] } });
  }

  clientHeaderRefused({ listener, limiterSlot }: SocketOwner): void {
    listener.counters.refused("client-header");
    const source = addressText(this.#limiter.sourceOf(limiterSlot));
    this.#refusalReporter.report("client-header", { target: listener.spec.target, source }, this.now);
  }

  outOfResources({ listener }: SocketOwner, detail: string): void {
    listener.counters.refused("local-limit");
    this.#refusalReporter.report("local-limit", { target: listener.spec.target, err: detail }, this.now);
  }

  connectionClosed(connection: SocketOwner): void {
    this.#openConnections -= 1;
    connection.listener.counters.closed();
    this.#limiter.release(connection.limiterSlot);
  }

  /** Resets all connections after the loop itself has failed. */
  abandon(): void {
    for (const connection of this.#connections()) connection.cut("drain");
    this.#shutDown();
  }

  #handleEvent(index: number): void {
    const entry = this.#epoll.entryAt(index);
    if (entry instanceof SocketState) entry.connection.onEvents(entry, this.#epoll.eventsAt(index));
    else if (entry instanceof Acceptor) this.#acceptors.acceptBatch(entry);
    else if (entry !== undefined) this.#receiveCommands();
  }

  #openConnection(listener: ListenerState, fd: number, limiterSlot: number, header: Uint8Array | undefined): void {
    listener.counters.opened();
    this.#openConnections += 1;
    if (this.#sweepAt === Number.POSITIVE_INFINITY) this.#sweepAt = this.now + this.#sweepMs;
    new LinuxConnection(this, listener, fd, limiterSlot).open(header);
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
      this.nextAddressTimeouts.nextDeadline(),
      this.firstBytesTimeouts.nextDeadline(),
      this.lingerTimeouts.nextDeadline(),
      this.#sweepAt,
      this.#refusalReporter.flushAt,
      this.#acceptors.resumeAt,
      now + MAX_WAIT_MS,
    );
    return Math.max(0, Math.ceil(due - now));
  }

  #expire(): void {
    const { now } = this;
    this.connectTimeouts.expire(now);
    this.nextAddressTimeouts.expire(now);
    this.firstBytesTimeouts.expire(now);
    this.lingerTimeouts.expire(now);
    if (now >= this.#sweepAt) this.#sweep();
    if (now >= this.#refusalReporter.flushAt) this.#refusalReporter.flush();
    if (now >= this.#acceptors.resumeAt) this.#acceptors.resume();
  }

  /**
   * Ends connections without traffic for the idle or half-closed timeout. One sweep serves all: a timer for each
   * connection would have to be reset on every read. It also enables keepalive probes towards the upstream. Most
   * connections end before the first sweep and save that call.
   */
  #sweep(): void {
    this.#sweepAt = this.#openConnections > 0 ? this.now + this.#sweepMs : Number.POSITIVE_INFINITY;
    for (const connection of this.#connections()) {
      if (connection.silentSweeps > this.#silentSweeps) connection.cut("idle-timeout");
      else if (connection.silentSweeps > this.#halfClosedSweeps && connection.isHalfClosed)
        connection.halfClosedTimedOut();
      else {
        connection.silentSweeps += 1;
        connection.enableUpstreamKeepalive();
      }
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
      this.#acceptors.update(command.listeners);
      return this.#openConnections;
    }
    if (command.kind === "cut") return this.#cutConnections(command.listener);
    this.#isExiting = true;
    return this.#openConnections;
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

  *#connections(): Iterable<SocketOwner> {
    for (const entry of this.#epoll.entries()) {
      if (entry instanceof SocketState && entry.isClient) yield entry.connection;
    }
  }

  #shutDown(): void {
    this.#refusalReporter.flush();
    this.pipes.close();
    this.#acceptors.close();
    this.#epoll.close();
  }
}

/** All entries of the loop's timeout queues are connections. */
function connectionOf(entry: TimeoutEntry): LinuxConnection {
  if (entry instanceof LinuxConnection) return entry;
  throw new TypeError("not a connection");
}
