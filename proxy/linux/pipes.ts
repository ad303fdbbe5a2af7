import { F_SETPIPE_SZ, O_CLOEXEC, O_NONBLOCK } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { WORDS } from "./memory.ts";

/** Bytes a pipe may hold, at best; less where the kernel refuses that much. */
const PIPE_BYTES = 1024 * 1024;
const SMALLEST_PIPE_BYTES = 64 * 1024;
/**
 * Pipes that exist at most, a thread. An ordinary user may have 16,384 pages in all pipes together (fs.pipe-user-pages-soft): 64
 * of 1 MiB, over all threads and all that runs under this uid on the node. Beyond that F_SETPIPE_SZ says EPERM.
 */
const MAX_PIPES = 12;

export interface Pipe {
  readonly read: number;
  readonly write: number;
  /** In it now. */
  bytes: number;
}

/** Pipes for splice. One belongs to a stream as long as there are bytes in it, and comes back empty. */
export class PipePool {
  readonly #libc: Libc;
  readonly #free: Pipe[] = [];
  #count = 0;
  #bytes = PIPE_BYTES;

  constructor(libc: Libc) {
    this.#libc = libc;
  }

  /** An empty pipe; undefined if there is none to be had now: bytes are copied then. */
  take(): Pipe | undefined {
    const free = this.#free.pop();
    if (free !== undefined || this.#count >= MAX_PIPES) return free;
    return this.#make();
  }

  /** Takes a pipe back; one with bytes of a connection that is gone is closed. */
  give(pipe: Pipe): void {
    if (pipe.bytes === 0) this.#free.push(pipe);
    else this.#close(pipe);
  }

  /** Closes the pipes that are not in use. */
  close(): void {
    for (const pipe of this.#free.splice(0)) this.#close(pipe);
  }

  #make(): Pipe | undefined {
    const { words, address } = this.#libc.memory;
    if (this.#libc.pipe2(address + WORDS, O_CLOEXEC | O_NONBLOCK) < 0) return undefined;
    const pipe: Pipe = { read: words[WORDS >> 2] ?? -1, write: words[(WORDS >> 2) + 1] ?? -1, bytes: 0 };
    this.#count += 1;
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
