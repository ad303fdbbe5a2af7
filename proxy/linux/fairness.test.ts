import assert from "node:assert/strict";
import { test } from "node:test";
import { World } from "#test/fakes/relay-world.ts";

const MIB = 1024 * 1024;

test("a stream that is always readable, to a reader that is never full, does not starve other connections", () => {
  // No faults, and the largest value for each of the kernel's decisions: upstreams answer at once, sockets have the
  // largest buffers.
  const world = new World({ chance: (below) => below - 1, faults: () => false, near: 2, isCalm: true });
  const step = (kind: string, which = 0, amount = 0): void => world.step([kind, which, amount]);
  step("openAndSend", 0, 1);
  for (let turn = 0; turn < 3; turn += 1) step("turn");
  step("read", 0, 10);
  const [bulk] = world.clients;
  assert.ok(bulk?.peer !== undefined);
  bulk.socket.room = Number.MAX_SAFE_INTEGER;
  for (let piece = 0; piece < 64; piece += 1) bulk.peer.send(MIB);
  step("openAndSend", 1, 100);
  for (let turn = 0; turn < 4; turn += 1) step("turn");
  // The header first, then the payload.
  for (let read = 0; read < 2; read += 1) step("read", 0, 1000);
  assert.equal(world.clients[1]?.peer?.got, 100, "the small request has been relayed");
  assert.ok(bulk.socket.outbound.length < 16 * MIB, `${bulk.socket.outbound.length} bytes of the stream went first`);
});
