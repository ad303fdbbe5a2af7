import type { Socket } from "node:net";
import type { CutCause } from "../close-causes.ts";
import type { TargetStats } from "../target-stats.ts";

interface ConnectionOptions {
  /** The PROXY header; empty for none. */
  readonly header: Buffer;
  readonly firstBytesMs: number;
  /** After the upstream has finished its answer and is gone, what the client still sends is read and dropped this long. */
  readonly lingerMs: number;
  readonly stats: TargetStats;
  /** Called once, when both sockets are closed. */
  readonly onClosed: () => void;
}

/**
 * One client and its upstream.
 *
 *      accepted          connected             header sent
 *     ---------> DIALING ---------> GREETING ---------------> RELAYING --------> CLOSED
 *                   |                  |  client's first bytes    |  FIN one way: half-closed, stays
 *                   |                  |  or FIN, or after        |  FIN both ways: closed
 *                   |                  |  firstBytesMs            |
 *                   +--- refuse() -----+------- cut(): RST, idle, drain: the other side is reset ---> CLOSED
 *
 * The header and the client's first bytes leave in one write, hence in one segment: some receivers take a header that comes
 * alone for a whole request that is malformed. In DIALING the client is read up to one chunk and one stream buffer, then paused.
 */
export class PortableConnection {
  readonly client: Socket;
  readonly #options: ConnectionOptions;
  #upstream: Socket | undefined;
  /** What the client sent while there was no upstream yet. */
  #early: Buffer[] = [];
  #clientEnded = false;
  #upstreamEnded = false;
  #headerSent = false;
  #cut = false;
  #openSockets = 1;
  #timer: NodeJS.Timeout | undefined;
  #abandonDial: (() => void) | undefined;
  /** Bytes have moved since the idle sweep last looked; it takes the mark away. */
  active = true;

  constructor(client: Socket, options: ConnectionOptions) {
    this.client = client;
    this.#options = options;
    client.on("data", (chunk: Buffer) => this.#fromClient(chunk));
    client.on("end", () => this.#clientEnd());
    client.on("drain", () => this.#flow(this.#upstream));
    client.on("error", () => this.cut("client-reset"));
    client.on("close", () => this.#socketClosed());
  }

  /** What to call if the client goes away while an upstream is being dialled. */
  dialling(abandon: () => void): void {
    this.#abandonDial = abandon;
  }

  /** DIALING to GREETING, or straight to RELAYING. */
  connected(upstream: Socket): void {
    this.#abandonDial = undefined;
    this.#upstream = upstream;
    this.#openSockets += 1;
    this.active = true;
    upstream.on("data", (chunk: Buffer) => this.#fromUpstream(chunk));
    upstream.on("end", () => this.#upstreamEnd());
    upstream.on("drain", () => this.#flow(this.client));
    upstream.on("error", () => this.#upstreamError());
    upstream.on("close", () => this.#socketClosed());
    const early = this.#early;
    this.#early = [];
    if (early.length > 0 || this.#clientEnded || this.#options.header.length === 0) this.#greet(early);
    else this.#timer = setTimeout(() => this.#greet([]), this.#options.firstBytesMs);
  }

  /** No upstream: the client gets a reset, so that it cannot take this for an empty answer. */
  refuse(): void {
    this.#cut = true;
    this.client.resetAndDestroy();
  }

  /** Ends both sides at once with a reset. */
  cut(cause: CutCause): void {
    if (this.#cut) return;
    this.#cut = true;
    clearTimeout(this.#timer);
    this.#options.stats.cut[cause] += 1;
    this.#abandon();
    resetNow(this.client);
    if (this.#upstream !== undefined) resetNow(this.#upstream);
  }

  /** The other side has taken what it was sent: reading from this one goes on. */
  #flow(from: Socket | undefined): void {
    this.active = true;
    from?.resume();
  }

  #fromClient(chunk: Buffer): void {
    this.active = true;
    this.#options.stats.clientBytes += chunk.length;
    const upstream = this.#upstream;
    if (upstream === undefined) {
      this.#early.push(chunk);
      this.client.pause();
    } else if (!this.#headerSent) this.#greet([chunk]);
    else if (!upstream.destroyed && !upstream.write(chunk)) this.client.pause();
  }

  #fromUpstream(chunk: Buffer): void {
    this.active = true;
    this.#options.stats.upstreamBytes += chunk.length;
    if (!this.client.write(chunk)) this.#upstream?.pause();
  }

  /** GREETING to RELAYING: the header and what there is of the client's bytes, in one write. */
  #greet(first: readonly Buffer[]): void {
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
    else this.#greet([]);
  }

  #upstreamEnd(): void {
    this.#upstreamEnded = true;
    this.client.end();
  }

  /**
   * An upstream that has sent its FIN has said all it had to say: typically an early answer (413) to an upload that it then
   * refuses to read. Resetting the client now would throw away what of the answer is still on its way, so the client
   * keeps its half and what it sends is dropped, as nginx's lingering_close does.
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
    this.#abandon();
    this.#options.onClosed();
  }

  #abandon(): void {
    this.#abandonDial?.();
    this.#abandonDial = undefined;
  }
}

/**
 * Resets a socket as soon as that can be done. While a shutdown is under way libuv refuses (uv_tcp_close_reset gives EINVAL) and Node then
 * never closes the descriptor; the FIN leaves with the next turn of the event loop, and the reset can follow it.
 */
function resetNow(socket: Socket): void {
  const isShuttingDown = socket.writableEnded && socket.writableLength === 0 && !socket.writableFinished;
  if (!isShuttingDown || socket.destroyed) socket.resetAndDestroy();
  else socket.pause().once("finish", () => socket.resetAndDestroy());
}
