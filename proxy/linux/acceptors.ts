import { addressText } from "../address.ts";
import { encodeHeaderOf, v2Options } from "../proxy-header.ts";
import { EPOLLIN, ERRNO } from "./abi.ts";
import { type ConnectionLimiter, LIMIT_TOTAL } from "./connection-limiter.ts";
import type { EpollSet } from "./epoll-set.ts";
import type { Libc } from "./libc.ts";
import { ListenerState } from "./listener-state.ts";
import type { RefusalReporter } from "./refusal-reporter.ts";
import { ReservedFds } from "./reserved-fds.ts";
import { acceptFrom, closeWithReset, errnoName, localName, throwOnError } from "./sockets.ts";
import type { WorkerListener } from "./worker-messages.ts";

/**
 * Maximum number of clients accepted from one listener before other events are handled. A batch of 1 saves the accept4
 * that only returns EAGAIN. The batch starts at 1, and doubles each time the next round finds more clients.
 */
const ACCEPT_BATCH = 64;
/** Maximum number of clients accepted from a listener's backlog before it closes. Otherwise they would be reset. */
const MAX_FINAL_ACCEPTS = 4096;
/** How long a listener pauses if accept4 lacks resources and a reserved descriptor does not help. */
const ACCEPT_PAUSE_MS = 100;

const RESOURCE_ERRNOS = new Set<number>([ERRNO.EMFILE, ERRNO.ENFILE, ERRNO.ENOBUFS, ERRNO.ENOMEM]);

/** A listening socket registered with the loop. */
export class Acceptor {
  readonly state: ListenerState;
  readonly fd: number;
  serial = 0;
  pausedUntil = 0;
  /** Number of clients to accept at a time, and the last round that accepted any. */
  batch = 1;
  round = 0;

  constructor(state: ListenerState, fd: number) {
    this.state = state;
    this.fd = fd;
  }
}

interface AcceptorsOptions {
  readonly libc: Libc;
  readonly epoll: Pick<EpollSet<Acceptor>, "add" | "modify" | "remove">;
  readonly limiter: ConnectionLimiter;
  readonly refusalReporter: RefusalReporter;
  /** Receives an admitted client and its slot in the limiter. `header` is undefined for protocol `none`. */
  readonly onClient: (listener: ListenerState, fd: number, limiterSlot: number, header: Uint8Array | undefined) => void;
}

/** The listeners of one worker: accepts clients, in batches, and admits or refuses them. */
export class Acceptors {
  /** When paused listeners accept again, on the loop's clock. */
  resumeAt = Number.POSITIVE_INFINITY;
  readonly #options: AcceptorsOptions;
  readonly #libc: Libc;
  readonly #acceptors = new Map<string, Acceptor>();
  readonly #reservedFds: ReservedFds;
  /** The loop's clock and its number of rounds. */
  #now = 0;
  #round = 0;

  /** Throws SystemError if no file descriptor is left. */
  constructor(options: AcceptorsOptions) {
    this.#options = options;
    this.#libc = options.libc;
    this.#reservedFds = new ReservedFds(options.libc, options.limiter);
  }

  /** Call it once per round, before any other method. */
  startRound(now: number): void {
    this.#now = now;
    this.#round += 1;
  }

  /** Accepts from a listener that is readable. */
  acceptBatch(acceptor: Acceptor): void {
    acceptor.batch = acceptor.round === this.#round - 1 ? Math.min(ACCEPT_BATCH, acceptor.batch * 2) : 1;
    acceptor.round = this.#round;
    this.#accept(acceptor, acceptor.batch);
  }

  /** Accepts on these listeners and no others. Clients in the backlog of a removed one are still accepted. */
  update(specs: readonly WorkerListener[]): void {
    for (const [name, acceptor] of this.#acceptors) {
      if (!specs.some((spec) => spec.name === name && spec.fd === acceptor.fd)) this.#removeListener(name, acceptor);
    }
    for (const spec of specs) {
      const running = this.#acceptors.get(spec.name);
      if (running === undefined) this.#addListener(spec);
      else running.state.update(spec);
    }
  }

  /** Ends all pauses, and reserves descriptors again. */
  resume(): void {
    this.resumeAt = Number.POSITIVE_INFINITY;
    this.#reservedFds.refill();
    if (!this.#reservedFds.isFull) this.#resumeLater();
    for (const acceptor of this.#acceptors.values()) {
      if (acceptor.pausedUntil === 0) continue;
      acceptor.pausedUntil = 0;
      this.#options.epoll.modify(acceptor, EPOLLIN);
    }
  }

  close(): void {
    this.#reservedFds.close();
  }

  #addListener(spec: WorkerListener): void {
    const acceptor = new Acceptor(new ListenerState(spec), spec.fd);
    this.#acceptors.set(spec.name, acceptor);
    throwOnError("epoll_ctl", this.#options.epoll.add(acceptor, EPOLLIN));
  }

  #removeListener(name: string, acceptor: Acceptor): void {
    this.#accept(acceptor, MAX_FINAL_ACCEPTS);
    this.#options.epoll.remove(acceptor);
    this.#acceptors.delete(name);
  }

  #accept(acceptor: Acceptor, max: number): void {
    for (let count = 0; count < max; count += 1) {
      const fd = acceptFrom(this.#libc, acceptor.fd);
      if (fd >= 0 && this.#options.limiter.isOutOfFds()) this.#giveBack(acceptor.state, fd);
      else if (fd >= 0) this.#admit(acceptor.state, fd);
      else if (fd === -ERRNO.EAGAIN) return;
      else if (RESOURCE_ERRNOS.has(-fd) && !this.#refuseWithReservedFd(acceptor, -fd)) return;
      // Any other errno concerns only that client's connection (accept(2)). Continue with the next client.
    }
  }

  #admit(state: ListenerState, fd: number): void {
    const { limiter, refusalReporter } = this.#options;
    const { spec, counters } = state;
    const source = this.#libc.memory.peer.address();
    if (source === undefined) {
      this.#libc.close(fd);
      return;
    }
    const slot = limiter.admit(source);
    if (slot < 0) {
      const limit = slot === LIMIT_TOTAL ? "limit-total" : "limit-source";
      counters.refused(limit);
      refusalReporter.report(limit, { target: spec.target, source: addressText(source) }, this.#now);
      closeWithReset(this.#libc, fd);
      return;
    }
    const header = spec.protocol === "none" ? undefined : this.#header(spec.protocol, spec, fd, source);
    this.#options.onClient(state, fd, slot, header);
  }

  #header(version: "v1" | "v2", spec: WorkerListener, fd: number, source: Uint8Array): Uint8Array {
    const endpoints = {
      source,
      sourcePort: this.#libc.memory.peer.port(),
      // The address that the client connected to. If getsockname fails, the client is gone and the next read reports
      // it.
      destination: spec.localAddress ?? localName(this.#libc, fd)?.address ?? source,
      destinationPort: spec.declaredPort,
    };
    return encodeHeaderOf(version, endpoints, v2Options(spec.tlvs));
  }

  /**
   * No file descriptor is left for a client in the backlog. Frees a reserved descriptor to accept and reset the client,
   * so that it does not hang. If that does not help, pauses the listener and returns false.
   */
  #refuseWithReservedFd(acceptor: Acceptor, errno: number): boolean {
    const { spec } = acceptor.state;
    const fields = { listener: spec.name, err: `accept ${errnoName(errno)}` };
    this.#options.refusalReporter.report("local-limit", fields, this.#now);
    if (this.#reservedFds.releaseOne()) {
      const fd = acceptFrom(this.#libc, acceptor.fd);
      if (fd >= 0) this.#giveBack(acceptor.state, fd);
      else this.#reservedFds.refill();
      if (!this.#reservedFds.isFull) this.#resumeLater();
      // No client and fewer reserved descriptors: another worker took one. No client and all reserved: another resource
      // is exhausted.
      if (this.#reservedFds.hasAny && (fd >= 0 || !this.#reservedFds.isFull)) return true;
    }
    acceptor.pausedUntil = this.#resumeLater();
    this.#options.epoll.modify(acceptor, 0);
    return false;
  }

  /** Resets a client that got a reserved descriptor of this worker or of another worker. */
  #giveBack({ counters }: ListenerState, fd: number): void {
    counters.refused("local-limit");
    closeWithReset(this.#libc, fd);
    this.#reservedFds.refill();
  }

  /** Schedules `resume` after a pause. Returns its time on the loop's clock. */
  #resumeLater(): number {
    const at = this.#now + ACCEPT_PAUSE_MS;
    this.resumeAt = Math.min(this.resumeAt, at);
    return at;
  }
}
