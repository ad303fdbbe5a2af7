import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import type { Server } from "node:https";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { queueHandshakes } from "./handshake-queue.ts";

const HELLO = Buffer.from([22, 3, 1, 0, 4, 1, 0, 0, 0]);
const TIMEOUT_MS = 2_000;

/** The server's side of a connection, as far as the queue uses it. */
function connection(remoteAddress: string): PassThrough & Pick<Socket, "remoteAddress"> {
  return Object.assign(new PassThrough(), { remoteAddress });
}

function start() {
  const server = new EventEmitter();
  const started: unknown[] = [];
  server.on("connection", (socket) => {
    started.push(socket);
    server.emit("started");
  });
  const reports: string[] = [];
  queueHandshakes(server as Server, TIMEOUT_MS, {
    onHello: () => reports.push("hello"),
    onStart: () => reports.push("start"),
  });
  const connect = (from: string) => {
    const socket = connection(from);
    server.emit("connection", socket);
    return socket;
  };
  return { server, started, reports, connect };
}

test("the oldest and the newest connection of a crowded address take turns; another address goes first", async () => {
  const { server, started, reports, connect } = start();
  const crowd = Array.from({ length: 6 }, () => connect("192.0.2.1"));
  const other = connect("192.0.2.2");
  for (const socket of [...crowd, other]) socket.write(HELLO);
  while (started.length < 7) await once(server, "started");
  const [a, b, c, d, e, f] = crowd;
  assert.equal(started[0], other);
  assert.deepEqual(
    started.slice(1).map((socket) => crowd.indexOf(socket as (typeof crowd)[number])),
    [a, f, b, e, c, d].map((socket) => crowd.indexOf(socket as (typeof crowd)[number])),
  );
  assert.deepEqual(reports, [...Array(7).fill("hello"), ...Array(7).fill("start")]);
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
