import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { pause, soon, Upstream, until } from "../conformance/rig.ts";
import { endOf, randomBytes } from "../conformance/streams.ts";
import { newTargetStats } from "../stats.ts";
import { Connection } from "./connection.ts";

/** Both ends of one TCP connection on loopback. */
async function socketPair(server: Upstream): Promise<[near: Socket, far: Socket]> {
  const far = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  far.on("error", () => {});
  await once(far, "connect");
  return [(await server.next()).resume(), far];
}

test("a connection that is cut while the upstream's end waits behind bytes the client does not read shows no FIN", async () => {
  await using server = await Upstream.listen();
  const [client, farClient] = await socketPair(server);
  const [upstream, farUpstream] = await socketPair(server);
  farClient.pause();
  const stats = newTargetStats();
  const closed = Promise.withResolvers<void>();
  const header = Buffer.alloc(0);
  const connection = new Connection(client, { header, firstBytesMs: 5, stats, onClosed: () => closed.resolve() });
  connection.connected(upstream);
  // Little by little, until the kernel takes no more for the client: from then on bytes wait in the stream, not yet enough to pause the upstream.
  const piece = randomBytes(8 * 1024);
  for (let sent = 0; client.writableLength === 0; sent += piece.length) {
    farUpstream.write(piece);
    await until(() => stats.upstreamBytes >= sent + piece.length, "a piece to arrive");
  }
  farUpstream.end();
  await pause(30);
  assert.ok(client.writableLength > 0 && !client.isPaused());
  connection.cut("idle-timeout");
  assert.equal((await endOf(farClient)).how, "ECONNRESET");
  await soon(closed.promise, "the connection to close");
  assert.equal(stats.cut["idle-timeout"], 1);
});
