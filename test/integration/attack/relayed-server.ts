import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { parseHeader } from "#proxy/proxy-header-parse.ts";

/** The line that requests an endless answer. */
export const ENDLESS = "ENDLESS\n";

/**
 * A stand-in for the ingress controller behind the relay. It trusts the PROXY header and returns the address in it.
 */
export interface RelayedServer {
  readonly port: number;
  /** Number of open connections. */
  readonly connections: () => number;
  stop(): Promise<void>;
}

/**
 * Answers a client's first line with the source address of the PROXY header and that line: `192.0.2.7 hello`. Resets
 * a connection without a header. After ENDLESS it writes for as long as the client reads.
 */
export async function startRelayedServer(): Promise<RelayedServer> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket)).on("error", () => {});
    let read: Buffer<ArrayBufferLike> = Buffer.alloc(0);
    const take = (bytes: Buffer): void => {
      read = Buffer.concat([read, bytes]);
      const header = parseHeader(read);
      if (header.status === "invalid") socket.resetAndDestroy();
      if (header.status !== "complete") return;
      const payload = read.subarray(header.length).toString("latin1");
      const end = payload.indexOf("\n");
      if (end < 0) return;
      socket.off("data", take).resume();
      const line = payload.slice(0, end + 1);
      if (line === ENDLESS) writeEndlessly(socket);
      else socket.write(`${header.header.endpoints?.source.address} ${line}`);
    };
    socket.on("data", take);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => open.size,
    async stop() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

function writeEndlessly(socket: Socket): void {
  const chunk = Buffer.alloc(64 * 1024, "x");
  const write = (): void => {
    while (!socket.destroyed && socket.write(chunk)) {
      // Write until the socket's buffer is full.
    }
  };
  socket.on("drain", write);
  write();
}
