import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { encodeHeader, V2_SIGNATURE } from "../proxy-header.ts";
import { type Case, Rig, type RigOptions, until } from "./rig.ts";
import { endOf, firstChunk, take } from "./streams.ts";

/** A port that is relayed without a header. A tenant may have created its target. */
const GUARDED: RigOptions = { protocol: "none", refusesClientHeaders: true };

const ENDPOINTS = {
  source: { address: "203.0.113.66", port: 1 },
  destination: { address: "198.51.100.9", port: 443 },
};
const V1 = Buffer.from(encodeHeader("v1", ENDPOINTS));
const V2 = Buffer.from(encodeHeader("v2", ENDPOINTS));
/** Forged headers, each with the length of its signature. */
const FORGED: ReadonlyArray<readonly [header: Buffer, signature: number]> = [
  [V1, "PROXY".length],
  [V2, V2_SIGNATURE.length],
];

function refused(rig: Rig): number {
  return rig.stats().refused["client-header"];
}

/** The bytes that an upstream receives before it is reset. Empty if the proxy has not even connected to it. */
async function received(upstream: Socket | undefined): Promise<Buffer> {
  return upstream === undefined ? Buffer.alloc(0) : (await endOf(upstream)).bytes;
}

export const clientHeaderCases: readonly Case[] = [
  [
    "a client that sends a PROXY header of its own in one piece is reset, and nothing of it arrives",
    async (make) => {
      await using rig = await Rig.start(make, GUARDED);
      for (const [index, [header]] of FORGED.entries()) {
        const client = rig.dial();
        client.write(Buffer.concat([header, Buffer.from("GET / HTTP/1.1\r\n\r\n")]));
        assert.equal((await endOf(client)).how, "ECONNRESET");
        await until(() => refused(rig) === index + 1, "the refusal to be counted");
        await rig.idle();
      }
      for (const socket of rig.upstream.sockets) assert.equal((await received(socket)).length, 0);
      await until(() => rig.lines.some((line) => line.includes("PROXY header")), "the line in the log");
    },
  ],

  [
    "however a forged header is split, the upstream never receives a whole signature",
    async (make) => {
      await using rig = await Rig.start(make, GUARDED);
      for (const [header, signature] of FORGED) {
        for (let split = 1; split < signature; split += 1) {
          const client = await rig.connect();
          client.write(header.subarray(0, split));
          const upstream = await rig.upstream.next();
          // The proxy passes the beginning on at once: the server may wait for it, and the client for an answer.
          assert.deepEqual(await take(upstream, split), header.subarray(0, split));
          const endings = Promise.all([endOf(client), endOf(upstream)]);
          client.write(header.subarray(split));
          const [atClient, atUpstream] = await endings;
          assert.deepEqual([atClient.how, atUpstream.how], ["ECONNRESET", "ECONNRESET"]);
          assert.equal(atUpstream.bytes.length, 0);
        }
      }
      assert.equal(refused(rig), "PROXY".length - 1 + V2_SIGNATURE.length - 1);
      await rig.idle();
    },
  ],

  [
    "a forged header, byte by byte after the server's greeting, is refused at the last byte of its signature",
    async (make) => {
      await using rig = await Rig.start(make, GUARDED);
      for (const [header, signature] of FORGED) {
        const client = await rig.connect();
        const upstream = await rig.upstream.next();
        upstream.write("220 hello");
        assert.equal((await take(client, 9)).toString(), "220 hello");
        for (let at = 0; at < signature - 1; at += 1) {
          client.write(header.subarray(at, at + 1));
          assert.deepEqual(await take(upstream, 1), header.subarray(at, at + 1));
          upstream.write("?");
          assert.equal((await take(client, 1)).toString(), "?");
        }
        const endings = Promise.all([endOf(client), endOf(upstream)]);
        client.write(header.subarray(signature - 1, signature));
        assert.deepEqual(
          (await endings).map(({ how, bytes }) => [how, bytes.length]),
          [
            ["ECONNRESET", 0],
            ["ECONNRESET", 0],
          ],
        );
      }
    },
  ],

  [
    "what only begins like a signature, and a signature later on, are relayed unchanged",
    async (make) => {
      await using rig = await Rig.start(make, GUARDED);
      const harmless = [
        Buffer.from("PROPFIND / HTTP/1.1\r\n\r\n"),
        Buffer.from("\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        Buffer.concat([Buffer.from("E"), V1]),
        Buffer.concat([V1.subarray(0, 4), V2]),
        V1.subarray(0, 4),
        V2.subarray(0, V2_SIGNATURE.length - 1),
        Buffer.from("P"),
      ];
      for (const bytes of harmless) {
        const client = await rig.connect();
        client.write(bytes.subarray(0, 1));
        const upstream = await rig.upstream.next();
        const first = await firstChunk(upstream);
        client.end(bytes.subarray(1));
        assert.deepEqual(Buffer.concat([first, (await endOf(upstream)).bytes]), bytes);
        upstream.end("answer");
        assert.equal((await endOf(client)).bytes.toString(), "answer");
      }
      assert.equal(refused(rig), 0);
      await rig.idle();
    },
  ],

  [
    "where clients may send a header, as behind another load balancer, it is relayed",
    async (make) => {
      await using rig = await Rig.start(make, { protocol: "none" });
      const client = await rig.connect();
      client.end(V2);
      assert.deepEqual((await endOf(await rig.upstream.next())).bytes, V2);
      assert.equal(refused(rig), 0);
    },
  ],
];
