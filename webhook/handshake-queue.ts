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

interface HandshakeEvents {
  /** The ClientHello is complete. */
  readonly onHello: (socket: Socket) => void;
  /** TLS starts. */
  readonly onStart: (socket: Socket) => void;
}

/**
 * Starts one TLS handshake per turn of the event loop, so that requests on established connections wait for at most
 * one handshake. Answering a ClientHello takes the thread a millisecond (an RSA signature): a thousand clients that
 * connect at once would block it for a second. A connection waits until its ClientHello is complete and its turn
 * comes. Waiting costs next to nothing, and the connection is closed after `timeoutMs`. The next handshake is one of
 * the source with the fewest waiting connections, so a client that opens many delays itself first. The oldest and the
 * newest connection of this source take turns. So a client that connects before or after a crowd does not wait for
 * all of it.
 */
export function queueHandshakes(server: Server, timeoutMs: number, { onHello, onStart }: HandshakeEvents): void {
  // node:https adds its listener first, when the server is created. Other listeners stay.
  const [startTls] = server.listeners("connection") as ((socket: Socket) => void)[];
  if (startTls !== undefined) server.removeListener("connection", startTls);
  /** Connections whose ClientHello has arrived, oldest first. */
  const waiting = new Set<Socket>();
  const deadlines = new WeakMap<Socket, NodeJS.Timeout>();
  let scheduled = false;
  let takesNewest = false;
  const startNext = (): void => {
    scheduled = false;
    takesNewest = !takesNewest;
    const socket = nextOf(waiting, takesNewest);
    if (socket === undefined) return;
    waiting.delete(socket);
    clearTimeout(deadlines.get(socket));
    onStart(socket);
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
    deadlines.set(socket, deadline);
    let received: Buffer = Buffer.alloc(0);
    const append = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const wanted = helloBytes(received);
      if (wanted === undefined) socket.destroy();
      else if (received.length >= wanted) {
        socket.off("data", append).pause().unshift(received);
        onHello(socket);
        waiting.add(socket);
        schedule();
      }
    };
    // TLS reports its own errors. A client that disconnects before TLS needs no report.
    socket.on("error", () => {});
    socket.on("data", append).once("close", () => {
      clearTimeout(deadline);
      waiting.delete(socket);
    });
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

/** The next of the connections that wait: the oldest or the newest one of the source with the fewest. */
function nextOf(waiting: Iterable<Socket>, isNewest: boolean): Socket | undefined {
  const sources = [...Map.groupBy(waiting, ({ remoteAddress }) => remoteAddress).values()];
  const [fewest] = sources.sort((one, other) => one.length - other.length);
  return fewest?.at(isNewest ? -1 : 0);
}
