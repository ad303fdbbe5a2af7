import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import { parseHeader } from "../../proxy/proxy-header-parse.ts";
import { createTestCa } from "../../test/cluster/pki.ts";
import { executePlan } from "./ask.ts";
import { proxyProtocolSupportOf } from "./proxy-protocol-support.ts";
import type { DialResult, ProbeDial } from "./result.ts";

const { cert, key } = createTestCa("test").serving(["backend.example.com"]);
const servers: Server[] = [];
const sockets = new Set<Socket>();
after(() => {
  for (const server of servers) server.close();
  for (const socket of sockets) socket.destroy();
});

type Backend = (socket: Socket, first: Buffer) => void;

/** A backend that decides by a connection's first bytes; its port. */
async function serve(backend: Backend): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", (first: Buffer) => backend(socket, first));
  });
  return await listening(server);
}

async function listening(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const RESPONSE = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/** What follows the PROXY header, if there is one, and its version. */
function behindHeader(first: Buffer): { version: 1 | 2 | undefined; rest: Buffer } {
  const parsed = parseHeader(first);
  if (parsed.status !== "complete") return { version: undefined, rest: first };
  return { version: parsed.header.version, rest: first.subarray(parsed.length) };
}

/** As nginx with `listen ... proxy_protocol`. */
const demanding: Backend = (socket, first) => {
  if (behindHeader(first).version === undefined) socket.destroy();
  else socket.end(RESPONSE);
};
/** As Traefik with `proxyProtocol`. */
const accepting: Backend = (socket) => socket.end(RESPONSE);
/** As a server that knows of no header: it reads it as a request line. */
const ignorant: Backend = (socket, first) => {
  const bad = behindHeader(first).version !== undefined;
  socket.end(bad ? "HTTP/1.1 400 Bad Request\r\n\r\n" : RESPONSE);
};

async function ask(port: number, change: Partial<ProbeDial> = {}): Promise<DialResult[]> {
  const base = {
    via: "service",
    service: "a/b",
    servicePort: 80,
    address: "127.0.0.1",
    port,
    name: "backend.example.com",
  } as const;
  const dials = (["none", "v1", "v2"] as const).map(
    (header): ProbeDial => ({ ...base, speaks: "http", header, ...change }),
  );
  return (await executePlan({ dials, names: [] })).dials;
}

async function stance(port: number, change: Partial<ProbeDial> = {}) {
  const { kind, versions } = proxyProtocolSupportOf(
    { dials: await ask(port, change), lookups: [] },
    { service: "a/b", servicePort: 80 },
  )!;
  return [kind, ...versions];
}

describe("over HTTP", () => {
  for (const [what, backend, expected] of [
    ["who demands a header", demanding, ["demands", "v1", "v2"]],
    ["who takes any", accepting, ["accepts", "v1", "v2"]],
    ["who takes it for a request", ignorant, ["refuses"]],
    ["who closes whatever comes", (socket: Socket) => socket.end(), ["mute"]],
    ["who resets whatever comes", (socket: Socket) => socket.resetAndDestroy(), ["mute"]],
    ["who speaks another protocol", (socket: Socket) => socket.end("220 mail.example.com\r\n"), ["mute"]],
    [
      "who demands version 2",
      (socket: Socket, first: Buffer) => (behindHeader(first).version === 2 ? socket.end(RESPONSE) : socket.destroy()),
      ["demands", "v2"],
    ],
  ] as const) {
    it(what, async () => assert.deepEqual(await stance(await serve(backend)), expected));
  }

  it("nobody", async () => {
    const server = createServer();
    const port = await listening(server);
    server.close();
    await once(server, "close");
    assert.deepEqual(await stance(port), ["unreachable"]);
    assert.equal((await ask(port))[0]?.outcome.kind, "refused");
  });

  it("who never answers is silent, after 10 s", async () => {
    const [dial] = await ask(await serve(() => {}));
    assert.deepEqual(dial?.outcome, { kind: "silent", detail: "no answer within 10 s" });
  });

  it("sends the connection's own addresses, and the Host header", async () => {
    const seen: string[] = [];
    const port = await serve((socket, first) => {
      seen.push(first.toString("latin1"));
      socket.end(RESPONSE);
    });
    await ask(port, { header: "v1" });
    assert.match(
      seen[0] ?? "",
      new RegExp(`^PROXY TCP4 127\\.0\\.0\\.1 127\\.0\\.0\\.1 \\d+ ${port}\r\nHEAD / .*\r\nHost: backend`),
    );
  });
});

describe("over TLS", () => {
  /** TLS behind a header, where one came: what follows it goes to a server of its own. */
  const terminating = async (takes: (version: 1 | 2 | undefined) => boolean): Promise<Backend> => {
    const port = await listening(createTlsServer({ cert, key }, (socket) => socket.end()));
    return (socket, first) => {
      const { version, rest } = behindHeader(first);
      if (!takes(version)) return void socket.destroy();
      const inner = connect(port, "127.0.0.1");
      sockets.add(inner);
      inner.on("error", () => {});
      inner.write(rest);
      socket.pipe(inner).pipe(socket);
    };
  };

  it("who demands a header", async () => {
    const port = await serve(await terminating((version) => version !== undefined));
    assert.deepEqual(await stance(port, { speaks: "tls" }), ["demands", "v1", "v2"]);
  });

  it("who takes any", async () => {
    assert.deepEqual(await stance(await serve(await terminating(() => true)), { speaks: "tls" }), [
      "accepts",
      "v1",
      "v2",
    ]);
  });

  it("who reads a header as TLS", async () => {
    const port = await listening(
      createTlsServer({ cert, key }, (socket) => socket.end()).on("tlsClientError", () => {}),
    );
    assert.deepEqual(await stance(port, { speaks: "tls" }), ["refuses"]);
  });
});
