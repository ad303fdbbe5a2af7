import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { ipv4, startDnsServer } from "#test/fakes/dns-server.ts";
import { clusterLookup } from "./lookup.ts";

interface Answer {
  /** NOERROR, NXDOMAIN, SERVFAIL. */
  readonly code: 0 | 3 | 2;
  readonly records?: ReadonlyArray<readonly [address: readonly number[], ttl: number]>;
}
const A = 1;
const AAAA = 28;

/** A DNS server that answers questions of each type with `answers`, and the types that it was asked for. */
async function server(t: TestContext, answers: Readonly<Record<number, Answer>>) {
  const socket = createSocket("udp4");
  const asked: number[] = [];
  socket.on("message", (query, { port, address }) => {
    const end = query.indexOf(0, 12) + 5;
    const question = query.subarray(12, end);
    const type = query.readUInt16BE(end - 4);
    asked.push(type);
    const { code, records = [] } = answers[type] ?? { code: 2 };
    const header = Buffer.from([0, 0, 0x81, 0x80 | code, 0, 1, 0, records.length, 0, 0, 0, 0]);
    query.copy(header, 0, 0, 2);
    const rest = records.map(([bytes, ttl]) => {
      const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length, ...bytes]);
      record.writeUInt32BE(ttl, 6);
      return record;
    });
    socket.send(Buffer.concat([header, question, ...rest]), port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  t.after(() => socket.close());
  return { asked, lookup: clusterLookup([`127.0.0.1:${socket.address().port}`]) };
}

test("if a name is absent, or has no address of the family, the answer is empty", async (t) => {
  const { lookup } = await server(t, { [A]: { code: 3 }, [AAAA]: { code: 0 } });
  for (const family of [4, 6] as const) assert.deepEqual(await lookup("a.example.com", family), []);
});

test("of a tenant's name with 4,000 addresses the same 16 are read each time, in whatever order", async (t) => {
  const all = Array.from({ length: 4_000 }, (_, index) => ipv4(`203.0.${index >> 8}.${index & 255}`));
  let turn = 0;
  const dns = await startDnsServer(() => {
    turn += 1_000;
    return [...all.slice(turn % all.length), ...all.slice(0, turn % all.length)];
  });
  t.after(() => dns.close());
  const lookup = clusterLookup([dns.address]);
  const first = await lookup("wide.example.com", 4);
  assert.equal(new Set(first).size, 16);
  assert.deepEqual(await lookup("wide.example.com", 4), first);
});
