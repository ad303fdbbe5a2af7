import { ERRNO, MSG_MORE, MSG_NOSIGNAL } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { IO, IO_BYTES } from "./memory.ts";
import type { PipePool } from "./pipes.ts";
import type { SocketState } from "./socket-state.ts";
import { setNoDelay } from "./sockets.ts";

/**
 * Read at a time. A read that is filled has most likely left something: what follows is spliced. Copying costs more than a splice from
 * about this size on; with 64 KiB, an answer of that size took a sixth more CPU.
 */
export const READ_BYTES = 16 * 1024;
/** Bytes that one splice moves at most. */
const SPLICE_BYTES = 1024 * 1024;
/** Bytes of one stream that are moved before other connections have their turn. */
const BUDGET_BYTES = 1024 * 1024;

/** What moving a stream needs of the loop. */
export interface PumpContext {
  readonly libc: Libc;
  readonly pipes: PipePool;
  /** Asks epoll to report when the side becomes writable. */
  arm(side: SocketState): void;
  /** Bytes were read. */
  bytesRead(source: SocketState, bytes: number): void;
}

/** Why a pump stopped. */
export const PUMP = {
  /** Nothing more to read, or the other side takes no more: an event will come. */
  blocked: 0,
  /** The budget is used up: to be called again soon. */
  hasMore: 1,
  /** All is read and sent; the FIN is to be passed on. */
  endOfStream: 2,
  /** Reading failed; the error is in `errno`. */
  sourceFailed: 3,
  /** Sending failed; the error is in `errno`. */
  sinkFailed: 4,
} as const;
type PumpOutcome = (typeof PUMP)[keyof typeof PUMP];

/**
 * Moves a stream from one socket to the other: through the thread's memory, or, once a read was as large as it could be, by splice
 * through a pipe, without the bytes coming to user space. A stream that gives little at a time is copied again.
 *
 *     source --recv--> memory --send--> sink          what the sink does not take is kept in source.pending
 *     source --splice--> pipe --splice--> sink        what the sink does not take stays in source.pipe
 *
 * Nothing is read while something waits to be sent, so that a peer that does not read holds up no more than that.
 */
export class Pump {
  /** Of the last outcome that was a failure, positive. */
  errno = 0;
  readonly #context: PumpContext;
  readonly #libc: Libc;
  readonly #buffer: number;
  #budget = 0;

  constructor(context: PumpContext) {
    this.#context = context;
    this.#libc = context.libc;
    this.#buffer = context.libc.memory.address + IO;
  }

  /** Moves what can be moved now, up to the budget. */
  run(source: SocketState, sink: SocketState): PumpOutcome {
    this.#budget = BUDGET_BYTES;
    for (;;) {
      const stopped = this.#flush(source, sink) ?? this.#next(source, sink);
      if (stopped !== undefined) return stopped;
    }
  }

  /**
   * Sends `length` bytes that lie in memory from `start` on; what the sink does not take becomes the source's pending bytes.
   * Undefined unless sending failed.
   */
  send(source: SocketState, sink: SocketState, start: number, length: number): PumpOutcome | undefined {
    // The FIN that is to follow at once then travels with the last bytes.
    const flags = source.finRead ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL;
    const { address, bytes } = this.#libc.memory;
    if (!sink.hasNoDelay) this.#makePrompt(sink);
    let sent = this.#libc.send(sink.fd, address + start, length, flags);
    while (sent === -ERRNO.EINTR) sent = this.#libc.send(sink.fd, address + start, length, flags);
    if (sent === length) return undefined;
    if (sent < 0 && sent !== -ERRNO.EAGAIN) return this.#failed(PUMP.sinkFailed, -sent);
    source.pending = bytes.slice(start + Math.max(0, sent), start + length);
    this.#full(sink);
    return undefined;
  }

  /**
   * The first write of a socket goes out as it is (only a small one that follows an unacknowledged small one is held back, RFC 896):
   * the many connections that write to their upstream once are spared the call.
   */
  #makePrompt(sink: SocketState): void {
    if (sink.hasBeenWritten) {
      sink.hasNoDelay = true;
      setNoDelay(this.#libc, sink.fd);
    }
    sink.hasBeenWritten = true;
  }

  /** Gives up what a stream holds. */
  release(source: SocketState): void {
    source.pending = undefined;
    if (source.pipe === undefined) return;
    this.#context.pipes.give(source.pipe);
    source.pipe = undefined;
  }

  /** Reads once more, if there is reason to. */
  #next(source: SocketState, sink: SocketState): PumpOutcome | undefined {
    if (source.finRead) return PUMP.endOfStream;
    if (!source.readable || !(sink.writable || source.isDiscarding)) return PUMP.blocked;
    if (this.#budget <= 0) return PUMP.hasMore;
    // A splice does not get past the mark of urgent data.
    return source.isBulk && !source.hasUrgentData ? this.#splice(source, sink) : this.#copy(source, sink, READ_BYTES);
  }

  /** Sends what waits. Undefined: all of it is gone. */
  #flush(source: SocketState, sink: SocketState): PumpOutcome | undefined {
    if (source.isFlushed) return undefined;
    if (source.isDiscarding) {
      this.release(source);
      return undefined;
    }
    if (!sink.writable) return PUMP.blocked;
    return source.pending === undefined ? this.#flushPipe(source, sink) : this.#flushPending(source, sink);
  }

  #flushPending(source: SocketState, sink: SocketState): PumpOutcome | undefined {
    const { pending } = source;
    if (pending === undefined) return undefined;
    source.pending = undefined;
    this.#libc.memory.bytes.set(pending, IO);
    const failed = this.send(source, sink, IO, pending.length);
    return failed === undefined && !source.isFlushed ? PUMP.blocked : failed;
  }

  #flushPipe(source: SocketState, sink: SocketState): PumpOutcome | undefined {
    const { pipe } = source;
    if (!sink.hasNoDelay) this.#makePrompt(sink);
    while (pipe !== undefined && pipe.bytes > 0) {
      const sent = this.#libc.splice(pipe.read, sink.fd, pipe.bytes);
      if (sent > 0) pipe.bytes -= sent;
      else if (sent === -ERRNO.EAGAIN) return this.#full(sink);
      else if (sent !== -ERRNO.EINTR) return this.#failed(PUMP.sinkFailed, sent === 0 ? ERRNO.EPIPE : -sent);
    }
    this.release(source);
    return undefined;
  }

  /** Reads at most so many bytes and sends them. Undefined unless something failed. */
  #copy(source: SocketState, sink: SocketState, most: number): PumpOutcome | undefined {
    const read = this.#libc.recv(source.fd, this.#buffer, most, 0);
    if (read <= 0) return this.#readNothing(source, read);
    source.isBulk = read >= READ_BYTES;
    if (read < most) source.recordShortRead();
    this.#read(source, read);
    return source.isDiscarding ? undefined : this.send(source, sink, IO, read);
  }

  /** Moves what there is into a pipe, once. Undefined unless something failed. */
  #splice(source: SocketState, sink: SocketState): PumpOutcome | undefined {
    const pipe = source.isDiscarding ? undefined : this.#context.pipes.take();
    if (pipe === undefined) {
      return this.#copy(source, sink, IO_BYTES);
    }
    const read = this.#libc.splice(source.fd, pipe.write, SPLICE_BYTES);
    if (read <= 0) {
      this.#context.pipes.give(pipe);
      // It may be such a mark, of which epoll has not told yet, and not the end.
      return read === 0 ? this.#copy(source, sink, READ_BYTES) : this.#readNothing(source, read);
    }
    pipe.bytes = read;
    source.pipe = pipe;
    if (read < READ_BYTES) source.isBulk = false;
    this.#read(source, read);
    return undefined;
  }

  #read(source: SocketState, bytes: number): void {
    this.#budget -= bytes;
    this.#context.bytesRead(source, bytes);
  }

  /** The end of a stream, nothing there, or a failure. */
  #readNothing(source: SocketState, outcome: number): PumpOutcome | undefined {
    if (outcome === 0) source.finRead = true;
    else if (outcome === -ERRNO.EAGAIN) source.readable = false;
    else if (outcome !== -ERRNO.EINTR) return this.#failed(PUMP.sourceFailed, -outcome);
    return undefined;
  }

  #full(sink: SocketState): PumpOutcome {
    sink.writable = false;
    if (!sink.isArmed) this.#context.arm(sink);
    return PUMP.blocked;
  }

  #failed(outcome: PumpOutcome, errno: number): PumpOutcome {
    this.errno = errno;
    return outcome;
  }
}
