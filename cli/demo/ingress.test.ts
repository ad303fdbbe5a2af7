import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, test } from "node:test";
import { encodeHeader } from "#proxy/proxy-header.ts";
import { type IngressStandIn, startIngress } from "./ingress.ts";

const ENDPOINTS = {
  source: { address: "192.0.2.7", port: 4711 },
  destination: { address: "198.51.100.9", port: 80 },
};
const GET = (host: string) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
/** A PROXY header with the command LOCAL, as a load balancer sends it with its own health checks. */
const LOCAL = Buffer.from("0d0a0d0a000d0a515549540a20000000", "hex");

let ingress: IngressStandIn;
let sockets: Socket[];
beforeEach(async () => {
  sockets = [];
  ingress = await startIngress((host) => (host === "a.example.com" ? "Ingress shop/web" : undefined));
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await ingress.close();
});

function open(): Socket {
  const socket = connect(ingress.port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => {});
  return socket;
}

/** Writes the parts one by one, and returns the whole answer. */
async function ask(...parts: (string | Buffer)[]): Promise<string> {
  const socket = open();
  socket.setNoDelay(true);
  const answer = buffer(socket).catch(() => Buffer.alloc(0));
  for (const part of parts) {
    await new Promise((resolve) => socket.write(part, resolve));
    await new Promise(setImmediate);
  }
  return (await answer).toString("latin1");
}

describe("the ingress controller of the demo", () => {
  for (const version of ["v1", "v2"] as const) {
    test(`serves a known host behind a ${version} header, whose source is the client`, async () => {
      const header = encodeHeader(version, ENDPOINTS);
      for (const parts of [
        [Buffer.concat([header, Buffer.from(GET("a.example.com"))])],
        [header, GET("a.example.com")],
      ]) {
        const answer = await ask(...parts);
        assert.match(answer, /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*connection: close\r\n/i);
        assert.match(answer, /Ingress shop\/web; client 192\.0\.2\.7:4711\n/);
      }
      assert.equal(ingress.lastError(), undefined);
    });
  }

  test("reads a header that arrives in pieces", async () => {
    const header = encodeHeader("v1", ENDPOINTS);
    const answer = await ask(
      header.subarray(0, 5),
      header.subarray(5, 20),
      header.subarray(20),
      GET("a.example.com:80"),
    );
    assert.match(answer, /^HTTP\/1\.1 200 OK\r\n/);
  });

  test("answers 404 for an unknown host", async () => {
    const answer = await ask(encodeHeader("v1", ENDPOINTS), GET("b.example.com"));
    assert.match(answer, /^HTTP\/1\.1 404 Not Found\r\n[\s\S]*no such host; client 192\.0\.2\.7:4711\n/);
  });

  for (const [what, bytes, shown] of [
    ["a request without a header", GET("a.example.com"), '"GET / HTTP/1.1"'],
    ["a header without a client", Buffer.concat([LOCAL, Buffer.from(GET("a.example.com"))]), undefined],
  ] as const) {
    test(`closes ${what}, and logs it as nginx does`, async () => {
      assert.equal(await ask(bytes), "");
      const error = ingress.lastError() ?? "";
      if (shown !== undefined) assert.equal(error, `broken header: ${shown} while reading PROXY protocol`);
      assert.match(error, /^broken header: ".*" while reading PROXY protocol$/s);
    });
  }

  test("closes a connection that sends nothing for 2 s", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const socket = open();
    await once(socket, "connect");
    const closed = once(socket.resume(), "close");
    // A later connection was answered, so the server has accepted this one.
    await ask(encodeHeader("v1", ENDPOINTS), GET("a.example.com"));
    t.mock.timers.tick(1_999);
    await new Promise(setImmediate);
    assert.equal(ingress.lastError(), undefined);
    t.mock.timers.tick(1);
    await closed;
    assert.equal(ingress.lastError(), 'broken header: "" while reading PROXY protocol');
  });

  test("closes its connections when it stops", async () => {
    const socket = open();
    await once(socket, "connect");
    const closed = once(socket.resume(), "close");
    await ask(encodeHeader("v1", ENDPOINTS), GET("a.example.com"));
    await ingress.close();
    await closed;
  });
});
