import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { type Case, Rig, until } from "./rig.ts";
import { digest, endOf, randomBytes, take, takeHeader } from "./streams.ts";

const ANSWER = randomBytes(100_000);

/** A client that sends a request and never closes. Its upstream answers and sends a FIN. */
async function answered(rig: Rig): Promise<{ client: Socket; upstream: Socket }> {
  const client = (await rig.connect()).pause();
  client.write("GET /");
  const upstream = await rig.upstream.next();
  await takeHeader(upstream);
  upstream.end(ANSWER);
  return { client, upstream };
}

function ended(rig: Rig): number {
  return rig.stats().cut["half-closed-timeout"];
}

export const halfClosedCases: readonly Case[] = [
  [
    "clients that ignore their upstream's FIN free all places of their source, and the answer still arrives whole",
    async (make) => {
      const places = 4;
      const limits = { maxConnectionsPerSource: places, halfClosedMs: 200 };
      await using rig = await Rig.start(make, { limits });
      const held = [];
      for (let place = 0; place < places; place += 1) held.push(await answered(rig));
      assert.equal((await endOf(rig.dial())).how, "ECONNRESET", "no place is left");
      await until(() => rig.stats().active === 0, "the places to be free");
      assert.equal(ended(rig), places);
      for (const { client, upstream } of held) {
        assert.equal(
          (await endOf(upstream)).how,
          "ECONNRESET",
          "what the client might still have sent is not complete",
        );
        const ending = await endOf(client);
        assert.deepEqual([ending.how, digest(ending.bytes)], ["FIN", digest(ANSWER)]);
      }
      await answered(rig);
    },
  ],

  [
    "a client that still sends after its upstream's FIN stays, as does one whose upstream is silent after its own FIN",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { halfClosedMs: 1000 } });
      const asking = await rig.connect();
      asking.end("GET /");
      const slow = await rig.upstream.next();
      await takeHeader(slow);
      const sending = await answered(rig);
      const upload = setInterval(() => sending.client.write("more"), 5);
      try {
        await answered(rig);
        await until(() => ended(rig) > 0, "a third client to be ended");
        assert.equal((await take(sending.upstream, 9)).toString(), "GET /more");
      } finally {
        clearInterval(upload);
      }
      // It is counted a moment before both of its sockets are closed.
      await until(() => rig.stats().active < 3, "the third client to be gone");
      assert.deepEqual([ended(rig), rig.stats().active], [1, 2]);
      slow.end("answer");
      assert.equal((await endOf(asking)).bytes.toString(), "answer");
    },
  ],

  [
    "silence before the upstream's FIN does not count",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { halfClosedMs: 400 } });
      const quiet = await rig.connect();
      quiet.write("GET /");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      await answered(rig);
      await until(() => ended(rig) === 1, "a client as old to be ended");
      const ending = endOf(quiet);
      upstream.end("answer");
      assert.equal((await ending).bytes.toString(), "answer");
      quiet.end("the last");
      assert.match((await endOf(upstream)).bytes.toString(), /the last$/);
      await rig.idle();
      assert.equal(ended(rig), 1);
    },
  ],
];
