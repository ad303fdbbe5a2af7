import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, request } from "node:https";
import { connect, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { connect as tlsConnect } from "node:tls";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import { createWebhookServer } from "./server.ts";

const HOST = "switchback-webhook.switchback-system.svc";
const LOCAL = "127.0.0.1";
const authority = await issueAuthority({ now: Date.now(), days: 1 });
const pair = await issueLeaf(authority, [HOST], { now: Date.now(), days: 1 });
const MAX_CONNECTIONS = 30;
const CROWD = 40;

async function start(t: TestContext) {
  const server = createWebhookServer((_req, res) => res.end("ok"), {}, MAX_CONNECTIONS);
  const port = await server.listen(LOCAL, 0);
  server.usePair(pair);
  t.after(() => server.close(0));
  const silent = (): Socket => {
    const socket = connect({ port, host: LOCAL });
    socket.on("error", () => {});
    t.after(() => socket.destroy());
    return socket;
  };
  const secured = async (): Promise<Socket> => {
    const socket = tlsConnect({ port, host: LOCAL, servername: HOST, ca: authority.cert });
    socket.on("error", () => {});
    t.after(() => socket.destroy());
    await Promise.race([once(socket, "secureConnect"), once(socket, "close")]);
    return socket;
  };
  return { port, silent, secured };
}

/** Sends a review as an API server does. The agent keeps the connection. */
function review(port: number, agent: Agent): Promise<{ text: string; reused: boolean }> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: LOCAL, port, servername: HOST, ca: authority.cert, agent, method: "POST" });
    sent.on("error", reject).on("response", async (response) => {
      let text = "";
      for await (const chunk of response) text += chunk;
      resolve({ text, reused: sent.reusedSocket });
    });
    sent.end("{}");
  });
}

async function opened(sockets: readonly Socket[]): Promise<void> {
  await Promise.all(sockets.map((socket) => (socket.connecting ? once(socket, "connect") : undefined)));
}

test("silent connections from the API server's own address block neither its connection nor new ones", async (t) => {
  const { port, silent } = await start(t);
  const known = new Agent({ keepAlive: true, maxSockets: 1 });
  const fresh = new Agent({ keepAlive: true });
  t.after(() => [known, fresh].map((agent) => agent.destroy()));
  await review(port, known);
  const crowd = Array.from({ length: CROWD }, silent);
  await opened(crowd);
  assert.deepEqual(await review(port, known), { text: "ok", reused: true });
  assert.deepEqual(await review(port, fresh), { text: "ok", reused: false });
});

test("connections that stay silent after the handshake block neither of them", async (t) => {
  const { port, secured } = await start(t);
  const known = new Agent({ keepAlive: true, maxSockets: 1 });
  const fresh = new Agent({ keepAlive: true });
  t.after(() => [known, fresh].map((agent) => agent.destroy()));
  await review(port, known);
  await Promise.all(Array.from({ length: CROWD }, secured));
  assert.deepEqual(await review(port, known), { text: "ok", reused: true });
  assert.deepEqual(await review(port, fresh), { text: "ok", reused: false });
});

test("silent connections replace each other, not one whose handshake has begun", async (t) => {
  const { silent } = await start(t);
  const begun = silent();
  begun.write(await hello());
  const [answer] = (await once(begun, "data")) as [Buffer];
  assert.equal(answer[0], 22, "a handshake record");
  const crowd = Array.from({ length: 4 * MAX_CONNECTIONS }, silent);
  const replaced = crowd.slice(0, 2 * MAX_CONNECTIONS).map((socket) => once(socket, "close"));
  await Promise.all(replaced);
  assert.equal(begun.closed || begun.readableEnded, false);
});

test("a connection without a ClientHello is closed after two seconds", async (t) => {
  const { silent } = await start(t);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const socket = silent();
  await once(socket, "connect");
  const closed = once(socket, "close");
  const other = silent();
  // Once this one is refused, the server has accepted the first.
  other.end("not a ClientHello");
  await once(other, "close");
  t.mock.timers.tick(2_000);
  await closed;
});

/** The first bytes that a TLS client sends. */
async function hello(): Promise<Buffer> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, LOCAL, resolve));
  const address = server.address();
  const client = tlsConnect({
    port: typeof address === "object" ? (address?.port ?? 0) : 0,
    host: LOCAL,
    servername: HOST,
  });
  client.on("error", () => {});
  const [socket] = (await once(server, "connection")) as [Socket];
  const [bytes] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

test("a ClientHello that comes byte by byte is answered", async (t) => {
  const { silent } = await start(t);
  const socket = silent().setNoDelay(true);
  const answered = once(socket, "data");
  for (const byte of await hello()) {
    socket.write(Buffer.of(byte));
    await new Promise((resolve) => setImmediate(resolve));
  }
  const [answer] = (await answered) as [Buffer];
  assert.equal(answer[0], 22, "a handshake record");
});

test("a ClientHello in several records, or with more than a record behind it, is refused before TLS", async (t) => {
  const { silent } = await start(t);
  const whole = await hello();
  const first = Buffer.from(whole.subarray(0, 100));
  first.writeUInt16BE(95, 3);
  for (const bytes of [
    first,
    Buffer.concat([whole, Buffer.alloc(20_000)]),
    Buffer.from([23, 3, 1, 0, 4, 1, 0, 0, 0]),
  ]) {
    const socket = silent();
    const answers: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => answers.push(chunk));
    socket.write(bytes);
    await once(socket, "close");
    assert.deepEqual(answers, []);
  }
});

test("many handshakes are spread over turns of the event loop: connections are served in between", async (t) => {
  const { port, silent } = await start(t);
  const known = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => known.destroy());
  await review(port, known);
  const bytes = await hello();
  const crowd = Array.from({ length: 25 }, silent);
  await opened(crowd);
  let answered = 0;
  for (const socket of crowd) {
    socket.once("data", () => {
      answered += 1;
    });
    socket.write(bytes);
  }
  assert.equal((await review(port, known)).text, "ok");
  assert.ok(answered < 20, `${answered} of 25 handshakes were answered before the review`);
});
