import { O_CLOEXEC } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { throwOnError } from "./sockets.ts";

/** Descriptors reserved for refusing clients. */
const RESERVED_COUNT = 3;

/**
 * Open descriptors that can be closed for a moment when no other is left, to accept and reset a client. There are several, because another
 * worker's connection may take one while it is free.
 */
export class ReservedFds {
  readonly #libc: Libc;
  readonly #fds: number[] = [];

  /** Throws SystemError if no file descriptor is left. */
  constructor(libc: Libc) {
    this.#libc = libc;
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

  /** Closes one, so that the next open succeeds; false if none is reserved. */
  releaseOne(): boolean {
    const fd = this.#fds.pop();
    if (fd === undefined) return false;
    this.#libc.close(fd);
    return true;
  }

  /** Reserves descriptors again, as many as the system gives. */
  refill(): void {
    while (!this.isFull) {
      const fd = this.#libc.eventfd(0, O_CLOEXEC);
      if (fd < 0) return;
      this.#fds.push(fd);
    }
  }

  close(): void {
    for (const fd of this.#fds.splice(0)) this.#libc.close(fd);
  }
}
