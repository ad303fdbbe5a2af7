import { createServer as createHttpServer, type Server } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { show } from "#hostmap/hostnames.ts";
import { listen } from "#lib/http/listen.ts";

/**
 * Stands in for an ingress controller: answers each known host with a text, and requires a PROXY header, as nginx
 * does.
 */
export interface IngressStandIn {
  readonly port: number;
  /** The last error, as nginx would log it. */
  lastError(): string | undefined;
  close(): Promise<void>;
}

/** A header of version 1. The relay sends it in one segment with the first bytes of the client. */
const HEADER = /^PROXY TCP[46] (\S+) \S+ (\d+) \d+\r\n/;

/**
 * Starts the stand-in on a free port of loopback. `backendOf` returns the backend of a host, or undefined for a 404.
 */
export async function startIngress(backendOf: (host: string) => string | undefined): Promise<IngressStandIn> {
  const clients = new WeakMap<Socket, string>();
  const sockets = new Set<Socket>();
  let lastError: string | undefined;
  const http = backendServer(clients, backendOf);
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.once("data", (chunk: Buffer) => {
      const text = chunk.toString("latin1");
      const [header = "", address, port] = HEADER.exec(text) ?? [];
      if (address === undefined) {
        lastError = `broken header: ${show(text.split("\r\n", 1)[0] ?? "")} while reading PROXY protocol`;
        socket.destroy();
        return;
      }
      clients.set(socket, `${address}:${port}`);
      socket.pause();
      socket.unshift(chunk.subarray(header.length));
      http.emit("connection", socket);
      // The HTTP server does not resume a socket that was paused explicitly.
      socket.resume();
    });
  });
  await listen(server, 0, "127.0.0.1");
  return {
    port: (server.address() as AddressInfo).port,
    lastError: () => lastError,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function backendServer(clients: WeakMap<Socket, string>, backendOf: (host: string) => string | undefined): Server {
  return createHttpServer((request, response) => {
    const host = (request.headers.host ?? "").split(":", 1)[0] ?? "";
    const backend = backendOf(host);
    response.statusCode = backend === undefined ? 404 : 200;
    response.setHeader("connection", "close");
    response.end(`${backend ?? "no such host"}; client ${clients.get(request.socket) ?? "unknown"}\n`);
  });
}
