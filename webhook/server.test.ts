import assert from "node:assert/strict";
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { Agent, request } from "node:https";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { type DetailedPeerCertificate, type TLSSocket, connect as tlsConnect } from "node:tls";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import type { PemPair } from "#certs/pem.ts";
import { hasCode } from "#lib/errors/errors.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { createWebhookServer, type WebhookServer } from "./server.ts";

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

const running: WebhookServer[] = [];
after(() => Promise.all(running.map((server) => server.close(0))));

async function start(listener: RequestListener = (_req, res) => res.end("ok")) {
  const server = createWebhookServer(listener);
  running.push(server);
  return { server, port: await server.listen(LOCAL, 0) };
}

interface Got {
  readonly text: string;
  readonly connection: string | undefined;
  readonly reused: boolean;
}

function get(port: number, agent: Agent | false = false): Promise<Got> {
  return new Promise((resolve, reject) => {
    const call = request({ host: LOCAL, port, servername: HOST, ca: authority.cert, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => {
        resolve({ text, connection: response.headers.connection, reused: call.reusedSocket });
      });
    });
    call.on("error", reject);
    call.end();
  });
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

test("clients without TLS, or that disconnect during the handshake, affect no other client", async () => {
  const { server, port } = await start();
  server.usePair(first);
  for (const text of ["GET / HTTP/1.1\r\n\r\n", "\u0016\u0003\u0001", ""]) {
    const socket = connect(port, LOCAL);
    socket.on("error", () => {});
    socket.end(text);
    await once(socket, "close");
  }
  assert.equal((await get(port)).text, "ok");
});

test("idle connections are kept longer than the API server does, so that the API server closes first", async () => {
  const { server, port } = await start();
  server.usePair(first);
  const agent = new Agent({ keepAlive: true });
  const seconds = await new Promise<string | undefined>((resolve, reject) => {
    const call = request({ host: LOCAL, port, servername: HOST, ca: authority.cert, agent }, (response) => {
      response.resume();
      resolve(response.headers["keep-alive"]?.toString());
    });
    call.on("error", reject);
    call.end();
  });
  agent.destroy();
  assert.ok(Number(/timeout=(\d+)/.exec(seconds ?? "")?.[1]) > 90, `${seconds}`);
});

/** A connection that has finished its handshake, and sends nothing. */
async function openSpare(port: number): Promise<TLSSocket> {
  const socket = tlsConnect({ host: LOCAL, port, servername: HOST, ca: authority.cert });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  // Reads, so that the client notices when the server closes the connection.
  return socket.resume();
}

test("a connection without a request is closed when the server closes", async () => {
  const { server, port } = await start();
  server.usePair(first);
  const spare = await openSpare(port);
  await get(port);
  await server.close(3_600_000);
  if (!spare.closed) await once(spare, "close");
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
  let finish = (): void => {};
  const arrived = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let answer = (): void => {};
  const { server, port } = await start((_req, res) => {
    answer = () => res.end("late");
    finish();
  });
  server.usePair(first);
  const idle = tlsConnect({ host: LOCAL, port, servername: HOST, ca: authority.cert });
  idle.on("error", () => {});
  const late = get(port, new Agent({ keepAlive: true }));
  await arrived;
  const closed = server.close(5_000);
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

test("close leaves no timer behind, even with a long grace period", async (t) => {
  const { server } = await start();
  const cleared = t.mock.method(globalThis, "clearTimeout");
  const set = t.mock.method(globalThis, "setTimeout");
  await server.close(3_600_000);
  const [deadline] = set.mock.calls.filter(({ arguments: [, ms] }) => ms === 3_600_000);
  assert.ok(deadline !== undefined && cleared.mock.calls.some(({ arguments: [timer] }) => timer === deadline.result));
});

test("a port in use is `listen-failed`, and the error names the port", async () => {
  const { port } = await start();
  const other = createWebhookServer(() => {});
  await assert.rejects(other.listen(LOCAL, port), (error) => {
    assert.ok(hasCode(error, "listen-failed"));
    assert.match(error.message, new RegExp(String(port)));
    return true;
  });
});
