import type { Server } from "node:https";
import type { Socket } from "node:net";

/**
 * A TLS record begins with type, version and length. The handshake message in it begins with type and length (RFC
 * 8446, 5.1 and 4).
 */
const RECORD_HEAD = 5;
const MESSAGE_HEAD = 4;
const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
/** Maximum number of bytes in one record. */
const MAX_RECORD = 16 * 1024;

/** Each waiting connection takes a socket and its ClientHello (1 to 2 KB, at most 16 KB). In TLS it takes 53 KB. */
const MAX_WAITING = 1_024;

/**
 * The event loop accepts one connection per turn (https://github.com/libuv/libuv/pull/3696). In this many turns that
 * accept one, only one starts a handshake.
 */
const ACCEPTS_PER_HANDSHAKE = 16;

/** Receives each connection whose ClientHello is complete (`waiting`), and again when TLS begins (`begun`). */
type Report = (stage: "waiting" | "begun", socket: Socket) => void;

/** A connection whose ClientHello has arrived. `start` starts TLS, `drop` closes the connection. */
interface Waiting {
  readonly address: string | undefined;
  readonly start: () => void;
  readonly drop: () => void;
}

/** Connections that wait. Addresses take turns. */
class FairQueue {
  /** The address whose turn is next comes first. Of each, the oldest connection comes first. */
  readonly #sources = new Map<string | undefined, Set<Waiting>>();

  get size(): number {
    return [...this.#sources.values()].reduce((sum, { size }) => sum + size, 0);
  }

  add(one: Waiting): void {
    const source = this.#sources.get(one.address) ?? new Set();
    this.#sources.set(one.address, source.add(one));
  }

  delete(one: Waiting): void {
    const source = this.#sources.get(one.address);
    if (source?.delete(one) && source.size === 0) this.#sources.delete(one.address);
  }

  /** The oldest or the newest of the address whose turn it is. */
  next(): Waiting | undefined {
    const [first] = this.#sources;
    if (first === undefined) return undefined;
    const [address, source] = first;
    this.#sources.delete(address);
    this.#sources.set(address, source);
    return [...source].at(Math.random() < 0.5 ? 0 : -1);
  }

  /** The one that would be served last: in the middle of the largest crowd. */
  last(): Waiting | undefined {
    const [largest = []] = [...this.#sources.values()].sort((one, other) => other.size - one.size);
    const crowd = [...largest];
    return crowd[crowd.length >> 1];
  }
}

/**
 * Starts at most one TLS handshake per turn of the event loop, so that requests on established connections wait for at
 * most one. Answering a ClientHello takes the thread a millisecond (an RSA signature): a thousand clients that connect
 * at once would block it for a second. While clients connect, most turns start none. Otherwise the turns would be so
 * long that new connections wait in the kernel, first come, first served.
 *
 * A connection waits until its ClientHello is complete and its turn comes. Waiting costs next to nothing, and the
 * connection is closed after `timeoutMs`, or when the client sends more. Addresses take turns, so a client that opens
 * many delays itself first. The next of an address is its oldest or its newest connection, at random. So a client that
 * connects before or after a crowd does not wait for all of it. Above `MAX_WAITING`, the one that would be served last
 * is closed.
 */
export function queueHandshakes(server: Server, timeoutMs: number, report: Report): void {
  // node:https adds its listener first, when the server is created. Other listeners stay.
  const [startTls] = server.listeners("connection") as ((socket: Socket) => void)[];
  if (startTls !== undefined) server.removeListener("connection", startTls);
  const queue = new FairQueue();
  let isScheduled = false;
  let [accepted, acceptedBefore] = [0, 0];
  const turn = (): void => {
    const isQuiet = accepted === acceptedBefore;
    acceptedBefore = accepted;
    if (isQuiet || accepted % ACCEPTS_PER_HANDSHAKE === 0) queue.next()?.start();
    isScheduled = queue.size > 0;
    if (isScheduled) setImmediate(turn);
  };
  server.on("connection", (socket: Socket) => {
    accepted += 1;
    let received: Buffer = Buffer.alloc(0);
    const append = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const wanted = helloBytes(received);
      // A client sends nothing after its ClientHello until the server answers.
      if (wanted === undefined || received.length > wanted) drop();
      else if (received.length === wanted) enqueue();
    };
    const enqueue = (): void => {
      report("waiting", socket);
      queue.add(waiting);
      if (queue.size > MAX_WAITING) queue.last()?.drop();
      if (!isScheduled) setImmediate(turn);
      isScheduled = true;
    };
    const leave = (): void => {
      clearTimeout(deadline);
      queue.delete(waiting);
    };
    const start = (): void => {
      leave();
      socket.off("data", append).pause().unshift(received);
      report("begun", socket);
      startTls?.call(server, socket);
    };
    const drop = (): void => {
      leave();
      socket.destroy();
    };
    const deadline = setTimeout(drop, timeoutMs);
    const waiting: Waiting = { address: socket.remoteAddress, start, drop };
    // TLS reports its own errors. A client that disconnects before TLS needs no report.
    socket.on("error", () => {});
    socket.on("data", append).once("close", leave);
  });
}

/**
 * Number of bytes that must have arrived before the handshake starts. Undefined if `received` is not a ClientHello in
 * one record, or is longer than a record can be. The ClientHello must be complete: otherwise a client could send parts
 * of many, and then make their handshakes due at once.
 */
function helloBytes(received: Buffer): number | undefined {
  if (received.length > RECORD_HEAD + MAX_RECORD) return undefined;
  if (received.length < RECORD_HEAD + MESSAGE_HEAD) return RECORD_HEAD + MESSAGE_HEAD;
  const recordBytes = received.readUInt16BE(RECORD_HEAD - 2);
  const messageBytes = MESSAGE_HEAD + received.readUIntBE(RECORD_HEAD + 1, 3);
  const isHello = received[0] === HANDSHAKE && received[RECORD_HEAD] === CLIENT_HELLO;
  return isHello && messageBytes <= recordBytes && recordBytes <= MAX_RECORD ? RECORD_HEAD + recordBytes : undefined;
}
