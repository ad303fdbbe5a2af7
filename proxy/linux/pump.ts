import { ERRNO, MSG_MORE, MSG_NOSIGNAL } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { IO_BYTES, IO_OFFSET } from "./memory.ts";
import type { PipePool } from "./pipes.ts";
import type { SocketState } from "./socket-state.ts";
import { setNoDelay } from "./sockets.ts";

/**
 * Bytes per read. A read that fills the buffer has most likely left something, so the next bytes are spliced. From
 * about this size on, copying costs more than a splice; with 64 KiB, an answer of that size took a sixth more CPU.
 */
export const READ_BYTES = 16 * 1024;
/** Upper limit of bytes per splice. */
const SPLICE_BYTES = 1024 * 1024;
/** Maximum bytes of one stream that are moved before other connections are served. */
const BUDGET_BYTES = 1024 * 1024;

/** What a pump needs from its event loop. */
export interface PumpContext {
  readonly libc: Libc;
  readonly pipes: PipePool;
  /** Requests an epoll event when the socket becomes writable. */
  arm(side: SocketState): void;
  /** Counts bytes read from a socket. */
  bytesRead(source: SocketState, bytes: number): void;
}

/** Why a pump stopped. */
export const PUMP = {
  /** The source has no bytes or the sink is full. An event follows. */
  blocked: 0,
  /** The budget is used up. Call the pump again soon. */
  hasMore: 1,
  /** All bytes are read and sent. Forward the FIN. */
  endOfStream: 2,
  /** Reading failed with `errno`. */
  sourceFailed: 3,
  /** Sending failed with `errno`. */
  sinkFailed: 4,
  /** The source has begun with the signature of a PROXY header. Its last byte was not passed on. */
  refused: 5,
} as const;
type PumpResult = (typeof PUMP)[keyof typeof PUMP];

/**
 * Moves a stream from one socket to the other: by copying through the thread's memory or, once a read has filled the
 * buffer, by splicing through a pipe, which keeps the bytes in the kernel. After a small read it copies again.
 *
 *     source --recv--> memory --send--> sink          what the sink does not take is kept in source.pending
 *     source --splice--> pipe --splice--> sink        what the sink does not take stays in source.pipe
 *
 * While bytes are pending, the pump reads nothing. So a peer that does not read blocks only these bytes.
 */
export class Pump {
  /** errno of the last failure, positive. */
  errno = 0;
  readonly #context: PumpContext;
  readonly #libc: Libc;
  readonly #buffer: number;
  #budget = 0;

  constructor(context: PumpContext) {
    this.#context = context;
    this.#libc = context.libc;
    this.#buffer = context.libc.memory.address + IO_OFFSET;
  }

  /** Moves as many bytes as possible now, up to the budget. */
  run(source: SocketState, sink: SocketState): PumpResult {
    this.#budget = BUDGET_BYTES;
    for (;;) {
      const result = this.#flush(source, sink) ?? this.#readAndSend(source, sink);
      if (result !== undefined) return result;
    }
  }

  /**
   * Sends `length` bytes of memory from offset `start`; bytes that the sink does not take become the source's pending
   * bytes. Undefined unless sending failed.
   */
  send(source: SocketState, sink: SocketState, start: number, length: number): PumpResult | undefined {
    // With MSG_MORE the FIN that follows at once is sent with the last bytes.
    const flags = source.finRead ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL;
    const { address, bytes } = this.#libc.memory;
    if (!sink.hasNoDelay) this.#enableNoDelay(sink);
    let sent = this.#libc.send(sink.fd, address + start, length, flags);
    while (sent === -ERRNO.EINTR) sent = this.#libc.send(sink.fd, address + start, length, flags);
    if (sent === length) return undefined;
    if (sent < 0 && sent !== -ERRNO.EAGAIN) return this.#failed(PUMP.sinkFailed, -sent);
    source.pending = bytes.slice(start + Math.max(0, sent), start + length);
    this.#waitWritable(sink);
    return undefined;
  }

  /**
   * Sets TCP_NODELAY before the second write. The first write is never held back (RFC 896 delays only a small write
   * that follows an unacknowledged one), so the many connections that write to their upstream once save the call.
   */
  #enableNoDelay(sink: SocketState): void {
    if (sink.hasBeenWritten) {
      sink.hasNoDelay = true;
      setNoDelay(this.#libc, sink.fd);
    }
    sink.hasBeenWritten = true;
  }

  /** Releases the pipe and the pending bytes of a stream. */
  release(source: SocketState): void {
    source.pending = undefined;
    if (source.pipe === undefined) return;
    this.#context.pipes.release(source.pipe);
    source.pipe = undefined;
  }

  /** Reads once, if the source is readable and the sink is writable. */
  #readAndSend(source: SocketState, sink: SocketState): PumpResult | undefined {
    if (source.finRead) return PUMP.endOfStream;
    if (!source.readable || !(sink.writable || source.isDiscarding)) return PUMP.blocked;
    if (this.#budget <= 0) return PUMP.hasMore;
    // A splice does not pass the mark of urgent data.
    return source.isBulk && !source.hasUrgentData ? this.#splice(source, sink) : this.#copy(source, sink, READ_BYTES);
  }

  /** Sends pending bytes. Undefined if all of them are sent. */
  #flush(source: SocketState, sink: SocketState): PumpResult | undefined {
    if (source.isFlushed) return undefined;
    if (source.isDiscarding) {
      this.release(source);
      return undefined;
    }
    if (!sink.writable) return PUMP.blocked;
    return source.pending === undefined ? this.#flushPipe(source, sink) : this.#flushPending(source, sink);
  }

  #flushPending(source: SocketState, sink: SocketState): PumpResult | undefined {
    const { pending } = source;
    if (pending === undefined) return undefined;
    source.pending = undefined;
    this.#libc.memory.bytes.set(pending, IO_OFFSET);
    const failed = this.send(source, sink, IO_OFFSET, pending.length);
    return failed === undefined && !source.isFlushed ? PUMP.blocked : failed;
  }

  #flushPipe(source: SocketState, sink: SocketState): PumpResult | undefined {
    const { pipe } = source;
    if (!sink.hasNoDelay) this.#enableNoDelay(sink);
    while (pipe !== undefined && pipe.bytes > 0) {
      const sent = this.#libc.splice(pipe.read, sink.fd, pipe.bytes);
      if (sent > 0) pipe.bytes -= sent;
      else if (sent === -ERRNO.EAGAIN) return this.#waitWritable(sink);
      else if (sent !== -ERRNO.EINTR) return this.#failed(PUMP.sinkFailed, sent === 0 ? ERRNO.EPIPE : -sent);
    }
    this.release(source);
    return undefined;
  }

  /** Reads at most `max` bytes and sends them. Undefined unless a call failed. */
  #copy(source: SocketState, sink: SocketState, max: number): PumpResult | undefined {
    const read = this.#libc.recv(source.fd, this.#buffer, max, 0);
    if (read <= 0) return this.#readNothing(source, read);
    source.isBulk = read >= READ_BYTES;
    if (read < max) source.recordShortRead();
    this.#countRead(source, read);
    if (source.signature !== undefined && source.beginsWithSignature(this.#bytesRead(read))) return PUMP.refused;
    return source.isDiscarding ? undefined : this.send(source, sink, IO_OFFSET, read);
  }

  #bytesRead(count: number): Uint8Array {
    return this.#libc.memory.bytes.subarray(IO_OFFSET, IO_OFFSET + count);
  }

  /** Splices available bytes into a pipe, once. Undefined unless a call failed. */
  #splice(source: SocketState, sink: SocketState): PumpResult | undefined {
    const pipe = source.isDiscarding ? undefined : this.#context.pipes.acquire();
    if (pipe === undefined) {
      return this.#copy(source, sink, IO_BYTES);
    }
    const read = this.#libc.splice(source.fd, pipe.write, SPLICE_BYTES);
    if (read <= 0) {
      this.#context.pipes.release(pipe);
      // 0 may be a mark of urgent data that epoll has not reported yet, instead of the end.
      return read === 0 ? this.#copy(source, sink, READ_BYTES) : this.#readNothing(source, read);
    }
    pipe.bytes = read;
    source.pipe = pipe;
    if (read < READ_BYTES) source.isBulk = false;
    this.#countRead(source, read);
    return undefined;
  }

  #countRead(source: SocketState, bytes: number): void {
    this.#budget -= bytes;
    this.#context.bytesRead(source, bytes);
  }

  /** Handles a read that returned no bytes: end of stream, EAGAIN or a failure. */
  #readNothing(source: SocketState, result: number): PumpResult | undefined {
    if (result === 0) source.finRead = true;
    else if (result === -ERRNO.EAGAIN) source.readable = false;
    else if (result !== -ERRNO.EINTR) return this.#failed(PUMP.sourceFailed, -result);
    return undefined;
  }

  #waitWritable(sink: SocketState): PumpResult {
    sink.writable = false;
    if (!sink.isArmed) this.#context.arm(sink);
    return PUMP.blocked;
  }

  #failed(result: PumpResult, errno: number): PumpResult {
    this.errno = errno;
    return result;
  }
}
