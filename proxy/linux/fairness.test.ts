import assert from "node:assert/strict";
import { test } from "node:test";
import { World } from "../../test/fakes/relay-world.ts";

const MIB = 1024 * 1024;

test("a stream that is always there to be read, towards a reader that takes everything, leaves others their turn", () => {
  // No fault, and every decision of the kernel the largest: upstreams answer at once, sockets have all the room that they may have.
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
  // The header first, then what follows it.
  for (let read = 0; read < 2; read += 1) step("read", 0, 1000);
  assert.equal(world.clients[1]?.peer?.got, 100, "the small request has gone through");
  assert.ok(bulk.socket.outbound.length < 16 * MIB, `${bulk.socket.outbound.length} bytes of the stream went first`);
});
