import assert from "node:assert/strict";
import { test } from "node:test";
import { type Step, World } from "#test/fakes/relay-world.ts";

/*
 * Clients that ignore their upstream's FIN, on the fake kernel's clock.
 */
const HALF_CLOSED_MS = 1000;
const TURNS: readonly Step[] = [
  ["turn", 0, 0],
  ["turn", 0, 0],
  ["turn", 0, 0],
];
/** Passes 260 ms. */
const WAIT: Step = ["sweep", 0, 1];
const READ: Step = ["read", 0, 1_000_000];
/** Connects a client for which the kernel buffers 4 KiB. */
const CONNECT: readonly Step[] = [["open", 2, 0], ["clientSend", 0, 500], ...TURNS, ["connect", 0, 0], ...TURNS, READ];

function worldAfter(...steps: Step[]): World {
  const world = new World({
    chance: (below) => below - 1,
    faults: () => false,
    near: 2,
    isCalm: true,
    idleTimeoutMs: 60_000,
    halfClosedMs: HALF_CLOSED_MS,
  });
  play(world, ...CONNECT, ...steps);
  return world;
}

function play(world: World, ...steps: Step[]): void {
  for (const step of steps) world.step(step);
}

/** How the client's connection has ended so far, and how many were ended by the timeout. */
function ending(world: World): readonly [string | undefined, number] {
  return [world.clients[0]?.socket.goneBy, world.stats().cut["half-closed-timeout"]];
}

test("the timeout starts at the FIN, whatever the silence before it, and restarts at each byte of the client", () => {
  const world = worldAfter(READ, WAIT, WAIT, WAIT, WAIT, WAIT, WAIT, ["upstreamEnd", 0, 0], ...TURNS, WAIT, WAIT, WAIT);
  assert.deepEqual(ending(world), [undefined, 0]);
  play(world, ["clientSend", 0, 10], ...TURNS, WAIT, WAIT, WAIT);
  assert.deepEqual(ending(world), [undefined, 0]);
  play(world, WAIT, WAIT, WAIT);
  assert.deepEqual(ending(world), ["fin", 1]);
  world.finish("drain");
});

test("a client that reads nothing more is reset, because the answer is not complete", () => {
  const world = worldAfter(["upstreamSend", 0, 16_000], ["upstreamEnd", 0, 0], ...TURNS, WAIT, WAIT, WAIT);
  assert.equal(world.upstreams[0]?.socket.taken, 16_000);
  // Each time the client reads the kernel's bytes, and the engine reads nothing from either side.
  for (let times = 0; times < 2; times += 1) {
    play(world, READ, ...TURNS, WAIT, WAIT, WAIT);
    assert.deepEqual(ending(world), [undefined, 0], "a slow reader stays");
  }
  play(world, WAIT, WAIT, WAIT);
  assert.deepEqual(ending(world), ["reset", 1]);
  world.finish("drain");
});

test("bytes that are dropped because the upstream is gone do not keep alive a client that reads nothing", () => {
  const world = worldAfter(["upstreamSend", 0, 16_000], ["upstreamEnd", 0, 0], ...TURNS);
  play(world, ["upstreamReset", 0, 0], ...TURNS);
  for (let times = 0; times < 8; times += 1) play(world, ["clientSend", 0, 1], ...TURNS, WAIT);
  assert.ok((world.clients[0]?.socket.taken ?? 0) > 500, "they are read");
  assert.deepEqual(ending(world), ["reset", 1]);
  world.finish("drain");
});

test("without a FIN of the upstream only the idle timeout applies", () => {
  const world = worldAfter(["clientEnd", 0, 0], ...TURNS, ...Array.from({ length: 20 }, () => WAIT));
  assert.deepEqual(ending(world), [undefined, 0]);
  play(world, ...Array.from({ length: 240 }, () => WAIT));
  assert.deepEqual(ending(world), ["reset", 0]);
  assert.equal(world.stats().cut["idle-timeout"], 1);
  world.finish("drain");
});
