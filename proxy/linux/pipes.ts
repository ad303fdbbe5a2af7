import { F_SETPIPE_SZ, O_CLOEXEC, O_NONBLOCK } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { WORDS_OFFSET } from "./memory.ts";

/** Requested capacity of a pipe. It is halved while the kernel refuses it. */
const PIPE_BYTES = 1024 * 1024;
const SMALLEST_PIPE_BYTES = 64 * 1024;
/**
 * Upper limit of pipes per thread. An unprivileged user may have 16,384 pages in all pipes together
 * (fs.pipe-user-pages-soft): 64 pipes of 1 MiB, over all threads and all processes of this uid on the node. Beyond that
 * F_SETPIPE_SZ fails with EPERM.
 */
const MAX_PIPES = 12;

export interface Pipe {
  readonly read: number;
  readonly write: number;
  /** Bytes in the pipe now. */
  bytes: number;
}

/** Pipes for splice. A stream holds a pipe while it has bytes, and releases it empty. */
export class PipePool {
  readonly #libc: Libc;
  readonly #isOutOfFds: () => boolean;
  readonly #idle: Pipe[] = [];
  #count = 0;
  #bytes = PIPE_BYTES;

  /** If `isOutOfFds`, the pool closes descriptors that it has just opened. */
  constructor(libc: Libc, isOutOfFds: () => boolean) {
    this.#libc = libc;
    this.#isOutOfFds = isOutOfFds;
  }

  /** An empty pipe. Undefined if none is available: the caller then copies. */
  acquire(): Pipe | undefined {
    const idle = this.#idle.pop();
    if (idle !== undefined || this.#count >= MAX_PIPES) return idle;
    return this.#create();
  }

  /** Returns a pipe to the pool. A pipe that still holds bytes of a closed connection is closed. */
  release(pipe: Pipe): void {
    if (pipe.bytes === 0) this.#idle.push(pipe);
    else this.#close(pipe);
  }

  /** Closes the pipes that are not in use. */
  close(): void {
    for (const pipe of this.#idle.splice(0)) this.#close(pipe);
  }

  #create(): Pipe | undefined {
    const { words, address } = this.#libc.memory;
    if (this.#libc.pipe2(address + WORDS_OFFSET, O_CLOEXEC | O_NONBLOCK) < 0) return undefined;
    const pipe: Pipe = { read: words[WORDS_OFFSET >> 2] ?? -1, write: words[(WORDS_OFFSET >> 2) + 1] ?? -1, bytes: 0 };
    this.#count += 1;
    if (this.#isOutOfFds()) {
      this.#close(pipe);
      return undefined;
    }
    while (this.#bytes > SMALLEST_PIPE_BYTES && this.#libc.fcntl(pipe.write, F_SETPIPE_SZ, this.#bytes) < 0) {
      this.#bytes /= 2;
    }
    return pipe;
  }

  #close(pipe: Pipe): void {
    this.#libc.close(pipe.read);
    this.#libc.close(pipe.write);
    this.#count -= 1;
  }
}
