import { type AddressInfo, connect, createServer } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { show } from "#hostmap/hostnames.ts";
import { listen } from "#lib/http/listen.ts";

/** Stands in for an ingress controller: requires a PROXY header, as nginx can, and answers each known host. */
export interface IngressStandIn {
  readonly port: number;
  /** The last error, as nginx would log it. */
  lastError(): string | undefined;
}

/** A header of version 1 and a request. The relay sends the header in one segment with the client's first bytes. */
const REQUEST = /^PROXY TCP[46] (\S+) \S+ (\d+) \d+\r\n(?:.*\r\n)*?host: ([^\r:]*)/i;

/**
 * Starts the stand-in on a free port of loopback, until the process ends. `backendOf` returns the backend of a host, or
 * undefined for a 404.
 */
export async function startIngress(backendOf: (host: string) => string | undefined): Promise<IngressStandIn> {
  let lastError: string | undefined;
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", (chunk: Buffer) => {
      const request = chunk.toString("latin1");
      const [, address, port, host = ""] = REQUEST.exec(request) ?? [];
      if (address === undefined) {
        lastError = `broken header: ${show(request.split("\r\n", 1)[0] ?? "")} while reading PROXY protocol`;
        socket.destroy();
        return;
      }
      const backend = backendOf(host);
      const head = `HTTP/1.1 ${backend === undefined ? "404 Not Found" : "200 OK"}\r\nConnection: close\r\n\r\n`;
      socket.end(`${head}${backend ?? "no such host"}; client ${address}:${port}`);
    });
  });
  await listen(server, 0, "127.0.0.1");
  server.unref();
  return { port: (server.address() as AddressInfo).port, lastError: () => lastError };
}

const TIMEOUT_MS = 3_000;

/**
 * Sends a pod's request for a public name to a port of this machine; a real pod would use port 80 of a real ClusterIP.
 * @returns the status and the body, or why there is no answer.
 */
export async function call(name: string, address: string, port: number): Promise<string> {
  const socket = connect(port, address);
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no response within ${TIMEOUT_MS} ms`)));
  socket.write(`GET / HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`);
  const answer = await textOf(socket).catch((error: Error) => error.message);
  const [, status, body] = /^HTTP\/1\.1 (\d+) [\s\S]*?\r\n\r\n([\s\S]*)/.exec(answer) ?? [];
  return status === undefined ? answer || "closed without an answer" : `${status} ${body}`;
}
