import type { Socket } from "node:net";
import type { CutCause } from "../close-causes.ts";
import { SignatureMatcher } from "../signature-matcher.ts";
import type { TargetStats } from "../target-stats.ts";

interface ConnectionOptions {
  /** The PROXY header. Empty for protocol `none`. */
  readonly header: Buffer;
  readonly firstBytesMs: number;
  /** How long the client's bytes are read and dropped after the upstream has finished its answer and is gone. */
  readonly lingerMs: number;
  readonly stats: TargetStats;
  /** Called if the client begins with a PROXY header, before the reset. Undefined if the client may send one. */
  readonly onClientHeader?: (() => void) | undefined;
  /** Called once, when both sockets are closed. */
  readonly onClosed: () => void;
}

/**
 * One client and its upstream.
 *
 *      accepted          connected             header sent
 *     --------> CONNECTING ---> AWAITING FIRST BYTES --------> RELAYING --------> CLOSED
 *                   |                  |  client's first bytes    |  FIN one way: half-closed, stays
 *                   |                  |  or FIN, or after        |  FIN both ways: closed
 *                   |                  |  firstBytesMs            |
 *                   +--- refuse() -----+------- cut(): RST, idle, drain: the other side is reset ---> CLOSED
 *
 * The header and the client's first bytes leave in one write, hence in one segment. Some receivers treat a header that
 * arrives alone as a complete, malformed request. In CONNECTING, one chunk and one stream buffer of the client are
 * read; then it is paused.
 */
export class PortableConnection {
  readonly client: Socket;
  readonly #options: ConnectionOptions;
  #upstream: Socket | undefined;
  /** Bytes that the client sent before the upstream was connected. */
  #pending: Buffer[] = [];
  #clientEnded = false;
  #upstreamEnded = false;
  #headerSent = false;
  #cut = false;
  #openSockets = 1;
  #timer: NodeJS.Timeout | undefined;
  #cancelDial: (() => void) | undefined;
  /** Defined until the client's first bytes show that it sends no PROXY header. */
  #signature: SignatureMatcher | undefined;
  /** Whether there was traffic since the last idle sweep. The sweep clears this flag. */
  active = true;

  constructor(client: Socket, options: ConnectionOptions) {
    this.client = client;
    this.#options = options;
    if (options.onClientHeader !== undefined) this.#signature = new SignatureMatcher();
    client.on("data", (chunk: Buffer) => this.#fromClient(chunk));
    client.on("end", () => this.#clientEnd());
    client.on("drain", () => this.#resume(this.#upstream));
    client.on("error", () => this.cut("client-reset"));
    client.on("close", () => this.#socketClosed());
  }

  /** Sets the function that cancels the dial if the client disconnects before the upstream is connected. */
  setDialCancel(cancel: () => void): void {
    this.#cancelDial = cancel;
  }

  /** CONNECTING to AWAITING FIRST BYTES or RELAYING. */
  connected(upstream: Socket): void {
    this.#cancelDial = undefined;
    this.#upstream = upstream;
    this.#openSockets += 1;
    this.active = true;
    upstream.on("data", (chunk: Buffer) => this.#fromUpstream(chunk));
    upstream.on("end", () => this.#upstreamEnd());
    upstream.on("drain", () => this.#resume(this.client));
    upstream.on("error", () => this.#upstreamError());
    upstream.on("close", () => this.#socketClosed());
    const pending = this.#pending;
    this.#pending = [];
    if (pending.length > 0 || this.#clientEnded || this.#options.header.length === 0) this.#sendHeader(pending);
    else this.#timer = setTimeout(() => this.#sendHeader([]), this.#options.firstBytesMs);
  }

  /** No upstream is reachable. Resets the client, so that it cannot mistake the failure for an empty answer. */
  refuse(): void {
    this.#cut = true;
    this.client.resetAndDestroy();
  }

  /** Resets both sockets. */
  cut(cause: CutCause): void {
    if (this.#cut) return;
    this.#options.stats.cut[cause] += 1;
    this.#resetBoth();
  }

  #resetBoth(): void {
    this.#cut = true;
    clearTimeout(this.#timer);
    this.#cancelPendingDial();
    resetNow(this.client);
    if (this.#upstream !== undefined) resetNow(this.#upstream);
  }

  /** Whether the upstream's FIN has been read. It cannot be read while the client does not take the bytes before it. */
  get isHalfClosed(): boolean {
    return this.#upstreamEnded;
  }

  /**
   * The upstream has finished, and no byte has moved for the half-closed timeout. If the kernel has all bytes for the
   * client, it still sends them after the close. Otherwise a reset shows that the answer is not complete. The upstream
   * gets a reset too, because it must not consider the client's bytes complete.
   */
  halfClosedTimedOut(): void {
    if (this.#cut || !this.client.writableFinished) {
      this.cut("half-closed-timeout");
      return;
    }
    this.#cut = true;
    clearTimeout(this.#timer);
    this.#options.stats.cut["half-closed-timeout"] += 1;
    this.client.destroy();
    if (this.#upstream !== undefined) resetNow(this.#upstream);
  }

  /** The other socket has drained: resumes reading from this one. */
  #resume(from: Socket | undefined): void {
    this.active = true;
    from?.resume();
  }

  #fromClient(chunk: Buffer): void {
    // Dropped bytes must not keep alive a client whose upstream is gone.
    if (this.#upstream?.destroyed !== true) this.active = true;
    this.#options.stats.clientBytes += chunk.length;
    if (this.#signature !== undefined && !this.#mayPass(chunk, this.#signature)) return;
    const upstream = this.#upstream;
    if (upstream === undefined) {
      this.#pending.push(chunk);
      this.client.pause();
    } else if (!this.#headerSent) this.#sendHeader([chunk]);
    else if (!upstream.destroyed && !upstream.write(chunk)) this.client.pause();
  }

  /** Whether the client's first bytes may be passed on. If not, the connection is reset. */
  #mayPass(chunk: Buffer, signature: SignatureMatcher): boolean {
    // These bytes were in flight when the connection was reset.
    if (this.#cut) return false;
    const answer = signature.take(chunk);
    if (answer === "no") this.#signature = undefined;
    if (answer !== "yes") return true;
    this.#options.onClientHeader?.();
    this.#resetBoth();
    return false;
  }

  #fromUpstream(chunk: Buffer): void {
    this.active = true;
    this.#options.stats.upstreamBytes += chunk.length;
    if (!this.client.write(chunk)) this.#upstream?.pause();
  }

  /** AWAITING FIRST BYTES to RELAYING: sends the header and the client's bytes so far in one write. */
  #sendHeader(first: readonly Buffer[]): void {
    const upstream = this.#upstream;
    if (upstream === undefined || this.#headerSent) return;
    clearTimeout(this.#timer);
    this.#headerSent = true;
    const bytes = Buffer.concat([this.#options.header, ...first]);
    if (bytes.length === 0 || upstream.write(bytes)) this.client.resume();
    else this.client.pause();
    if (this.#clientEnded) upstream.end();
  }

  #clientEnd(): void {
    this.#clientEnded = true;
    if (this.#upstream === undefined) return;
    if (this.#headerSent) this.#upstream.end();
    else this.#sendHeader([]);
  }

  #upstreamEnd(): void {
    this.#upstreamEnded = true;
    this.active = true;
    this.client.end();
  }

  /**
   * An error after the upstream's FIN is typically an early answer (413) to an upload that the upstream does not read.
   * A reset of the client would discard the part of the answer in flight. So the client's half stays open and its bytes
   * are dropped, as with nginx's lingering_close.
   */
  #upstreamError(): void {
    if (this.#upstreamEnded && !this.client.destroyed) {
      this.client.resume();
      this.#linger();
    } else this.cut("upstream-reset");
  }

  #linger(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.client.writableLength > 0) this.#linger();
      else this.cut("upstream-reset");
    }, this.#options.lingerMs);
  }

  #socketClosed(): void {
    this.#openSockets -= 1;
    if (this.#openSockets > 0) return;
    clearTimeout(this.#timer);
    this.#cancelPendingDial();
    this.#options.onClosed();
  }

  #cancelPendingDial(): void {
    this.#cancelDial?.();
    this.#cancelDial = undefined;
  }
}

/**
 * Resets a socket as soon as possible. During a shutdown libuv refuses (uv_tcp_close_reset returns EINVAL), and Node
 * then never closes the descriptor. The FIN leaves with the next turn of the event loop, and the reset can follow it.
 */
function resetNow(socket: Socket): void {
  const isShuttingDown = socket.writableEnded && socket.writableLength === 0 && !socket.writableFinished;
  if (!isShuttingDown || socket.destroyed) socket.resetAndDestroy();
  else socket.pause().once("finish", () => socket.resetAndDestroy());
}
