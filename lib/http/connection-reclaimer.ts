import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Go keeps idle connections for 90 s (`DefaultTransport`) and does not repeat a POST: a server closes them later. */
const KEEP_ALIVE_MS = 120_000;

/** What a connection did last. `answered`: its last request had an answer of 200. Only these stages count. */
const COUNTED = ["silent", "begun", "asked", "answered"] as const;
type Stage = (typeof COUNTED)[number] | "waiting" | "closed";

interface Connection {
  readonly socket: Socket;
  stage: Stage;
  /** When it got there: larger is later. */
  since: number;
}

/**
 * Limits the connections of an HTTP or HTTPS server without refusing new ones, so that the first clients cannot lock
 * the others out. Above `max`, it closes the connection with the oldest progress, of the stage with the most
 * connections: silent connections replace each other and not those in use. Those that wait for the server to begin TLS
 * do not count. Otherwise 700 clients that connect at once would close those that an API server has just opened.
 * `listener` gets the requests.
 */
export function reclaimConnections(server: Server, max: number, listener: RequestListener) {
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = KEEP_ALIVE_MS;
  const open = new Set<Connection>();
  /** For TLS: node:https has two sockets for one connection. Clients that are gone by now have no address. */
  const byAddress = new Map<string, Connection>();
  const bySocket = new WeakMap<Socket, Connection>();
  const sizes: Record<Stage, number> = { silent: 0, begun: 0, asked: 0, answered: 0, waiting: 0, closed: 0 };
  let steps = 0;
  const reach = (stage: Stage, socket: Socket): void => {
    const connection = bySocket.get(socket);
    if (connection === undefined || connection.stage === "closed") return;
    sizes[connection.stage] -= 1;
    sizes[stage] += 1;
    steps += 1;
    connection.stage = stage;
    connection.since = steps;
    if (COUNTED.reduce((sum, each) => sum + sizes[each], 0) > max) closeOldest();
  };
  const closeOldest = (): void => {
    const crowd = COUNTED.reduce((one, other) => (sizes[other] > sizes[one] ? other : one));
    let oldest: Connection | undefined;
    for (const each of open)
      if (each.stage === crowd && (oldest === undefined || each.since < oldest.since)) oldest = each;
    if (oldest === undefined) return;
    reach("closed", oldest.socket);
    oldest.socket.destroy();
  };
  server.on("connection", (socket: Socket) => {
    const address = addressOf(socket);
    const connection: Connection = { socket, stage: "waiting", since: 0 };
    open.add(connection);
    sizes.waiting += 1;
    byAddress.set(address, connection);
    bySocket.set(socket, connection);
    reach("silent", socket);
    socket.once("close", () => {
      reach("closed", socket);
      open.delete(connection);
      if (byAddress.get(address) === connection) byAddress.delete(address);
    });
  });
  server.on("secureConnection", (socket: Socket) => {
    const connection = byAddress.get(addressOf(socket));
    if (connection !== undefined) bySocket.set(socket, connection);
    reach("begun", socket);
  });
  // The listener is called from here, because a second listener of the server would make each request slower.
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    reach("asked", socket);
    response.on("close", () => response.writableFinished && response.statusCode === 200 && reach("answered", socket));
    listener(request, response);
  });
  /** Closes the connections without a request: the server's `close` leaves these. */
  const closeUnasked = (): void => {
    for (const { socket, stage } of open) if (stage !== "asked" && stage !== "answered") socket.destroy();
  };
  return { reach, closeUnasked };
}

function addressOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}
