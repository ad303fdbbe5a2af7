import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { soon, Upstream } from "../conformance/rig.ts";
import { endOf, firstChunk, randomBytes } from "../conformance/streams.ts";
import { newTargetStats } from "../target-stats.ts";
import { PortableConnection } from "./connection.ts";

/** Both ends of one TCP connection on loopback. */
async function socketPair(server: Upstream): Promise<[near: Socket, far: Socket]> {
  const far = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  far.on("error", () => {});
  await once(far, "connect");
  return [(await server.next()).resume(), far];
}

/** A connection between two pairs of sockets, and their remote ends. */
async function connectionOn(server: Upstream, lingerMs: number) {
  const [client, farClient] = await socketPair(server);
  const [upstream, farUpstream] = await socketPair(server);
  farClient.pause();
  const stats = newTargetStats();
  const { promise: closed, resolve: onClosed } = Promise.withResolvers<void>();
  const connection = new PortableConnection(client, {
    header: Buffer.alloc(0),
    firstBytesMs: 5,
    lingerMs,
    stats,
    onClosed,
  });
  connection.connected(upstream);
  return { connection, client, upstream, farClient, farUpstream, stats, closed };
}

test("a connection that is cut while the upstream's FIN is queued behind unread bytes sends no FIN", async () => {
  await using server = await Upstream.listen();
  const { connection, client, upstream, farClient, farUpstream, stats, closed } = await connectionOn(server, 10_000);
  // Sends in small steps until the kernel accepts no more for the client. Later bytes wait in the stream, but are too
  // few to pause the upstream.
  const piece = randomBytes(8 * 1024);
  for (let sent = 0; client.writableLength === 0; sent += piece.length) {
    farUpstream.write(piece);
    while (stats.upstreamBytes < sent + piece.length) await soon(once(upstream, "data"), "a piece to arrive");
  }
  farUpstream.end();
  await soon(once(upstream, "end"), "the upstream's end to arrive");
  assert.ok(client.writableLength > 0);
  connection.cut("idle-timeout");
  assert.equal((await endOf(farClient)).how, "ECONNRESET");
  await soon(closed, "the connection to close");
  assert.equal(stats.cut["idle-timeout"], 1);
});

test("a client that keeps sending after its upstream has answered and closed is cut after the linger time", {
  timeout: 60_000,
}, async (t) => {
  await using server = await Upstream.listen();
  const { connection, client, upstream, farClient, farUpstream, stats, closed } = await connectionOn(server, 150);
  farUpstream.end("413");
  await once(farUpstream, "finish");
  const upload = setInterval(() => farClient.write("more"), 2);
  try {
    assert.equal((await firstChunk(farClient)).toString(), "413");
    await once(client, "data");
    const upstreamGone = new Promise((resolve) => upstream.once("close", resolve));
    t.mock.timers.enable({ apis: ["setTimeout"] });
    farUpstream.resetAndDestroy();
    await upstreamGone;
    connection.active = false;
    await once(client, "data");
    assert.equal(connection.active, false, "bytes that are dropped are no traffic");
    t.mock.timers.tick(149);
    assert.equal(client.destroyed, false);
    t.mock.timers.tick(1);
    await closed;
    assert.equal(stats.cut["upstream-reset"], 1);
  } finally {
    clearInterval(upload);
  }
});

test("a connection that is cut while a FIN is being forwarded closes both sockets with a reset", async () => {
  await using server = await Upstream.listen();
  const { connection, client, farClient, farUpstream, closed } = await connectionOn(server, 10_000);
  // Cuts after the stream has requested the shutdown, and before libuv performs it in the same turn of the event
  // loop.
  client.once("end", () => process.nextTick(() => connection.cut("idle-timeout")));
  const farEnd = endOf(farClient.resume());
  farClient.end("the last");
  farUpstream.resume();
  await soon(closed, "the connection to close");
  assert.equal((await farEnd).how, "ECONNRESET");
});
