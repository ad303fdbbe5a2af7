import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Go's transport keeps idle connections for 90 s, those without a request too: a dial that was slower than another one
 * (net/http, `DefaultTransport` and `dialConnFor`; client-go, `SetTransportDefaults`). A server keeps them longer. If
 * it closed first, a request that is sent at that moment would be lost, and Go does not repeat a POST.
 */
const KEEP_ALIVE_MS = 120_000;
/** How often node:http checks its time limits; by default every 30 s. */
export const CHECK_MS = 1_000;

/** For the headers of a request, and for all of it; both count from its first byte. Milliseconds. */
interface RequestLimits {
  readonly headersMs: number;
  readonly requestMs: number;
}

/**
 * Keeps idle connections for `KEEP_ALIVE_MS`, before the first request as after one, and limits how long a request
 * takes. node:http counts the limits of a first request from when it gets the connection, so it gets it with the first
 * byte. `ready` is the event with which a connection is ready for requests. Returns a function that closes the
 * connections that have sent nothing: `close` of the server does not.
 */
export function keepIdleConnections(
  server: Server,
  ready: "connection" | "secureConnection",
  { headersMs, requestMs }: RequestLimits,
): () => void {
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = headersMs;
  server.requestTimeout = requestMs;
  // node:http adds its listener first, when the server is created. Others stay.
  const [startHttp] = server.listeners(ready) as ((socket: Socket) => void)[];
  if (startHttp === undefined) return () => {};
  server.removeListener(ready, startHttp);
  const silent = new Set<Socket>();
  server.on(ready, (socket: Socket) => {
    const close = () => socket.destroy();
    // A server that closes waits only for a request that is on its way.
    const deadline = setTimeout(close, server.listening ? KEEP_ALIVE_MS : headersMs);
    const settle = () => {
      clearTimeout(deadline);
      silent.delete(socket);
    };
    const start = (first: Buffer) => {
      settle();
      socket.off("end", close).off("close", settle).pause().unshift(first);
      startHttp.call(server, socket);
      socket.resume();
    };
    silent.add(socket);
    // node:http reports errors of its own; a client that disconnects before needs no report.
    socket.on("error", () => {});
    socket.once("data", start).once("end", close).once("close", settle);
  });
  return () => {
    for (const socket of silent) socket.destroy();
  };
}
