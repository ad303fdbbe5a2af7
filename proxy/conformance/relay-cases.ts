import assert from "node:assert/strict";
import { type Case, pause, Rig, until } from "./rig.ts";
import { digest, endOf, randomBytes, send, take, takeHeader, takenFrom } from "./streams.ts";

const MIB = 1024 * 1024;
/**
 * More than the kernel's socket buffers on both sides of a relay together (at most 4 + 6 MiB per connection by
 * default).
 */
const BEYOND_KERNEL = 64 * MIB;
/** Maximum bytes in flight to a reader that does not read: the socket buffers, and a little in the engine. */
const UNDER_WAY = 28 * MIB;

/** A small random generator, so that a failing run can be repeated from its seed. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

export const relayCases: readonly Case[] = [
  [
    "keeps the client's half-close: the upstream sees FIN and answers afterwards",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      client.end("question");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      assert.deepEqual(await endOf(upstream), { how: "FIN", bytes: Buffer.from("question") });
      await pause(20);
      const answer = randomBytes(MIB);
      upstream.end(answer);
      const ending = await endOf(client);
      assert.equal(ending.how, "FIN");
      assert.equal(digest(ending.bytes), digest(answer));
      await rig.idle();
    },
  ],

  [
    "keeps the upstream's half-close: the client sees FIN and continues to send",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      client.write("hello");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      upstream.end("that is all");
      assert.deepEqual(await endOf(client), { how: "FIN", bytes: Buffer.from("that is all") });
      const rest = randomBytes(MIB);
      const reading = endOf(upstream);
      await pause(20);
      client.end(rest);
      const ending = await reading;
      assert.equal(ending.how, "FIN");
      assert.equal(digest(ending.bytes.subarray(5)), digest(rest));
      await rig.idle();
    },
  ],

  [
    "relays 24 MiB in both directions at once without losing, duplicating or reordering a byte",
    async (make) => {
      await using rig = await Rig.start(make, { protocol: "v2" });
      const [up, down] = [randomBytes(24 * MIB), randomBytes(24 * MIB)];
      const client = await rig.connect();
      const sent = send(client, up, 100_003).then(() => client.end());
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      const answered = send(upstream, down, 65_537).then(() => upstream.end());
      const [atUpstream, atClient] = await Promise.all([endOf(upstream), endOf(client), sent, answered]);
      assert.deepEqual([atUpstream.how, digest(atUpstream.bytes)], ["FIN", digest(up)]);
      assert.deepEqual([atClient.how, digest(atClient.bytes)], ["FIN", digest(down)]);
      await rig.idle();
      assert.equal(rig.stats().clientBytes, up.length);
      assert.equal(rig.stats().upstreamBytes, down.length);
    },
  ],

  [
    "keeps 100 concurrent connections separate",
    async (make) => {
      await using rig = await Rig.start(make);
      rig.upstream.server.on("connection", async (socket) => {
        await takeHeader(socket);
        socket.pipe(socket);
      });
      const echoes = Array.from({ length: 100 }, async (_, index) => {
        const client = await rig.connect();
        const payload = randomBytes(1000 * index + 1);
        client.end(payload);
        const ending = await endOf(client);
        assert.equal(ending.how, "FIN");
        assert.equal(digest(ending.bytes), digest(payload), `connection ${index}`);
      });
      await Promise.all(echoes);
      await rig.idle();
      assert.equal(rig.stats().accepted, 100);
    },
  ],

  [
    "relays random pieces, pauses and ends in any order",
    async (make) => {
      await using rig = await Rig.start(make);
      await Promise.all(
        Array.from({ length: 40 }, async (_, seed) => {
          const next = random(seed + 1);
          const [up, down] = [randomBytes(next(300_000)), randomBytes(next(300_000))];
          const client = await rig.connect();
          // The first bytes identify the seed, since connections may reach the upstream in another order.
          client.write(Uint8Array.of(seed));
          const upstream = await rig.upstream.next();
          await takeHeader(upstream);
          const mark = (await take(upstream, 1))[0];
          const play = async (socket: typeof client, bytes: Buffer): Promise<void> => {
            await pause(next(20));
            await send(socket, bytes, 1 + next(70_000));
            await pause(next(20));
            socket.end();
          };
          const [, , atClient, atUpstream] = await Promise.all([
            play(client, up),
            play(upstream, down),
            endOf(client),
            endOf(upstream),
          ]);
          assert.deepEqual([atClient.how, atUpstream.how], ["FIN", "FIN"]);
          return {
            seed,
            mark,
            up: digest(up),
            down: digest(down),
            atClient: digest(atClient.bytes),
            atUpstream: digest(atUpstream.bytes),
          };
        }),
      ).then((runs) => {
        for (const run of runs) {
          const partner = runs.find((other) => other.seed === run.mark);
          assert.equal(run.atUpstream, partner?.up, `from client ${partner?.seed}`);
          assert.equal(partner?.atClient, run.down, `to client ${partner?.seed}`);
        }
      });
      await rig.idle();
    },
  ],

  [
    "stops reading the upstream while the client does not read, and loses nothing when it resumes",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      client.pause();
      client.write("hello");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      const payload = randomBytes(BEYOND_KERNEL);
      const sent = send(upstream, payload).then(() => upstream.end());
      await settled(() => takenFrom(upstream));
      assert.ok(takenFrom(upstream) < UNDER_WAY, `${takenFrom(upstream)} bytes under way`);
      const ending = await endOf(client);
      await sent;
      assert.equal(ending.how, "FIN");
      assert.equal(digest(ending.bytes), digest(payload));
    },
  ],

  [
    "stops reading the client while the upstream does not read, and loses nothing when it resumes",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      const payload = randomBytes(BEYOND_KERNEL);
      const sent = send(client, payload).then(() => client.end());
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      await settled(() => takenFrom(client));
      assert.ok(takenFrom(client) < UNDER_WAY, `${takenFrom(client)} bytes under way`);
      const ending = await endOf(upstream);
      await sent;
      assert.equal(ending.how, "FIN");
      assert.equal(digest(ending.bytes), digest(payload));
    },
  ],

  [
    "serves others while peers on both sides never read",
    async (make) => {
      await using rig = await Rig.start(make);
      for (const stuck of ["client", "upstream"]) {
        const client = await rig.connect();
        client.pause();
        client.write("x");
        const upstream = await rig.upstream.next();
        await takeHeader(upstream);
        const writer = stuck === "client" ? upstream : client;
        void send(writer, randomBytes(BEYOND_KERNEL)).catch(() => {});
        await settled(() => takenFrom(writer));
      }
      const client = await rig.connect();
      client.end("hello");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      upstream.end("answer");
      assert.equal((await endOf(client)).bytes.toString(), "answer");
    },
  ],

  [
    "serves small requests during a stream at full speed",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      client.write("x");
      const bulk = await rig.upstream.next();
      await takeHeader(bulk);
      const piece = randomBytes(MIB);
      const more = (): void => {
        while (!bulk.destroyed && bulk.write(piece)) if (client.destroyed) return;
      };
      bulk.on("drain", more);
      more();
      client.resume();
      for (let count = 0; count < 20; count += 1) {
        const before = client.bytesRead;
        const small = await rig.connect();
        small.end(`question ${count}`);
        const upstream = await rig.upstream.next();
        await takeHeader(upstream);
        assert.equal((await endOf(upstream)).bytes.toString(), `question ${count}`);
        upstream.end(`answer ${count}`);
        assert.equal((await endOf(small)).bytes.toString(), `answer ${count}`);
        await until(() => client.bytesRead > before + MIB, "the stream to go on meanwhile");
      }
    },
  ],
];

/** Resolves when a count has not changed for 60 ms. */
async function settled(count: () => number): Promise<void> {
  let last = -1;
  let since = Date.now();
  await until(() => {
    if (count() !== last) since = Date.now();
    last = count();
    return Date.now() - since > 60;
  }, "a transfer to stall");
}
