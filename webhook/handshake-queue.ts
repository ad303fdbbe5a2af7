import type { Server } from "node:https";
import type { Socket } from "node:net";

/**
 * A TLS record begins with type, version and length, in it a handshake message with type and length (RFC 8446, 5.1
 * and 4).
 */
const RECORD_HEAD = 5;
const MESSAGE_HEAD = 4;
const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
/** The most bytes in one record. */
const MAX_RECORD = 16 * 1024;

/**
 * Starts one TLS handshake per turn of the event loop, so that requests on established connections wait for one of
 * them at most. Answering a ClientHello takes the thread a millisecond (an RSA signature): a thousand clients that
 * connect at once would stop it for a second. A connection is handed to TLS once its ClientHello is complete; until
 * then it costs next to nothing, and it is closed after `timeoutMs`. The next handshake is that of the source with
 * the fewest waiting, and of these the newest connection: a client that opens many delays itself first, and what
 * has waited long may have been given up. `onHello` is called when a ClientHello is complete.
 */
export function queueHandshakes(server: Server, timeoutMs: number, onHello: (socket: Socket) => void): void {
  // node:https adds its listener first, when the server is created. Others stay.
  const [startTls] = server.listeners("connection") as ((socket: Socket) => void)[];
  if (startTls !== undefined) server.removeListener("connection", startTls);
  const waiting = new WaitingSockets();
  let scheduled = false;
  const startNext = (): void => {
    scheduled = false;
    const socket = waiting.takeNext();
    if (socket === undefined) return;
    startTls?.call(server, socket);
    schedule();
  };
  const schedule = (): void => {
    if (scheduled) return;
    scheduled = true;
    setImmediate(startNext);
  };
  server.on("connection", (socket: Socket) => {
    const deadline = setTimeout(() => socket.destroy(), timeoutMs);
    let received: Buffer = Buffer.alloc(0);
    const append = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const wanted = helloBytes(received);
      if (wanted === undefined) socket.destroy();
      else if (received.length >= wanted) {
        clearTimeout(deadline);
        socket.off("data", append).pause().unshift(received);
        onHello(socket);
        waiting.add(socket);
        schedule();
      }
    };
    // TLS reports errors of its own; a client that disconnects before needs no report.
    socket.on("error", () => {});
    socket.on("data", append).once("close", () => {
      clearTimeout(deadline);
      waiting.remove(socket);
    });
  });
}

/**
 * How many bytes have to be there before the handshake starts. Undefined if this is no ClientHello in one record,
 * or if more is sent than that: with a part of it, a client could make many handshakes due at once.
 */
function helloBytes(received: Buffer): number | undefined {
  if (received.length > RECORD_HEAD + MAX_RECORD) return undefined;
  if (received.length < RECORD_HEAD + MESSAGE_HEAD) return RECORD_HEAD + MESSAGE_HEAD;
  const recordBytes = received.readUInt16BE(RECORD_HEAD - 2);
  const messageBytes = MESSAGE_HEAD + received.readUIntBE(RECORD_HEAD + 1, 3);
  const isHello = received[0] === HANDSHAKE && received[RECORD_HEAD] === CLIENT_HELLO;
  return isHello && messageBytes <= recordBytes && recordBytes <= MAX_RECORD ? RECORD_HEAD + recordBytes : undefined;
}

/** Connections whose ClientHello has arrived, by source. */
class WaitingSockets {
  readonly #sources = new Map<string, Socket[]>();

  add(socket: Socket): void {
    const source = socket.remoteAddress ?? "";
    const sockets = this.#sources.get(source);
    if (sockets === undefined) this.#sources.set(source, [socket]);
    else sockets.push(socket);
  }

  remove(socket: Socket): void {
    for (const [source, sockets] of this.#sources) {
      const at = sockets.indexOf(socket);
      if (at === -1) continue;
      sockets.splice(at, 1);
      if (sockets.length === 0) this.#sources.delete(source);
    }
  }

  takeNext(): Socket | undefined {
    let fewest: Socket[] | undefined;
    for (const sockets of this.#sources.values())
      if (fewest === undefined || sockets.length <= fewest.length) fewest = sockets;
    const next = fewest?.at(-1);
    if (next !== undefined) this.remove(next);
    return next;
  }
}
