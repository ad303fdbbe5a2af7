import { createServer as createHttpServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, createServer, type Socket, type Server as TcpServer } from "node:net";
import { show } from "#hostmap/hostnames.ts";
import { listen } from "#lib/http/listen.ts";
import { parseHeader } from "#proxy/proxy-header-parse.ts";

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

/** How long to wait for the header. nginx waits `client_header_timeout` (60 s); the demo waits less. */
const HEADER_TIMEOUT_MS = 2_000;

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
    readHeader(socket, (client, bad) => {
      if (client === undefined) {
        lastError = `broken header: ${show(bad)} while reading PROXY protocol`;
        socket.destroy();
        return;
      }
      clients.set(socket, client);
      http.emit("connection", socket);
      // The HTTP server does not resume a socket that was paused explicitly.
      socket.resume();
    });
  });
  await listen(server, 0, "127.0.0.1");
  return {
    port: (server.address() as AddressInfo).port,
    lastError: () => lastError,
    close: () => close(server, sockets),
  };
}

/** Reads the header from the start of the stream, and leaves the rest for HTTP. */
function readHeader(socket: Socket, done: (client: string | undefined, bad: string) => void): void {
  let buffered = Buffer.alloc(0);
  const timer = setTimeout(() => finish(undefined), HEADER_TIMEOUT_MS);
  const finish = (client: string | undefined) => {
    clearTimeout(timer);
    socket.off("data", onData);
    done(client, buffered.toString("latin1").split("\r\n", 1)[0] ?? "");
  };
  const onData = (chunk: Buffer) => {
    buffered = Buffer.concat([buffered, chunk]);
    const parsed = parseHeader(buffered);
    if (parsed.status === "partial") return;
    if (parsed.status !== "complete" || parsed.header.endpoints === undefined) return finish(undefined);
    const { source } = parsed.header.endpoints;
    const rest = buffered.subarray(parsed.length);
    socket.pause();
    if (rest.length > 0) socket.unshift(rest);
    finish(`${source.address}:${source.port}`);
  };
  socket.on("data", onData);
}

function backendServer(clients: WeakMap<Socket, string>, backendOf: (host: string) => string | undefined): Server {
  return createHttpServer((request: IncomingMessage, response) => {
    const host = (request.headers.host ?? "").split(":", 1)[0] ?? "";
    const backend = backendOf(host);
    response.statusCode = backend === undefined ? 404 : 200;
    response.setHeader("connection", "close");
    response.end(`${backend ?? "no such host"}; client ${clients.get(request.socket) ?? "unknown"}\n`);
  });
}

function close(server: TcpServer, sockets: ReadonlySet<Socket>): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    for (const socket of sockets) socket.destroy();
  });
}
