import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { getOrAdd } from "#hostmap/multi-map.ts";

/** Go keeps idle connections for 90 s (`DefaultTransport`) and does not repeat a POST: a server closes them later. */
const KEEP_ALIVE_MS = 120_000;

/**
 * Limits the connections of an HTTP or HTTPS server without refusing new ones, so that the first clients cannot lock
 * the others out. Above `max`, it closes the connection with the oldest progress, of the stage with the most
 * connections: silent connections replace each other and not those in use. Those that wait for the server to begin TLS
 * do not count. Otherwise 700 clients that connect at once would close those that an API server has just opened.
 */
export function reclaimConnections(server: Server, max: number) {
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.headersTimeout = KEEP_ALIVE_MS;
  /** In each, the one with the oldest progress first. `answered`: the last request had an answer of 200. */
  const stages = { silent: stage(), begun: stage(), asked: stage(), answered: stage() };
  const counted = Object.values(stages);
  /** By address, because node:https has two sockets for one connection. */
  const sockets = new Map<string, Socket>();
  const leave = (socket: Socket): boolean => counted.some((each) => each.delete(socket));
  const reach = (next: "waiting" | keyof typeof stages, of: Socket): void => {
    const socket = sockets.get(addressOf(of));
    if (socket === undefined) return;
    leave(socket);
    if (next !== "waiting") stages[next].add(socket);
    if (counted.reduce((sum, { size }) => sum + size, 0) <= max) return;
    const [oldest] = counted.reduce((one, other) => (other.size > one.size ? other : one));
    if (oldest !== undefined) leave(oldest.destroy());
  };
  server.on("connection", (socket: Socket) => {
    sockets.set(addressOf(socket), socket);
    reach("silent", socket);
    socket.once("close", () => {
      leave(socket);
      if (sockets.get(addressOf(socket)) === socket) sockets.delete(addressOf(socket));
    });
  });
  server.on("secureConnection", (socket: Socket) => reach("begun", socket));
  server.on("request", ({ socket }, response: ServerResponse) => {
    reach("asked", socket);
    response.on("finish", () => response.statusCode === 200 && reach("answered", socket));
  });
  /** Closes the connections without a request: the server's `close` leaves these. */
  const closeUnasked = (): void => {
    const { asked, answered } = stages;
    for (const socket of sockets.values()) if (!asked.has(socket) && !answered.has(socket)) socket.destroy();
  };
  return { reach, closeUnasked };
}

const stage = () => new Set<Socket>();

/** The addresses of sockets are kept: to build the text for each request takes longer than the rest of this file. */
const addresses = new WeakMap<Socket, string>();

function addressOf(socket: Socket): string {
  return getOrAdd(addresses, socket, () => `${socket.remoteAddress} ${socket.remotePort} ${socket.localAddress}`);
}
