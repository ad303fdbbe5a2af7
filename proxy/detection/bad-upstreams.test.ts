import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, connect, createServer, type Server, Socket } from "node:net";
import { after, describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { createTestCa } from "#test/cluster/pki.ts";
import { parseHeader } from "../proxy-header-parse.ts";
import { askRound, type Question } from "./ask.ts";

// Rounds with upstreams that behave badly. Each test also waits until the upstream's connections are closed.

const NAME = "shop.example.com";
const { cert, key } = createTestCa("test").serving([NAME]);
const RESPONSE = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

const servers: Server[] = [];
const accepted = new Set<Socket>();
after(() => {
  for (const server of servers) server.close();
  for (const socket of accepted) socket.destroy();
});

interface Upstream {
  readonly port: number;
  /** The connections accepted so far. */
  readonly sockets: Socket[];
  /** Resolves when this many connections have sent something. */
  heard(count: number): Promise<void>;
  /** Resolves when all connections are closed. */
  closed(): Promise<unknown>;
}

async function listening(server: Server): Promise<number> {
  servers.push(server.on("connection", (socket: Socket) => accepted.add(socket)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Gives each connection to `take`, with a number from 0. */
async function serve(take: (socket: Socket, index: number) => void): Promise<Upstream> {
  const sockets: Socket[] = [];
  const closings: Promise<unknown>[] = [];
  const first: Promise<unknown>[] = [];
  const all = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    closings.push(new Promise((resolve) => socket.once("close", resolve)));
    first.push(once(socket, "data"));
    if (sockets.push(socket) === 3) all.resolve();
    take(socket, sockets.length - 1);
  });
  const port = await listening(server);
  const heard = async () => {
    await all.promise;
    await Promise.all(first);
  };
  return { port, sockets, heard, closed: () => Promise.all(closings) };
}

function question(port: number, speaks: Question["speaks"]): Question {
  return { host: "127.0.0.1", port, speaks, name: NAME, agent: "switchback-proxy" };
}

async function answer({ port, closed }: Pick<Upstream, "port" | "closed">, speaks: Question["speaks"] = "http") {
  const round = await askRound(question(port, speaks));
  await closed();
  return round.answer;
}

/** The version of the PROXY header, if there is one, and the bytes after it. */
function behindHeader(first: Buffer): { version: 1 | 2 | undefined; rest: Buffer } {
  const parsed = parseHeader(first);
  if (parsed.status !== "complete") return { version: undefined, rest: first };
  return { version: parsed.header.version, rest: first.subarray(parsed.length) };
}

/** Removes the header, and relays the rest to port `behind`. Closes connections that `takes` rejects. */
function front(behind: number, takes: (version: 1 | 2 | undefined) => boolean): (socket: Socket) => void {
  return (socket) => {
    socket.once("data", (first: Buffer) => {
      const { version, rest } = behindHeader(first);
      if (!takes(version)) return void socket.destroy();
      const inner = connect(behind, "127.0.0.1");
      inner.on("error", () => {});
      socket.once("close", () => inner.destroy());
      inner.write(rest);
      socket.pipe(inner).pipe(socket);
    });
  };
}

async function tlsServer(options: TlsOptions): Promise<number> {
  return await listening(createTlsServer({ cert, key, ...options }).on("tlsClientError", () => {}));
}

describe("an upstream that is slow", () => {
  for (const speaks of ["http", "tls"] as const) {
    it(`it accepts ${speaks} and never answers`, async (t) => {
      t.mock.timers.enable({ apis: ["setTimeout"] });
      const upstream = await serve(() => {});
      const asked = askRound(question(upstream.port, speaks));
      await upstream.heard(3);
      t.mock.timers.tick(9_999);
      assert.equal(await Promise.race([asked, turn("waiting")]), "waiting");
      t.mock.timers.tick(1);
      const { answer: found, seen } = await asked;
      assert.deepEqual([found, seen.v2.kind], ["unknown", "silent"]);
      await upstream.closed();
    });

    it(`it answers ${speaks} after 4 s`, async (t) => {
      t.mock.timers.enable({ apis: ["setTimeout"] });
      const behind = await tlsServer({});
      const later: (() => void)[] = [];
      const upstream = await serve((socket) => {
        socket.once("data", (first: Buffer) => {
          later.push(() => {
            const { version, rest } = behindHeader(first);
            if (version === undefined) return void socket.destroy();
            if (speaks === "http") return void socket.end(RESPONSE);
            front(behind, () => true)(socket);
            socket.emit("data", rest);
          });
        });
      });
      const asked = askRound(question(upstream.port, speaks));
      await upstream.heard(3);
      t.mock.timers.tick(4_000);
      for (const reply of later) reply();
      assert.equal((await asked).answer, "demands-either");
      await upstream.closed();
    });
  }

  it("it does not answer within the caller's own limit", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const upstream = await serve(() => {});
    const asked = askRound(question(upstream.port, "http"), { answerMs: 500 });
    await upstream.heard(3);
    t.mock.timers.tick(500);
    assert.deepEqual((await asked).seen.none, { kind: "silent", detail: "no answer within 0.5 s" });
  });
});

describe("an upstream that speaks something else", () => {
  const chatter = {
    "a server that speaks first": (socket: Socket) => socket.write("SSH-2.0-OpenSSH_9.2\r\n"),
    "a server that speaks first and closes": (socket: Socket) => socket.end("220 mail.example.com ESMTP\r\n"),
    "an echo": (socket: Socket) => socket.pipe(socket),
    "the same text to anything": (socket: Socket) => socket.once("data", () => socket.write("HTTP/1.1 okay\r\n")),
    "an alert of a server that reads no TLS": (socket: Socket) => socket.end(Uint8Array.of(21, 3, 3, 0, 2, 2, 10)),
    "a flood of zeros": (socket: Socket) => {
      const zeros = Buffer.alloc(64 * 1024);
      const write = () => socket.destroyed || socket.write(zeros, write);
      write();
    },
  };
  for (const [what, take] of Object.entries(chatter)) {
    for (const speaks of ["http", "tls"] as const) {
      it(`${what}, asked for ${speaks}`, async () => assert.equal(await answer(await serve(take), speaks), "unknown"));
    }
  }

  const http = (_: unknown, response: { end(): void }) => response.end();
  for (const [what, server, speaks, expected] of [
    ["HTTP without PROXY protocol", () => createHttpServer(http), "http", "refuses-header"],
    ["HTTPS without PROXY protocol", () => createHttpsServer({ cert, key }, http), "tls", "refuses-header"],
    ["HTTP that is asked for TLS", () => createHttpServer(http), "tls", "unknown"],
    ["HTTPS that is asked for HTTP", () => createHttpsServer({ cert, key }, http), "http", "unknown"],
  ] as const) {
    it(what, async () => {
      const upstream = await serve(front(await listening(server()), () => true));
      const bare = { port: await listening(server()), closed: async () => {} };
      assert.equal(await answer(bare, speaks), expected);
      // Behind a front that accepts all headers, the answer is `optional`, or `unknown` as without the front.
      assert.equal(await answer(upstream, speaks), expected === "unknown" ? "unknown" : "optional");
    });
  }

  it("a port number out of range is unreachable", async () => {
    const { answer: found, seen } = await askRound(question(65_536, "http"));
    assert.deepEqual([found, seen.v1.kind], ["unknown", "unreachable"]);
  });
});

describe("an upstream that closes some connections never gets the opposite answer", () => {
  const { demands, plain } = {
    demands: (first: Buffer) => (behindHeader(first).version === undefined ? "" : RESPONSE),
    plain: (first: Buffer) => (behindHeader(first).version === undefined ? RESPONSE : "HTTP/1.1 400 Bad\r\n\r\n"),
  };
  for (const [what, reply, possible] of [
    ["demands a header", demands, ["demands-v1", "demands-v2", "demands-either", "unknown"]],
    ["refuses one", plain, ["refuses-header", "unknown"]],
  ] as const) {
    for (const closes of [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]) {
      it(`it ${what}, and closes ${closes}`, async () => {
        const upstream = await serve((socket, index) => {
          socket.once("data", (first: Buffer) => socket.end(closes.includes(index) ? "" : reply(first)));
        });
        const found = await answer(upstream);
        assert.ok((possible as readonly string[]).includes(found), found);
      });
    }
  }
});

describe("client certificates", () => {
  for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
    it(`demanded by ${maxVersion}`, async () => {
      const behind = await tlsServer({ requestCert: true, rejectUnauthorized: true, maxVersion });
      const plain = { port: behind, closed: async () => {} };
      assert.equal(await answer(plain, "tls"), "refuses-header");
      assert.equal(await answer(await serve(front(behind, (version) => version === 2)), "tls"), "demands-v2");
      assert.equal(await answer(await serve(front(behind, () => true)), "tls"), "optional");
    });
  }
});

describe("a handshake", () => {
  it("ends without an error on the server, and without data", async () => {
    const errors: Error[] = [];
    const data: Buffer[] = [];
    const ends: Promise<unknown>[] = [];
    const server = createTlsServer({ cert, key }, (socket) => {
      ends.push(once(socket, "close"));
      socket.on("error", (error) => errors.push(error)).on("data", (chunk: Buffer) => data.push(chunk));
    });
    const port = await listening(server.on("tlsClientError", () => {}));
    const connected = once(server, "secureConnection");
    assert.equal((await askRound(question(port, "tls"))).answer, "refuses-header");
    await connected;
    await Promise.all(ends);
    assert.deepEqual([errors, data, ends.length], [[], [], 1]);
  });

  it("has the header in one write with the ClientHello", async (t) => {
    const upstream = await serve((socket) => socket.once("data", () => socket.destroy()));
    const firsts = new Map<Socket, Buffer>();
    const { write } = Socket.prototype;
    t.mock.method(Socket.prototype, "write", function (this: Socket, ...args: Parameters<Socket["write"]>) {
      if (this.remotePort === upstream.port && !firsts.has(this)) firsts.set(this, args[0] as Buffer);
      return write.apply(this, args);
    });
    await answer(upstream, "tls");
    const parts = [...firsts.values()].map(behindHeader);
    // 22: a handshake record.
    const seen = parts.map(({ version, rest }) => [version, rest[0]]);
    assert.deepEqual(seen, [
      [undefined, 22],
      [1, 22],
      [2, 22],
    ]);
  });

  it("with more certificate bytes than the limit is still an answer", async () => {
    const chain = cert.repeat(Math.ceil((64 * 1024) / 700));
    const plain = { port: await tlsServer({ cert: chain }), closed: async () => {} };
    assert.equal(await answer(plain, "tls"), "refuses-header");
  });
});

describe("a round that is stopped", () => {
  it("before it begins gives the answer unknown", async () => {
    const upstream = await serve(() => {});
    const round = await askRound(question(upstream.port, "http"), { signal: AbortSignal.abort() });
    assert.equal(round.answer, "unknown");
    await upstream.closed();
  });

  for (const speaks of ["http", "tls"] as const) {
    it(`while ${speaks} waits for some answers gives the answer unknown`, async () => {
      const stop = new AbortController();
      const upstream = await serve((socket) => {
        socket.once("data", (first: Buffer) => {
          if (behindHeader(first).version === 1) socket.end(RESPONSE);
        });
      });
      const asked = askRound(question(upstream.port, speaks), { signal: stop.signal });
      await upstream.heard(3);
      stop.abort();
      const { answer: found } = await asked;
      assert.equal(found, "unknown");
      await upstream.closed();
    });
  }
});
