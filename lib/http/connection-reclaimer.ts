import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The stages of a connection: accepted, TLS begun, TLS established, a request answered with 200. */
const STAGES = ["accepted", "begun", "secured", "answered"] as const;
/**
 * `waiting`: the ClientHello has arrived, but the server has not begun TLS. The delay is the server's, not the
 * client's.
 */
type Stage = (typeof STAGES)[number] | "waiting";

/**
 * Maximum number of waiting connections. Each takes a socket and its ClientHello (1 to 2 KB, at most 16 KB). In TLS
 * it takes 53 KB.
 */
const MAX_WAITING = 1_024;

/** Reports steps of connections that are not visible in the server's events. */
interface ReclaimedConnections {
  /** The ClientHello of an accepted connection has arrived. */
  waiting(socket: Socket): void;
  /** TLS begins on a waiting connection. */
  begun(socket: Socket): void;
  /** Closes all connections, including those in their handshake (`closeAllConnections` does not close these). */
  closeAll(): void;
}

interface Connection {
  readonly socket: Socket;
  readonly source: string;
  stage: Stage;
  /** Sequence number of this connection's last progress. All connections share the sequence. */
  progress: number;
}

/**
 * Limits the connections of an HTTP or HTTPS server without refusing new ones: at `max`, it closes an existing
 * connection. If it refused new connections, the first clients could lock the others out. A fixed limit per source
 * would lock out clients that share an address with an attacker (source NAT).
 *
 * It selects the connection to close in three steps: the stage with the most connections, in this stage the source
 * with the most connections, and of this source the connection that has made no progress for the longest time. So
 * silent connections replace each other and not those in use. A source replaces its own connections before those of
 * others. A new connection always has time to finish its handshake and first request.
 *
 * Connections that wait for the server are counted separately, up to `MAX_WAITING`. Otherwise 700 clients of one
 * address that connect at once would close those of an API server that connected just before them.
 */
export function reclaimConnections(server: Server, max: number): ReclaimedConnections {
  const stages: Readonly<Record<Stage, Group>> = {
    accepted: new Group(),
    waiting: new Group(),
    begun: new Group(),
    secured: new Group(),
    answered: new Group(),
  };
  const connections = new WeakMap<Socket, Connection>();
  /**
   * Connections in their handshake, by address. node:https does not say which accepted socket belongs to a TLS
   * socket.
   */
  const accepted = new Map<string, Connection>();
  let steps = 0;
  const move = (connection: Connection, stage: Stage): void => {
    stages[connection.stage].delete(connection);
    connection.stage = stage;
    connection.progress = ++steps;
    stages[stage].add(connection);
  };
  const close = (victim: Connection | undefined): void => {
    if (victim === undefined) return;
    stages[victim.stage].delete(victim);
    victim.socket.destroy();
  };
  const reclaim = (): void => {
    const counted = STAGES.map((stage) => stages[stage]);
    if (counted.reduce((sum, { size }) => sum + size, 0) > max) close(largest(counted)?.oldestOfLargestSource());
  };
  server.on("connection", (socket: Socket) => {
    const source = socket.remoteAddress ?? "";
    const connection: Connection = { socket, source, stage: "accepted", progress: ++steps };
    const address = addressOf(socket);
    connections.set(socket, connection);
    accepted.set(address, connection);
    stages.accepted.add(connection);
    socket.once("close", () => {
      stages[connection.stage].delete(connection);
      if (accepted.get(address) === connection) accepted.delete(address);
    });
    reclaim();
  });
  server.on("secureConnection", (socket: Socket) => {
    const connection = accepted.get(addressOf(socket));
    if (connection === undefined) return;
    connections.set(socket, connection);
    move(connection, "secured");
  });
  server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = connections.get(socket);
    if (connection === undefined) return;
    connection.progress = ++steps;
    if (connection.stage === "answered") return;
    response.once("finish", () => {
      if (response.statusCode === 200 && stages[connection.stage].has(connection)) move(connection, "answered");
    });
  });
  return {
    waiting(socket) {
      const connection = connections.get(socket);
      if (connection === undefined || !stages.accepted.has(connection)) return;
      move(connection, "waiting");
      if (stages.waiting.size > MAX_WAITING) close(stages.waiting.middleOfLargestSource());
    },
    begun(socket) {
      const connection = connections.get(socket);
      if (connection === undefined || !stages.waiting.has(connection)) return;
      move(connection, "begun");
      reclaim();
    },
    closeAll() {
      for (const group of Object.values(stages)) for (const { socket } of group.all()) socket.destroy();
    },
  };
}

/**
 * Ends a connection that sends a request before the answer to the previous one (pipelining). No API server, kubelet
 * or Prometheus does that. Otherwise the requests and answers of a client that does not read would accumulate.
 */
export function withoutPipelining(listener: RequestListener): RequestListener {
  return (request, response) => {
    // A response has no socket until the previous response has been written.
    if (response.socket === null) request.socket.destroy();
    else listener(request, response);
  };
}

function addressOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

/** Returns the largest group; of several equal ones, the first. */
function largest<T extends { readonly size: number }>(groups: Iterable<T>): T | undefined {
  let found: T | undefined;
  for (const group of groups) if (found === undefined || group.size > found.size) found = group;
  return found;
}

/** Connections of one stage, by source. Those of a source are in the order in which they reached the stage. */
class Group {
  readonly #sources = new Map<string, Set<Connection>>();
  size = 0;

  add(connection: Connection): void {
    const { source } = connection;
    const existing = this.#sources.get(source);
    if (existing === undefined) this.#sources.set(source, new Set([connection]));
    else existing.add(connection);
    this.size += 1;
  }

  has(connection: Connection): boolean {
    return this.#sources.get(connection.source)?.has(connection) ?? false;
  }

  delete(connection: Connection): boolean {
    const connections = this.#sources.get(connection.source);
    if (connections === undefined || !connections.delete(connection)) return false;
    this.size -= 1;
    if (connections.size === 0) this.#sources.delete(connection.source);
    return true;
  }

  all(): readonly Connection[] {
    return [...this.#sources.values()].flatMap((connections) => [...connections]);
  }

  oldestOfLargestSource(): Connection | undefined {
    let oldest: Connection | undefined;
    for (const connection of largest(this.#sources.values()) ?? [])
      if (oldest === undefined || connection.progress < oldest.progress) oldest = connection;
    return oldest;
  }

  /** The connection that would be served last, if the server alternates between the oldest and the newest. */
  middleOfLargestSource(): Connection | undefined {
    const connections = [...(largest(this.#sources.values()) ?? [])];
    return connections[connections.length >> 1];
  }
}
