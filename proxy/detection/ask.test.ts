import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { parseHeader } from "../proxy-header-parse.ts";
import { askRound } from "./ask.ts";

const servers: Server[] = [];
const sockets = new Set<Socket>();
after(() => {
  for (const server of servers) server.close();
  for (const socket of sockets) socket.destroy();
});

/** Starts a backend that decides by a connection's first bytes. Returns its port. */
async function serve(backend: (socket: Socket, first: Buffer) => void): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", (first: Buffer) => backend(socket, first));
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const RESPONSE = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const question = (port: number) =>
  ({ host: "127.0.0.1", port, speaks: "http", name: "shop.example.com", agent: "switchback-proxy" }) as const;

describe("a round over HTTP", () => {
  it("makes three connections, each with header and request in one write", async () => {
    const requests: string[] = [];
    const port = await serve((socket, first) => {
      const parsed = parseHeader(first);
      const length = parsed.status === "complete" ? parsed.length : 0;
      requests.push(first.subarray(length).toString("latin1"));
      socket.end(length > 0 ? RESPONSE : "");
    });
    const { answer, seen } = await askRound(question(port));
    assert.equal(answer, "demands-either");
    assert.deepEqual(
      Object.values(seen).map(({ kind }) => kind),
      ["closed", "answered", "answered"],
    );
    const request =
      "HEAD /.well-known/switchback-asks-for-proxy-protocol HTTP/1.1\r\nHost: switchback-proxy.invalid\r\n" +
      "User-Agent: switchback-proxy\r\nConnection: close\r\n\r\n";
    assert.deepEqual(requests, [request, request, request]);
  });
});
