import { O_CLOEXEC } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { throwOnError } from "./sockets.ts";

/** Descriptors that are kept for turning clients away. */
const COUNT = 3;

/**
 * Descriptors that are kept open, to be closed for a moment when no other is left. Several, since one that is free for that moment may
 * go to a connection of another worker, which then holds it.
 */
export class ReservedFds {
  readonly #libc: Libc;
  readonly #fds: number[] = [];

  /** Throws SystemError if the system has no descriptor left. */
  constructor(libc: Libc) {
    this.#libc = libc;
    for (let count = 0; count < COUNT; count += 1) this.#fds.push(throwOnError("eventfd", libc.eventfd(0, O_CLOEXEC)));
  }

  /** Whether there is one. */
  get hasAny(): boolean {
    return this.#fds.length > 0;
  }

  get isFull(): boolean {
    return this.#fds.length === COUNT;
  }

  /** Frees one for whatever is opened next; false if none is left. */
  releaseOne(): boolean {
    const fd = this.#fds.pop();
    if (fd === undefined) return false;
    this.#libc.close(fd);
    return true;
  }

  /** As many as can be had now. */
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
