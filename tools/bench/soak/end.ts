import type { Socket } from "node:net";
import type { Pattern } from "../pattern.ts";

/** What one end of a connection does. All times are milliseconds. */
export interface Script {
  /** Number of bytes that it sends before its FIN. */
  readonly send: number;
  /** Number of bytes per write, at most MAX_SLICE. */
  readonly writeSize: number;
  /** Pause after each write. */
  readonly gapMs: number;
  /** When it starts to send. */
  readonly begin: "at-once" | "after-first-bytes" | "after-fin";
  /** When it sends its FIN after all bytes; `after-fin`: after the other end's FIN. */
  readonly fin: "at-once" | "after-fin";
  readonly finDelayMs: number;
  /** After it has received this many bytes, it reads nothing for `ms`. */
  readonly stall?: { readonly at: number; readonly ms: number };
  /** After it has sent and received this many bytes, it waits for `ms` and resets the connection. */
  readonly reset?: { readonly sent: number; readonly received: number; readonly ms: number; readonly fin?: boolean };
}

/** Events that an end reports. */
export interface EndEvents {
  /** A FIN arrived after `received` bytes. */
  finished(end: End): void;
  /** The connection broke, but not by this end's own reset. */
  broken(end: End, code: string): void;
  wrong(end: End, text: string): void;
  /** The connection is closed. */
  closed(end: End): void;
}

interface EndStreams {
  readonly send: Pattern;
  readonly receive: Pattern;
}

/** Number of writes of one end before other ends get a turn. */
const WRITES_PER_TURN = 16;

/**
 * Executes a script on one socket and checks every byte that arrives. The socket is half-open: each direction ends
 * separately.
 */
export class End {
  readonly socket: Socket;
  readonly script: Script;
  readonly #streams: EndStreams;
  readonly #events: EndEvents;
  sent = 0;
  received = 0;
  /** Whether it has sent its FIN after all its bytes. */
  finSent = false;
  finSeen = false;
  wasReset = false;
  wasBroken = false;
  isClosed = false;
  #begun = false;
  #stalled = false;
  #finPending = false;
  #resetPending = false;
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(socket: Socket, script: Script, streams: EndStreams, events: EndEvents) {
    this.socket = socket;
    this.script = script;
    this.#streams = streams;
    this.#events = events;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("end", () => this.#fin());
    socket.on("error", (error: NodeJS.ErrnoException) => this.#error(error.code ?? error.message));
    socket.on("close", () => this.#close());
  }

  /** Call this when the socket is connected. `early` has the bytes that arrived before this end existed. */
  start(early: Buffer = Buffer.alloc(0)): void {
    if (this.isClosed) return;
    if (early.length > 0) this.#take(early);
    else this.#considerStall();
    if (this.script.begin === "at-once") this.#begin();
    this.#considerReset();
    if (!this.#stalled) this.socket.resume();
  }

  /** Whether the script is in a planned pause. */
  get isWaiting(): boolean {
    return this.#timers.size > 0;
  }

  /**
   * Resets the connection. While a FIN waits to be sent, libuv refuses the reset (uv_tcp_close_reset: EINVAL) and
   * leaves the socket open. So this waits until the FIN is sent.
   */
  reset(): void {
    if (this.wasReset || this.isClosed) return;
    if (this.finSent && !this.socket.writableFinished) {
      this.socket.once("finish", () => setImmediate(() => this.reset()));
      return;
    }
    this.wasReset = true;
    this.socket.resetAndDestroy();
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#pump();
  }

  #pump(): void {
    const { send, writeSize, gapMs } = this.script;
    for (let turn = 0; turn < WRITES_PER_TURN; turn += 1) {
      if (this.socket.destroyed) return;
      if (this.sent >= send) {
        this.#considerFin();
        return;
      }
      const chunk = this.#streams.send.slice(this.sent, Math.min(writeSize, send - this.sent));
      const isTaken = this.socket.write(chunk);
      this.sent += chunk.length;
      this.#considerReset();
      if (gapMs > 0) {
        this.#after(gapMs, () => this.#pump());
        return;
      }
      if (!isTaken) {
        this.socket.once("drain", () => this.#pump());
        return;
      }
      // Small writes should leave as small segments.
      if (writeSize < 64) break;
    }
    setImmediate(() => this.#pump());
  }

  #considerFin(): void {
    if (this.#finPending || this.sent < this.script.send || !this.#begun) return;
    if (this.script.fin === "after-fin" && !this.finSeen) return;
    this.#finPending = true;
    this.#after(this.script.finDelayMs, () => {
      if (this.socket.destroyed) return;
      this.finSent = true;
      this.socket.end();
      this.#considerReset();
    });
  }

  #take(chunk: Buffer): void {
    if (this.wasReset) return;
    const fault = this.#streams.receive.fault(this.received, chunk);
    this.received += chunk.length;
    if (fault !== undefined) this.#events.wrong(this, fault);
    this.#considerStall();
    if (this.script.begin === "after-first-bytes") this.#begin();
    this.#considerReset();
  }

  #considerStall(): void {
    const { stall } = this.script;
    if (stall === undefined || this.#stalled || this.received < stall.at) return;
    this.#stalled = true;
    this.socket.pause();
    this.#after(stall.ms, () => this.socket.resume());
  }

  #considerReset(): void {
    const { reset } = this.script;
    if (reset === undefined || this.sent < reset.sent || this.received < reset.received) return;
    if (reset.fin === true && !this.finSent) return;
    if (this.#resetPending) return;
    this.#resetPending = true;
    if (reset.ms === 0) this.reset();
    else this.#after(reset.ms, () => this.reset());
  }

  #fin(): void {
    this.finSeen = true;
    this.#events.finished(this);
    if (this.script.begin !== "at-once") this.#begin();
    this.#considerFin();
  }

  #error(code: string): void {
    if (this.wasReset) return;
    this.wasBroken = true;
    this.#events.broken(this, code);
  }

  #close(): void {
    this.isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#events.closed(this);
  }

  #after(ms: number, task: () => void): void {
    if (ms === 0) {
      task();
      return;
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      task();
    }, ms);
    this.#timers.add(timer);
  }
}
