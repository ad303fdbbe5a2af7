import assert from "node:assert/strict";
import { type Case, Rig, until } from "./rig.ts";
import { endOf, firstChunk } from "./streams.ts";

/** Opens a connection and checks that a byte is relayed in each direction. */
async function served(rig: Rig, localAddress = "127.0.0.1"): Promise<{ end: () => Promise<void> }> {
  const client = await rig.connect({ localAddress });
  client.write("x");
  const upstream = await rig.upstream.next();
  upstream.write("y");
  assert.equal((await firstChunk(client)).toString(), "y");
  return {
    end: async () => {
      const before = rig.stats().active;
      client.resetAndDestroy();
      await until(() => rig.stats().active < before, "the connection to be released");
    },
  };
}

async function refused(rig: Rig, localAddress = "127.0.0.1"): Promise<void> {
  assert.equal((await endOf(rig.dial({ localAddress }))).how, "ECONNRESET");
}

export const limitCases: readonly Case[] = [
  [
    "resets connections over the total limit, logs it once, and serves again below the limit",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { maxConnections: 3 } });
      const [first] = [await served(rig), await served(rig, "127.0.0.2"), await served(rig, "127.0.0.3")];
      await refused(rig);
      await refused(rig, "127.0.0.4");
      assert.equal(rig.stats().refused["limit-total"], 2);
      assert.equal(rig.stats().accepted, 3);
      await until(() => rig.lines.some((line) => line.includes("limit")), "the line in the log");
      assert.equal(rig.lines.filter((line) => line.includes("limit")).length, 1);
      await first.end();
      await served(rig, "127.0.0.4");
    },
  ],

  [
    "resets connections over the limit of one source, and serves others",
    async (make) => {
      await using rig = await Rig.start(make, { address: "::", limits: { maxConnectionsPerSource: 2 } });
      const [first] = [await served(rig, "127.0.0.1"), await served(rig, "127.0.0.1")];
      await refused(rig, "127.0.0.1");
      assert.equal(rig.stats().refused["limit-source"], 1);
      await served(rig, "127.0.0.2");
      await first.end();
      await served(rig, "127.0.0.1");
      await refused(rig, "127.0.0.1");
    },
  ],

  [
    "releases the connection of a client whose upstream refused",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { maxConnectionsPerSource: 1 } });
      const good = rig.spec().upstream;
      await rig.engine.update(rig.relaySpec({ upstream: { addresses: [], port: 1, unresolved: "dns-timeout" } }));
      for (let round = 0; round < 5; round += 1) {
        await refused(rig);
        await rig.idle();
      }
      assert.equal(rig.stats().refused.upstream, 5);
      await rig.engine.update(rig.relaySpec({ upstream: good }));
      await served(rig);
    },
  ],
];
