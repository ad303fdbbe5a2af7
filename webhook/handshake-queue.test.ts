import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import type { Server } from "node:https";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { queueHandshakes } from "./handshake-queue.ts";

const HELLO = Buffer.from([22, 3, 1, 0, 4, 1, 0, 0, 0]);
const TIMEOUT_MS = 2_000;

function start() {
  const server = new EventEmitter();
  const started: unknown[] = [];
  server.on("connection", (socket) => {
    started.push(socket);
    server.emit("started");
  });
  const reports: string[] = [];
  queueHandshakes(server as Server, TIMEOUT_MS, (stage) => reports.push(stage));
  const connect = (remoteAddress: string) => {
    const socket = Object.assign(new PassThrough(), { remoteAddress });
    server.emit("connection", socket);
    return socket;
  };
  return { server, started, reports, connect };
}

test("addresses take turns; the next of a crowded address is its oldest or its newest", async (t) => {
  const { server, started, reports, connect } = start();
  t.mock.method(Math, "random", () => started.length % 2);
  const crowd = Array.from({ length: 6 }, () => connect("192.0.2.1"));
  const other = connect("192.0.2.2");
  for (const socket of [...crowd, other]) socket.write(HELLO);
  while (started.length < 7) await once(server, "started");
  const [a, b, c, d, e, f] = crowd;
  const all = [...crowd, other];
  assert.deepEqual(
    started.map((socket) => all.indexOf(socket as typeof other)),
    [a, other, b, f, c, e, d].map((socket) => all.indexOf(socket as typeof other)),
  );
  assert.deepEqual(reports, [...Array(7).fill("waiting"), ...Array(7).fill("begun")]);
});

test("addresses that connect again and again do not keep out one with several waiting connections", async () => {
  const { server, started, connect } = start();
  const several = Array.from({ length: 3 }, () => connect("192.0.2.1"));
  for (const socket of [...several, connect("192.0.2.2"), connect("192.0.2.3")]) socket.write(HELLO);
  while (started.length < 9) {
    await once(server, "started");
    const { remoteAddress = "" } = started.at(-1) as Pick<Socket, "remoteAddress">;
    if (remoteAddress !== "192.0.2.1") connect(remoteAddress).write(HELLO);
  }
  assert.ok(several.every((socket) => started.includes(socket)));
});

test("a connection that waits two seconds for its turn is closed; a handshake that has begun is not", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, started, connect } = start();
  const begun = connect("192.0.2.1");
  begun.write(HELLO);
  await once(server, "started");
  const waiting = connect("192.0.2.1");
  waiting.write(HELLO);
  await new Promise((resolve) => process.nextTick(resolve));
  t.mock.timers.tick(TIMEOUT_MS);
  assert.deepEqual([begun.destroyed, waiting.destroyed, started.length], [false, true, 1]);
});

test("of more than 1,024 waiting connections, the one in the middle of the largest crowd is closed", async () => {
  const { reports, connect } = start();
  const crowd = (count: number) => Array.from({ length: count }, () => connect("192.0.2.1"));
  const all = [...crowd(511), ...Array.from({ length: 3 }, () => connect("192.0.2.2")), ...crowd(511)];
  for (const socket of all) socket.write(HELLO);
  while (reports.length < all.length) await new Promise((resolve) => process.nextTick(resolve));
  assert.deepEqual(
    all.flatMap(({ destroyed }, index) => (destroyed ? [index] : [])),
    [514],
  );
});

test("while clients connect, one of 16 turns starts a handshake: the event loop accepts one per turn", async () => {
  const { started, connect } = start();
  for (const socket of Array.from({ length: 5 }, () => connect("192.0.2.1"))) socket.write(HELLO);
  for (let turn = 0; turn < 3 * 16; turn += 1) {
    connect("192.0.2.2");
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(started.length, 3);
});

test("a client that sends more than its ClientHello before TLS begins is disconnected", async () => {
  const { server, started, reports, connect } = start();
  const [atOnce, later, honest] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(connect);
  atOnce?.write(Buffer.concat([HELLO, Buffer.alloc(1)]));
  later?.write(HELLO);
  while (reports.length === 0) await new Promise((resolve) => process.nextTick(resolve));
  later?.write(Buffer.alloc(1));
  honest?.write(HELLO);
  await once(server, "started");
  assert.deepEqual([atOnce?.destroyed, later?.destroyed, started], [true, true, [honest]]);
});
