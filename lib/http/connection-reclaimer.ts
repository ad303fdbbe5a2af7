import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * Go's transport keeps idle connections for 90 s, even those that never had a request because another dial was faster
 * (net/http, `DefaultTransport` and `dialConnFor`; client-go, `SetTransportDefaults`). A server keeps them longer. If
 * the server closed first, it would lose a request that is sent at that moment, and Go does not repeat a POST.
 */
const KEEP_ALIVE_MS = 120_000;
/** Each waiting connection takes a socket and its ClientHello (1 to 2 KB, at most 16 KB). In TLS it takes 53 KB. */
const MAX_WAITING = 1_024;

/** Sockets by address, the one with the oldest progress first. */
type Group = Map<string, Socket>;

/**
 * Limits the connections of an HTTP or HTTPS server without refusing new ones, so that the first clients cannot lock
 * the others out. A connection that has sent nothing, or is between two requests, stays for two minutes. At `max`, the
 * connection with the oldest progress is closed, of the largest of three groups: those that have sent nothing, those
 * that have begun TLS or a request, and those that were answered with 200. So silent connections replace each other and
 * not those in use.
 *
 * Connections that wait for the server to begin TLS do not count, up to `MAX_WAITING`. Otherwise 700 clients that
 * connect at once would close those of an API server that connected just before them.
 */
export function reclaimConnections(server: Server, max: number) {
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = KEEP_ALIVE_MS;
  server.requestTimeout = KEEP_ALIVE_MS;
  // By address, because node:https has two sockets for one connection.
  const groups = Array.from({ length: 4 }, () => new Map<string, Socket>()) as [Group, Group, Group, Group];
  const [silent, begun, answered, waiting] = groups;
  /** The addresses with a request that is not answered yet. */
  const asking = new Set<string>();
  const move = (from: Socket, to: Group): void => {
    const address = addressOf(from);
    const socket = groups.map((group) => group.get(address)).find((each) => each !== undefined);
    for (const group of groups) group.delete(address);
    if (socket !== undefined) to.set(address, socket);
  };
  const reclaim = (): void => {
    if (silent.size + begun.size + answered.size <= max) return;
    const [largest] = [silent, begun, answered].sort((a, b) => b.size - a.size);
    for (const [address, oldest] of largest?.entries().take(1) ?? []) {
      largest?.delete(address);
      oldest.destroy();
    }
  };
  server.on("connection", (socket: Socket) => {
    const address = addressOf(socket);
    silent.set(address, socket);
    socket.once("close", () => {
      for (const group of groups) if (group.get(address) === socket) group.delete(address);
    });
    reclaim();
  });
  server.on("secureConnection", (socket: Socket) => move(socket, begun));
  server.on("request", ({ socket }, response: ServerResponse) => {
    const address = addressOf(socket);
    asking.add(address);
    move(socket, answered.has(address) ? answered : begun);
    response.once("finish", () => response.statusCode === 200 && move(socket, answered));
    response.once("close", () => asking.delete(address));
  });
  return {
    /** The ClientHello of a connection has arrived. Of too many, the one that would be served last is closed. */
    waiting(socket: Socket): void {
      move(socket, waiting);
      if (waiting.size > MAX_WAITING) [...waiting.values()][waiting.size >> 1]?.destroy();
    },
    /** TLS begins on a waiting connection. */
    begun(socket: Socket): void {
      move(socket, begun);
      reclaim();
    },
    /** Closes the connections without a request, even those that have sent nothing: the server's `close` does not. */
    closeIdle(): void {
      for (const group of groups) for (const [address, socket] of group) if (!asking.has(address)) socket.destroy();
    },
    /** Closes all connections, including those in their handshake (`closeAllConnections` does not close these). */
    closeAll(): void {
      for (const group of groups) for (const socket of group.values()) socket.destroy();
    },
  };
}

function addressOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}
