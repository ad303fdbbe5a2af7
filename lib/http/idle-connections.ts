import type { Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Go's transport keeps idle connections for 90 s, even those that never had a request because another dial was faster
 * (net/http, `DefaultTransport` and `dialConnFor`; client-go, `SetTransportDefaults`). A server keeps them longer. If
 * the server closed first, it would lose a request that is sent at that moment, and Go does not repeat a POST.
 */
const KEEP_ALIVE_MS = 120_000;
/** How often node:http checks its time limits. Its default is 30 s. */
export const CHECK_MS = 1_000;

/** Limits for the headers of a request and for the whole request, in milliseconds. Both count from its first byte. */
interface RequestLimits {
  readonly headersMs: number;
  readonly requestMs: number;
}

/**
 * Keeps idle connections for `KEEP_ALIVE_MS`, before and after the first request, and limits how long a request
 * takes. node:http counts the limits of a first request from the time when it gets the connection, so it gets the
 * connection with the first byte. `ready` is the event that says that a connection is ready for requests. Returns a
 * function that closes the connections that have sent nothing: the server's `close` does not.
 */
export function keepIdleConnections(
  server: Server,
  ready: "connection" | "secureConnection",
  { headersMs, requestMs }: RequestLimits,
): () => void {
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = headersMs;
  server.requestTimeout = requestMs;
  // node:http adds its listener first, when it creates the server. Other listeners stay.
  const [startHttp] = server.listeners(ready) as ((socket: Socket) => void)[];
  if (startHttp === undefined) return () => {};
  server.removeListener(ready, startHttp);
  const silent = new Set<Socket>();
  server.on(ready, (socket: Socket) => {
    const close = () => socket.destroy();
    // A server that is closing waits only for requests that are on their way.
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
    // node:http reports its own errors. A client that disconnects earlier needs no report.
    socket.on("error", () => {});
    socket.once("data", start).once("end", close).once("close", settle);
  });
  return () => {
    for (const socket of silent) socket.destroy();
  };
}
