import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { promisify } from "node:util";
import { parse } from "#lib/errors/validation.ts";
import { parseHeader } from "#proxy/proxy-header-parse.ts";
import { createTestCa } from "#test/cluster/pki.ts";
import { executePlan } from "./ask.ts";
import { probedPorts } from "./probed-ports.ts";
import { PROBE_PROGRAM } from "./program.ts";
import { type DialResult, type ProbeDial, type ProbeOutcome, resultSchema } from "./result.ts";

const { cert, key } = createTestCa("test").serving(["backend.example.com"]);
const servers: Server[] = [];
const sockets = new Set<Socket>();
after(() => {
  for (const server of servers) server.close();
  for (const socket of sockets) socket.destroy();
});

type Backend = (socket: Socket, first: Buffer) => void;

/** Starts a backend that reacts to the first bytes of a connection. Returns its port. */
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

/** Returns the version of the PROXY header, if there is one, and the bytes that follow it. */
function behindHeader(first: Buffer): { version: 1 | 2 | undefined; rest: Buffer } {
  const parsed = parseHeader(first);
  if (parsed.status !== "complete") return { version: undefined, rest: first };
  return { version: parsed.header.version, rest: first.subarray(parsed.length) };
}

/** Behaves like nginx with `listen ... proxy_protocol`. */
const demanding: Backend = (socket, first) => {
  if (behindHeader(first).version === undefined) socket.destroy();
  else socket.end(RESPONSE);
};
/** Behaves like Traefik with `proxyProtocol`. */
const accepting: Backend = (socket) => socket.end(RESPONSE);
/** A server that does not know the PROXY header and reads it as a request line. */
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
  const headers = change.header === undefined ? (["none", "v1", "v2"] as const) : [change.header];
  const dials = headers.map((header): ProbeDial => ({ ...base, speaks: "http", ...change, header }));
  return (await executePlan({ dials, names: [] })).dials;
}

/** The outcome of one dial, without a header unless `change` sets one. */
async function outcome(port: number, change: Partial<ProbeDial> = {}): Promise<ProbeOutcome> {
  const [first] = await ask(port, { header: "none", ...change });
  assert.ok(first);
  return first.outcome;
}

async function stance(port: number, change: Partial<ProbeDial> = {}) {
  const service = { namespace: "a", name: "b", ports: [{ port: 80 }] };
  const [found] = probedPorts(service, { dials: await ask(port, change), lookups: [] });
  return [found?.kind, ...(found?.versions ?? [])];
}

describe("over HTTP", () => {
  for (const [what, backend, expected] of [
    ["who demands a header", demanding, ["demands", "v1", "v2"]],
    ["who takes any", accepting, ["accepts", "v1", "v2"]],
    ["who takes it for a request", ignorant, ["refuses"]],
    ["who closes whatever comes", (socket: Socket) => socket.end(), ["unclear"]],
    ["who resets whatever comes", (socket: Socket) => socket.resetAndDestroy(), ["unclear"]],
    ["who speaks another protocol", (socket: Socket) => socket.end("220 mail.example.com\r\n"), ["unclear"]],
    [
      "who demands version 2",
      (socket: Socket, first: Buffer) => (behindHeader(first).version === 2 ? socket.end(RESPONSE) : socket.destroy()),
      ["demands", "v2"],
    ],
  ] as const) {
    it(what, async () => assert.deepEqual(await stance(await serve(backend)), expected));
  }

  it("a closed port is unreachable", async () => {
    const server = createServer();
    const port = await listening(server);
    server.close();
    await once(server, "close");
    assert.deepEqual(await stance(port), ["unreachable"]);
    assert.equal((await ask(port))[0]?.outcome.kind, "refused");
  });

  it("a backend that never answers is silent, after 10 s", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const asked = Promise.withResolvers<void>();
    const result = outcome(await serve(() => asked.resolve()));
    await asked.promise;
    t.mock.timers.tick(9_999);
    assert.equal(await Promise.race([result, turn("waiting")]), "waiting");
    t.mock.timers.tick(1);
    assert.deepEqual(await result, { kind: "silent", detail: "no answer within 10 s" });
  });

  it("a connection that is not established within 3 s is a timeout", async () => {
    const port = await serve(accepting);
    const created: Socket[] = [];
    const onSocket = (message: unknown) => void created.push((message as { socket: Socket }).socket);
    subscribe("net.client.socket", onSocket);
    const result = outcome(port);
    unsubscribe("net.client.socket", onSocket);
    const [socket] = created;
    assert.equal(socket?.timeout, 3_000);
    socket?.emit("timeout");
    assert.deepEqual(await result, { kind: "timeout", detail: "no connection within 3 s" });
  });

  for (const [what, answer, expected] of [
    ["an answer", RESPONSE, { kind: "answered", detail: "HTTP 404" }],
    ["of HTTP/1.0", "HTTP/1.0 200 OK\n", { kind: "answered", detail: "HTTP 200" }],
    ["that it takes for no request", "HTTP/1.1 400 Bad Request\r\n", { kind: "misread", detail: "HTTP 400" }],
    ["of another protocol", "220 HTTP/1.1 200\r\n", { kind: "misread", detail: "an answer that is not HTTP" }],
    ["that has no line in 1025 bytes", "x".repeat(1025), { kind: "misread", detail: "an answer that is not HTTP" }],
  ] as const) {
    it(`an answer ${what}, without an end`, async () => {
      let closed: Promise<unknown> | undefined;
      const port = await serve((socket) => {
        closed = once(socket, "close");
        socket.write(answer);
      });
      assert.deepEqual(await outcome(port), expected);
      // The probe closes the connection that the backend leaves open.
      await closed;
    });
  }

  for (const [what, backend, detail] of [
    ["is ended", (socket: Socket) => socket.end("x".repeat(1024)), "the connection was closed without an answer"],
    ["is reset", (socket: Socket) => socket.resetAndDestroy(), "the connection was reset"],
  ] as const) {
    it(`a connection that ${what} before a line was answered is closed`, async () => {
      assert.deepEqual(await outcome(await serve(backend)), { kind: "closed", detail });
    });
  }

  it("an answer in two pieces is one answer", async () => {
    const port = await serve((socket) => {
      socket.write("HTTP/1.1 2", () => socket.write("04 No Content\r\n"));
    });
    assert.deepEqual(await outcome(port), { kind: "answered", detail: "HTTP 204" });
  });

  it("without a listener the connection is refused; without a route the address is unreachable", async () => {
    const server = createServer();
    const port = await listening(server);
    server.close();
    await once(server, "close");
    assert.deepEqual(await outcome(port), { kind: "refused", detail: `connect ECONNREFUSED 127.0.0.1:${port}` });
    const { kind } = await outcome(port, { address: "255.255.255.255" });
    assert.equal(kind, "unreachable");
  });

  it("sends HEAD with the given name, after a header with the connection's addresses", async () => {
    const request =
      "HEAD / HTTP/1.1\r\nHost: backend.example.com\r\nUser-Agent: switchback-doctor\r\nConnection: close\r\n\r\n";
    const seen: unknown[] = [];
    const expected: unknown[] = [];
    const port = await serve((socket, first) => {
      const parsed = parseHeader(first);
      const header = parsed.status === "complete" ? parsed.header : undefined;
      seen.push([header?.version, header?.endpoints, behindHeader(first).rest.toString("latin1")]);
      const source = { address: "127.0.0.1", port: socket.remotePort };
      const addresses = { source, destination: { address: "127.0.0.1", port: socket.localPort } };
      const version = ([undefined, 1, 2] as const)[expected.length];
      expected.push([version, version && addresses, request]);
      socket.end(RESPONSE);
    });
    for (const header of ["none", "v1", "v2"] as const) await outcome(port, { header });
    assert.equal(seen.length, 3);
    assert.deepEqual(seen, expected);
  });
});

describe("over TLS", () => {
  /** Reads a header, if there is one, and passes the rest of the connection to a TLS server. */
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

  it("a backend that requires a header", async () => {
    const port = await serve(await terminating((version) => version !== undefined));
    assert.deepEqual(await stance(port, { speaks: "tls" }), ["demands", "v1", "v2"]);
  });

  it("a backend that accepts both", async () => {
    assert.deepEqual(await stance(await serve(await terminating(() => true)), { speaks: "tls" }), [
      "accepts",
      "v1",
      "v2",
    ]);
  });

  it("a backend that reads a header as TLS refuses it", async () => {
    const port = await listening(
      createTlsServer({ cert, key }, (socket) => socket.end()).on("tlsClientError", () => {}),
    );
    assert.deepEqual(await stance(port, { speaks: "tls" }), ["refuses"]);
  });

  it("a server with any certificate answers, and gets the name", async () => {
    const names: string[] = [];
    const SNICallback = (name: string, done: (error: null) => void) => {
      names.push(name);
      done(null);
    };
    const server = createTlsServer({ cert, key, SNICallback });
    assert.deepEqual(await outcome(await listening(server), { speaks: "tls" }), {
      kind: "answered",
      detail: "a TLS handshake",
    });
    assert.deepEqual(names, ["backend.example.com"]);
  });

  /** Dials a server that sends these bytes and closes the connection. */
  const answering = async (bytes: Uint8Array) =>
    await outcome(await serve((socket) => socket.end(bytes)), { speaks: "tls" });

  for (const [code, name, kind] of [
    [112, "UNRECOGNIZED_NAME", "answered"],
    [40, "HANDSHAKE_FAILURE", "answered"],
    [116, "CERTIFICATE_REQUIRED", "answered"],
    [49, "ACCESS_DENIED", "answered"],
    [120, "NO_APPLICATION_PROTOCOL", "answered"],
    [50, "DECODE_ERROR", "misread"],
  ] as const) {
    it(`the alert ${name}`, async () => {
      const { kind: found, detail } = await answering(Uint8Array.of(21, 3, 3, 0, 2, 2, code));
      assert.equal(found, kind);
      assert.match(detail, new RegExp(`^${kind === "answered" ? "a TLS alert" : "no TLS"} \\(ERR_SSL_.*${name}\\)$`));
    });
  }

  it("an answer that is not TLS is misread", async () => {
    const { kind, detail } = await answering(Buffer.from(RESPONSE));
    assert.equal(kind, "misread");
    assert.match(detail, /^no TLS \(ERR_SSL_/);
  });

  it("a connection that the backend closes or resets is closed", async () => {
    assert.equal((await answering(Buffer.alloc(0))).kind, "closed");
    const reset = await serve((socket) => socket.resetAndDestroy());
    assert.equal((await outcome(reset, { speaks: "tls" })).kind, "closed");
  });
});

describe("the lookup of a name", () => {
  const failing = (code?: string) => async (): Promise<string[]> => {
    throw Object.assign(new Error("no"), { code });
  };
  const found =
    (...addresses: string[]) =>
    async () =>
      addresses;
  for (const [what, four, six, expected] of [
    ["both families", found("192.0.2.1"), found("2001:db8::1"), { addresses: ["192.0.2.1", "2001:db8::1"] }],
    ["IPv4 only", found("192.0.2.1", "192.0.2.2"), failing("ENODATA"), { addresses: ["192.0.2.1", "192.0.2.2"] }],
    ["IPv6 only", failing("ENODATA"), found("2001:db8::1"), { addresses: ["2001:db8::1"] }],
    ["neither", failing("ENOTFOUND"), failing("ETIMEOUT"), { addresses: [], failure: "ENOTFOUND" }],
    ["no address", found(), failing("ETIMEOUT"), { addresses: [], failure: "ENODATA" }],
    ["no code", failing(), failing(), { addresses: [], failure: "ENODATA" }],
  ] as const) {
    it(what, async (t) => {
      t.mock.method(Resolver.prototype, "resolve4", four);
      t.mock.method(Resolver.prototype, "resolve6", six);
      const { lookups, dials } = await executePlan({ dials: [], names: ["a.example.com"] });
      assert.deepEqual([lookups, dials], [[{ name: "a.example.com", ...expected }], []]);
    });
  }
});

it("the probe connects to a name only if it does not resolve to a load balancer", async (t) => {
  t.mock.method(Resolver.prototype, "resolve4", async () => ["127.0.0.1"]);
  t.mock.method(Resolver.prototype, "resolve6", async () => []);
  const outcomeWith = async (own: string[]) => {
    const { lookups } = await executePlan({ dials: [], names: ["a.example.com"], own });
    return lookups[0]?.outcome?.kind;
  };
  // Nothing listens on port 443 of this machine.
  assert.equal(await outcomeWith(["192.0.2.80"]), "refused");
  assert.equal(await outcomeWith(["127.0.0.1"]), undefined);
  // An address of a family that the pod does not have does not count.
  t.mock.method(Resolver.prototype, "resolve4", async () => ["255.255.255.255"]);
  t.mock.method(Resolver.prototype, "resolve6", async () => ["::1"]);
  assert.equal(await outcomeWith(["192.0.2.80"]), "refused");
});

describe("the program for images without Switchback", () => {
  it("yields the probe's result with any Node", async () => {
    const port = await serve(demanding);
    const dials = (["none", "v1", "v2"] as const).map((header) => {
      const name = "backend.example.com";
      return {
        via: "service",
        service: "a/b",
        servicePort: 80,
        address: "127.0.0.1",
        port,
        speaks: "http",
        header,
        name,
      };
    });
    const plan = JSON.stringify({ dials, names: [] });
    const { stdout } = await promisify(execFile)(process.execPath, ["-e", PROBE_PROGRAM, plan]);
    const result = parse(resultSchema, JSON.parse(stdout));
    assert.deepEqual(
      result.dials.map(({ outcome }) => outcome.kind),
      ["closed", "answered", "answered"],
    );
  });
});
