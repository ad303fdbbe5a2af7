import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { TLV_TYPE } from "../proxy-header.ts";
import { type Case, DECLARED_PORT, pause, Rig, type RigOptions } from "./rig.ts";
import { endOf, firstChunk, randomBytes, take, takeHeader } from "./streams.ts";

/** The header that a relayed connection must have, with any engine. */
async function checkHeader(rig: Rig, client: Socket, expected: { version: 1 | 2; address: string }): Promise<void> {
  client.write("hello");
  const upstream = await rig.upstream.next();
  const header = await takeHeader(upstream);
  assert.equal(header.version, expected.version);
  assert.deepEqual(header.endpoints, {
    source: { address: expected.address, port: client.localPort },
    destination: { address: expected.address, port: DECLARED_PORT },
  });
  assert.equal((await take(upstream, 5)).toString(), "hello");
}

function writes(title: string, options: RigOptions, expected: { version: 1 | 2; address: string }): Case {
  return [
    title,
    async (make) => {
      await using rig = await Rig.start(make, options);
      await checkHeader(rig, await rig.connect(), expected);
    },
  ];
}

export const headerCases: readonly Case[] = [
  writes("writes a v1 header over IPv4", { protocol: "v1" }, { version: 1, address: "127.0.0.1" }),
  writes("writes a v2 header over IPv4", { protocol: "v2" }, { version: 2, address: "127.0.0.1" }),
  writes(
    "writes a v1 header over IPv6",
    { protocol: "v1", address: "::1", upstreamHost: "::1" },
    { version: 1, address: "::1" },
  ),
  writes("writes a v2 header over IPv6", { protocol: "v2", address: "::1" }, { version: 2, address: "::1" }),
  writes(
    "writes an IPv4 client of a `::` listener as IPv4, v1",
    { address: "::" },
    { version: 1, address: "127.0.0.1" },
  ),
  writes(
    "writes an IPv4 client of a `::` listener as IPv4, v2",
    { address: "::", protocol: "v2" },
    { version: 2, address: "127.0.0.1" },
  ),

  [
    "adds the checksum and a unique id to each v2 header, and neither to v1",
    async (make) => {
      const tlvs = { crc32c: true, uniqueId: true };
      await using rig = await Rig.start(make, { protocol: "v2", tlvs });
      const ids: string[] = [];
      for (let round = 0; round < 2; round += 1) {
        const client = await rig.connect();
        client.write("x");
        // The parser rejects a header with a wrong checksum.
        const header = await takeHeader(await rig.upstream.next());
        assert.deepEqual(
          header.tlvs.map(({ type }) => type),
          [TLV_TYPE.uniqueId, TLV_TYPE.crc32c],
        );
        ids.push(Buffer.from(header.tlvs[0]?.value ?? []).toString());
      }
      for (const id of ids) assert.match(id, /^[0-9a-f-]{36}$/);
      assert.notEqual(ids[0], ids[1]);
      await rig.engine.update(rig.relaySpec({ protocol: "v1" }));
      const client = await rig.connect();
      client.write("x");
      assert.equal((await takeHeader(await rig.upstream.next())).version, 1);
    },
  ],

  [
    "writes no header for protocol none",
    async (make) => {
      await using rig = await Rig.start(make, { protocol: "none" });
      const client = await rig.connect();
      client.end("hello");
      const ending = await endOf(await rig.upstream.next());
      assert.deepEqual([ending.how, ending.bytes.toString()], ["FIN", "hello"]);
    },
  ],

  [
    "sends the header together with first bytes that arrive shortly after the connection",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { firstBytesMs: 2000 } });
      const client = await rig.connect();
      // Reads from the start. Otherwise the kernel could merge separate writes, which would then look like one.
      const chunk = firstChunk(await rig.upstream.next());
      await pause(30);
      client.write("GET / HTTP/1.1\r\n");
      assert.match((await chunk).toString(), /^PROXY TCP4 [^\r]*\r\nGET \/ HTTP\/1\.1\r\n$/);
    },
  ],

  [
    "sends the header together with first bytes that arrived before the upstream was connected",
    async (make) => {
      await using rig = await Rig.start(make, { protocol: "v2", limits: { firstBytesMs: 2000 } });
      for (let round = 0; round < 20; round += 1) {
        const client = rig.dial();
        client.write("first");
        const header = await takeHeader(await rig.upstream.next());
        assert.equal(header.alone, false);
      }
    },
  ],

  [
    "sends the header alone to an upstream that speaks first, and relays its greeting",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      const upstream = await rig.upstream.next();
      assert.equal((await takeHeader(upstream)).alone, true);
      upstream.write("220 ready\r\n");
      assert.equal((await firstChunk(client)).toString(), "220 ready\r\n");
      client.end("QUIT\r\n");
      assert.equal((await endOf(upstream)).bytes.toString(), "QUIT\r\n");
    },
  ],

  [
    "relays a greeting that arrives before the header is sent",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { firstBytesMs: 300 } });
      const client = await rig.connect();
      const upstream = await rig.upstream.next();
      upstream.write("220 ready\r\n");
      assert.equal((await firstChunk(client)).toString(), "220 ready\r\n");
      client.write("EHLO");
      await takeHeader(upstream);
      assert.equal((await take(upstream, 4)).toString(), "EHLO");
    },
  ],

  [
    "sends header and FIN for a client that ends without a byte, and still relays the answer",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { firstBytesMs: 2000 } });
      const client = await rig.connect();
      client.end();
      const upstream = await rig.upstream.next();
      assert.equal((await takeHeader(upstream)).alone, true);
      assert.deepEqual(await endOf(upstream), { how: "FIN", bytes: Buffer.alloc(0) });
      upstream.end("bye");
      assert.equal((await endOf(client)).bytes.toString(), "bye");
      await rig.idle();
    },
  ],

  [
    "sends the header once and first, even if the client sends single bytes",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { firstBytesMs: 1 } });
      const client = await rig.connect();
      const payload = randomBytes(400);
      const upstream = await rig.upstream.next();
      const ending = takeHeader(upstream).then(() => endOf(upstream));
      for (const byte of payload) {
        client.write(Uint8Array.of(byte));
        await new Promise(setImmediate);
      }
      client.end();
      assert.deepEqual(await ending, { how: "FIN", bytes: payload });
    },
  ],
];
