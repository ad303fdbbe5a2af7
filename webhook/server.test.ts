import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage, RequestListener } from "node:http";
import { Agent, request } from "node:https";
import { connect } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { type DetailedPeerCertificate, type TLSSocket, connect as tlsConnect } from "node:tls";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import type { PemPair } from "#certs/pem.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { clientHello } from "#test/integration/attack/flood.ts";
import { createWebhookServer } from "./server.ts";

const HOST = "switchback-webhook.switchback-system.svc";
const LOCAL = "127.0.0.1";
let authority: PemPair;
let first: PemPair;
let second: PemPair;

before(async () => {
  authority = await issueAuthority({ now: Date.now(), days: 1 });
  [first, second] = await Promise.all([
    issueLeaf(authority, [HOST], { now: Date.now(), days: 1 }),
    issueLeaf(authority, [HOST], { now: Date.now(), days: 1 }),
  ]);
});

const running: ReturnType<typeof createWebhookServer>[] = [];
after(() => Promise.all(running.map((server) => server.close(0))));

async function start(listener: RequestListener = (_req, res) => res.end("ok"), maxConnections?: number) {
  const server = createWebhookServer(listener, maxConnections);
  running.push(server);
  return { server, port: await server.listen(LOCAL, 0) };
}

async function get(port: number, agent: Agent | false = false) {
  const call = request({ host: LOCAL, port, servername: HOST, ca: authority.cert, agent }).end();
  const [response] = (await once(call, "response")) as [IncomingMessage];
  return { text: await textOf(response), connection: response.headers.connection, reused: call.reusedSocket };
}

async function serial(port: number): Promise<string> {
  const socket: TLSSocket = tlsConnect({ host: LOCAL, port, servername: HOST, ca: authority.cert });
  await once(socket, "secureConnect");
  const certificate: DetailedPeerCertificate = socket.getPeerCertificate(true);
  socket.destroy();
  return certificate.fingerprint256;
}

test("handshakes fail before the first pair; after it requests are answered", async () => {
  const { server, port } = await start();
  await assert.rejects(get(port));
  server.usePair(first);
  assert.equal((await get(port)).text, "ok");
});

test("a new pair is served to new connections at once, while existing ones continue", async () => {
  const { server, port } = await start();
  server.usePair(first);
  const before = await serial(port);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  await get(port, agent);
  server.usePair(second);
  assert.notEqual(await serial(port), before);
  const kept = await get(port, agent);
  assert.deepEqual({ text: kept.text, reused: kept.reused }, { text: "ok", reused: true });
  agent.destroy();
});

test("a pair that does not load throws, and the previous one is served", async () => {
  const { server, port } = await start();
  server.usePair(first);
  const before = await serial(port);
  assert.throws(() => server.usePair({ cert: second.cert, key: first.key }));
  assert.throws(() => server.usePair({ cert: "junk", key: "junk" }));
  assert.equal(await serial(port), before);
});

test("while draining, requests are answered and each answer closes its connection", async () => {
  const { server, port } = await start();
  server.usePair(first);
  assert.equal((await get(port, new Agent({ keepAlive: true }))).connection, "keep-alive");
  server.drain();
  const draining = await get(port, new Agent({ keepAlive: true }));
  assert.deepEqual({ text: draining.text, connection: draining.connection }, { text: "ok", connection: "close" });
});

test("close lets a running request finish, accepts no new one and does not wait for idle connections", {
  timeout: 10_000,
}, async () => {
  const arrived = Promise.withResolvers<void>();
  let answer = (): void => {};
  const { server, port } = await start((_req, res) => {
    answer = () => res.end("late");
    arrived.resolve();
  });
  server.usePair(first);
  const idle = tlsConnect({ host: LOCAL, port, servername: HOST, ca: authority.cert });
  idle.on("error", () => {});
  const late = get(port);
  await arrived.promise;
  const closed = server.close(60_000);
  await assert.rejects(get(port));
  assert.equal(await isSettled(closed), false, "it waits for the request");
  answer();
  assert.equal((await late).text, "late");
  await closed;
  idle.destroy();
});

test("a request that does not end is aborted when the grace period is over, and not before", {
  timeout: 10_000,
}, async (t) => {
  const arrived = Promise.withResolvers<void>();
  const { server, port } = await start(() => arrived.resolve());
  server.usePair(first);
  const stuck = get(port);
  const lost = assert.rejects(stuck);
  await arrived.promise;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const closed = server.close(50);
  t.mock.timers.tick(49);
  assert.equal(await isSettled(closed), false);
  t.mock.timers.tick(1);
  await Promise.all([lost, closed]);
});

test("a crowd of connections from the API server's address blocks no review", async (t) => {
  const { server, port } = await start(undefined, 30);
  server.usePair(first);
  const known = new Agent({ keepAlive: true, maxSockets: 1 });
  const fresh = new Agent({ keepAlive: true });
  t.after(() => [known, fresh].map((agent) => agent.destroy()));
  await get(port, known);
  const secured = () => tlsConnect({ port, host: LOCAL, servername: HOST, ca: authority.cert });
  const crowd = Array.from({ length: 40 }, () => secured().on("error", () => {}));
  t.after(() => crowd.map((socket) => socket.destroy()));
  await Promise.all(crowd.map((socket) => Promise.race([once(socket, "secureConnect"), once(socket, "close")])));
  const [old, next] = [await get(port, known), await get(port, fresh)];
  assert.deepEqual([old.text, old.reused, next.text, next.reused], ["ok", true, "ok", false]);
});

test("a crowd's handshakes are spread over turns of the event loop: a review in between waits for one", async (t) => {
  const { server, port } = await start();
  server.usePair(first);
  const known = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => known.destroy());
  await get(port, known);
  const bytes = await clientHello();
  const crowd = Array.from({ length: 25 }, () => connect({ port, host: LOCAL }).on("error", () => {}));
  t.after(() => crowd.map((socket) => socket.destroy()));
  await Promise.all(crowd.map((socket) => once(socket, "connect")));
  let answered = 0;
  for (const socket of crowd) {
    socket.once("data", () => {
      answered += 1;
    });
    socket.write(bytes);
  }
  assert.equal((await get(port, known)).text, "ok");
  assert.ok(answered < 20, `${answered} of 25 handshakes were answered before the review`);
});
