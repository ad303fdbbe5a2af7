import type { RequestListener } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { PemPair } from "#certs/pem.ts";
import { reclaimConnections, withoutPipelining } from "#lib/http/connection-reclaimer.ts";
import { CHECK_MS, keepIdleConnections } from "#lib/http/idle-connections.ts";
import { listen } from "#lib/http/listen.ts";

/** The HTTPS listener that the API server calls. */
export interface WebhookServer {
  /** Binds, and returns the port. Until the first pair is in use, handshakes fail. */
  listen(address: string, port: number): Promise<number>;
  /** Serves new connections with this pair. If OpenSSL rejects it, throws and keeps the previous pair. */
  usePair(pair: PemPair): void;
  /**
   * From now on each answer closes its connection: clients reconnect to other replicas once this pod is out of the
   * Service.
   */
  drain(): void;
  /** Accepts no more connections, lets requests finish for `graceMs`, then closes all connections. */
  close(graceMs: number): Promise<void>;
}

/**
 * The API server waits for two seconds (`timeoutSeconds`), handshake included. Slower handshakes only hold memory.
 */
const HANDSHAKE_MS = 2_000;
const HEADERS_MS = 5_000;
const REQUEST_MS = 10_000;
/**
 * Enough for three API servers with 200 writes in flight each (`--max-mutating-requests-inflight`). Each connection
 * takes 53 KB. Beyond this number, other connections are closed (`reclaimConnections`).
 */
const MAX_CONNECTIONS = 640;

export function createWebhookServer(listener: RequestListener, maxConnections = MAX_CONNECTIONS): WebhookServer {
  let draining = false;
  const limits = { handshakeTimeout: HANDSHAKE_MS, connectionsCheckingInterval: CHECK_MS };
  const answer = withoutPipelining((req, res) => {
    if (draining) res.setHeader("connection", "close");
    listener(req, res);
  });
  const server = createServer(limits, answer);
  const closeSilent = keepIdleConnections(server, "secureConnection", { headersMs: HEADERS_MS, requestMs: REQUEST_MS });
  const connections = reclaimConnections(server, maxConnections);
  spreadHandshakes(server, connections);
  return {
    async listen(address, port) {
      await listen(server, port, address);
      return (server.address() as AddressInfo).port;
    },
    usePair: ({ cert, key }) => server.setSecureContext({ cert, key }),
    drain() {
      draining = true;
    },
    async close(graceMs) {
      draining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      closeSilent();
      const deadline = setTimeout(connections.closeAll, graceMs);
      await closed;
      clearTimeout(deadline);
    },
  };
}

/**
 * Starts one TLS handshake per turn of the event loop, so that requests on established connections wait for at most
 * one. A handshake takes the thread a millisecond (an RSA signature): a thousand clients that connect at once would
 * block it for a second. A connection waits for its first bytes, and then for its turn. The next one is of the source
 * with the fewest. Its newest and its oldest alternate, so a client that connects before or after a crowd does not
 * wait for all of it.
 */
function spreadHandshakes(
  server: Server,
  { waiting: onHello, begun }: Pick<ReturnType<typeof reclaimConnections>, "waiting" | "begun">,
): void {
  // node:https adds its listener first, when it creates the server. Other listeners stay.
  const [startTls] = server.listeners("connection") as ((socket: Socket) => void)[];
  if (startTls !== undefined) server.removeListener("connection", startTls);
  const waiting = new Set<Socket>();
  let isScheduled = false;
  let takesNewest = false;
  const startNext = (): void => {
    takesNewest = !takesNewest;
    const sources = [...Map.groupBy(waiting, ({ remoteAddress }) => remoteAddress).values()];
    const [fewest] = sources.sort((one, other) => one.length - other.length);
    const socket = fewest?.at(takesNewest ? -1 : 0);
    isScheduled = socket !== undefined;
    if (socket === undefined) return;
    waiting.delete(socket);
    socket.setTimeout(0);
    begun(socket);
    startTls?.call(server, socket);
    setImmediate(startNext);
  };
  server.on("connection", (socket: Socket) => {
    socket.setTimeout(HANDSHAKE_MS, () => socket.destroy());
    // TLS reports its own errors. A client that disconnects before TLS needs no report.
    socket.on("error", () => {}).once("close", () => waiting.delete(socket));
    socket.once("readable", () => {
      onHello(socket);
      waiting.add(socket);
      if (!isScheduled) setImmediate(startNext);
      isScheduled = true;
    });
  });
}
