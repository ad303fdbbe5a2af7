import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { type Case, pause, Rig, type RigOptions, soon, until } from "./rig.ts";
import { digest, endOf, firstChunk, randomBytes, send, takeHeader } from "./streams.ts";

const MIB = 1024 * 1024;

interface Pair {
  readonly rig: Rig;
  readonly client: Socket;
  readonly upstream: Socket;
}

/** Brings a connection into a state, resets one side, and expects a reset on the other. */
function reset(
  who: "client" | "upstream",
  state: string,
  prepare: (pair: Pair) => Promise<void>,
  options: RigOptions = {},
): Case {
  return [
    `passes on a reset by the ${who} ${state}`,
    async (make) => {
      await using rig = await Rig.start(make, options);
      const client = await rig.connect();
      const upstream = await rig.upstream.next();
      await prepare({ rig, client, upstream });
      const [one, other] = who === "client" ? [client, upstream] : [upstream, client];
      const ending = endOf(other);
      one.resetAndDestroy();
      assert.equal((await ending).how, "ECONNRESET");
      await rig.idle();
      assert.equal(rig.stats().cut[`${who}-reset`], 1);
    },
  ];
}

/** Waits until the engine has seen the connect. An earlier reset would be a failed dial. */
async function connected({ rig }: Pair): Promise<void> {
  await until(() => rig.stats().connectBuckets.some((count) => count > 0), "the engine to be connected");
}

async function relaying({ client, upstream }: Pair): Promise<void> {
  client.write("hello");
  await takeHeader(upstream);
  assert.equal((await firstChunk(upstream)).toString(), "hello");
  upstream.write("welcome");
  assert.equal((await firstChunk(client)).toString(), "welcome");
}

async function clientHalfClosed(pair: Pair): Promise<void> {
  await relaying(pair);
  pair.client.end();
  const ended = once(pair.upstream, "end");
  pair.upstream.resume();
  await ended;
}

async function upstreamHalfClosed(pair: Pair): Promise<void> {
  await relaying(pair);
  pair.upstream.end();
  const ended = once(pair.client, "end");
  pair.client.resume();
  await ended;
}

/** The client does not read, and the upstream writes until the buffers are full. */
async function clientStalled({ client, upstream }: Pair): Promise<void> {
  client.pause();
  client.write("x");
  await takeHeader(upstream);
  void send(upstream, randomBytes(40 * MIB)).catch(() => {});
  await pause(150);
}

export const resetCases: readonly Case[] = [
  reset("client", "before the header has gone out", connected, { limits: { firstBytesMs: 5000 } }),
  reset("upstream", "before the header has gone out", connected, { limits: { firstBytesMs: 5000 } }),
  reset("client", "while bytes are relayed", relaying),
  reset("upstream", "while bytes are relayed", relaying),
  reset("upstream", "after the client's FIN", clientHalfClosed),
  reset("client", "after the upstream's FIN", upstreamHalfClosed),
  reset("client", "that does not read what is sent to it", clientStalled),

  [
    "forwards a reset by the client after the client's FIN, at the latest when the upstream answers",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      const upstream = await rig.upstream.next();
      await clientHalfClosed({ rig, client, upstream });
      client.resetAndDestroy();
      const answering = setInterval(() => upstream.write("answer"), 5);
      // Waits for the close, because the upstream has already seen the client's FIN.
      const closed = new Promise((resolve) => upstream.once("close", resolve));
      await soon(closed, "the upstream to be reset").finally(() => clearInterval(answering));
      // Linux reports EPIPE if a FIN came before the reset.
      assert.match((upstream.errored as NodeJS.ErrnoException | null)?.code ?? "no error", /^(ECONNRESET|EPIPE)$/);
      await rig.idle();
    },
  ],

  [
    "resets a client whose upstream fails mid-stream, instead of ending the answer with a FIN",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      client.write("GET /");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      const reading = endOf(client);
      await send(upstream, randomBytes(3 * MIB));
      upstream.resetAndDestroy();
      const ending = await reading;
      assert.equal(ending.how, "ECONNRESET");
      assert.ok(ending.bytes.length <= 3 * MIB);
      await rig.idle();
    },
  ],

  [
    "delivers an early answer in full even if the upstream does not read the rest of an upload",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      client.pause();
      client.write("POST /");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      const answer = randomBytes(2 * MIB);
      upstream.end(answer);
      await once(upstream, "finish");
      const upload = send(client, randomBytes(8 * MIB)).catch(() => {});
      // A reset discards all bytes that have not been read by then, including those of the answer.
      await until(() => rig.stats().upstreamBytes === answer.length, "the answer to be read");
      await pause(50);
      // The upstream's socket has unread bytes of the upload: closing it makes the kernel answer the rest with a reset.
      upstream.destroy();
      await upload;
      const ending = await endOf(client);
      assert.deepEqual([ending.how, digest(ending.bytes)], ["FIN", digest(answer)]);
      client.end();
      await rig.idle();
    },
  ],

  [
    "resets both sides of a silent connection after the idle timeout, and does not affect a busy one",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { idleTimeoutMs: 600 } });
      const silent = await rig.connect();
      const silentUpstream = await rig.upstream.next();
      await takeHeader(silentUpstream);
      const busy = await rig.connect();
      const busyUpstream = await rig.upstream.next();
      busyUpstream.resume();
      const ticking = setInterval(() => busy.write("."), 30);
      const endings = Promise.all([endOf(silent), endOf(silentUpstream)]);
      const [atClient, atUpstream] = await endings.finally(() => setTimeout(() => clearInterval(ticking), 200));
      assert.deepEqual([atClient.how, atUpstream.how], ["ECONNRESET", "ECONNRESET"]);
      await pause(190);
      assert.equal(busy.destroyed, false);
      assert.equal(rig.stats().cut["idle-timeout"], 1);
    },
  ],

  [
    "forwards the reset of the upstream to a client that did not read for a while, instead of a FIN",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      const upstream = await rig.upstream.next();
      await clientStalled({ rig, client, upstream });
      upstream.resetAndDestroy();
      await pause(30);
      assert.equal((await endOf(client)).how, "ECONNRESET");
      await rig.idle();
    },
  ],

  [
    "resets a connection that is blocked by a client that does not read after the idle timeout",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { idleTimeoutMs: 200 } });
      const client = await rig.connect();
      const upstream = await rig.upstream.next();
      await clientStalled({ rig, client, upstream });
      await rig.idle();
      const [atClient, atUpstream] = await Promise.all([endOf(client), endOf(upstream)]);
      assert.deepEqual([atClient.how, atUpstream.how], ["ECONNRESET", "ECONNRESET"]);
    },
  ],
];
