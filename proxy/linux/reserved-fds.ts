import { O_CLOEXEC } from "./abi.ts";
import type { ConnectionLimiter } from "./connection-limiter.ts";
import type { Libc } from "./libc.ts";
import { throwOnError } from "./sockets.ts";

/** Descriptors reserved for refusing clients. */
const RESERVED_COUNT = 3;

/**
 * Open descriptors for the case that no other is left. One is closed for a moment, to accept and reset a client.
 * Another worker may take it in that moment. The shared count of lent descriptors tells that worker to give it back.
 * Until then, the other reserved descriptors are needed.
 */
export class ReservedFds {
  readonly #libc: Libc;
  readonly #lender: Pick<ConnectionLimiter, "lendFds">;
  readonly #fds: number[] = [];

  /** Throws SystemError if no file descriptor is left. */
  constructor(libc: Libc, lender: Pick<ConnectionLimiter, "lendFds">) {
    this.#libc = libc;
    this.#lender = lender;
    for (let count = 0; count < RESERVED_COUNT; count += 1)
      this.#fds.push(throwOnError("eventfd", libc.eventfd(0, O_CLOEXEC)));
  }

  /** Whether at least one is reserved. */
  get hasAny(): boolean {
    return this.#fds.length > 0;
  }

  get isFull(): boolean {
    return this.#fds.length === RESERVED_COUNT;
  }

  /** Closes one, so that the next open succeeds. False if none is reserved. */
  releaseOne(): boolean {
    const fd = this.#fds.pop();
    if (fd === undefined) return false;
    // The count comes first: a worker that gets the descriptor must see it.
    this.#lender.lendFds(1);
    this.#libc.close(fd);
    return true;
  }

  /** Reserves as many descriptors as are missing and the system allows. */
  refill(): void {
    while (!this.isFull) {
      const fd = this.#libc.eventfd(0, O_CLOEXEC);
      if (fd < 0) return;
      this.#fds.push(fd);
      this.#lender.lendFds(-1);
    }
  }

  close(): void {
    for (const fd of this.#fds.splice(0)) this.#libc.close(fd);
  }
}
