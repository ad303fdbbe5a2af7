import assert from "node:assert/strict";
import { test } from "node:test";
import { type Step, World } from "#test/fakes/relay-world.ts";
import { LINGER_MS } from "../engine.ts";

/*
 * Clients whose upstream has sent its answer and its FIN, and was then reset, on the fake kernel's clock.
 */
const TURNS: readonly Step[] = [
  ["turn", 0, 0],
  ["turn", 0, 0],
  ["turn", 0, 0],
];
const STEP_MS = 520;
const READ: Step = ["read", 0, 1_000_000];

/** A client for which the kernel buffers 4 KiB of the answer, which has this many bytes. */
function lingering(answer: number) {
  const world = new World({ chance: (below) => below - 1, faults: () => false, near: 2, isCalm: true });
  const play = (...steps: readonly Step[]) => {
    for (const step of steps) world.step(step);
  };
  /** Lets time pass. The client sends a byte in each step. */
  const pass = (ms: number) => {
    for (let passed = 0; passed < ms; passed += STEP_MS)
      play(["sweep", 0, STEP_MS / 260], ["clientSend", 0, 1], ["turn", 0, 0]);
  };
  play(["open", 2, 0], ["clientSend", 0, 500], ...TURNS, ["connect", 0, 0], ...TURNS, READ);
  play(["upstreamSend", 0, answer], ["upstreamEnd", 0, 0], ...TURNS, ["upstreamReset", 0, 0], ...TURNS);
  const ending = () => [world.clients[0]?.socket.goneBy, world.stats().cut["upstream-reset"]];
  assert.deepEqual(ending(), [undefined, 0]);
  return { world, play, pass, ending };
}

test("the client's bytes are read and dropped until its FIN, and the answer is complete", () => {
  const { world, play, pass, ending } = lingering(100);
  pass(LINGER_MS / 2);
  assert.ok((world.clients[0]?.socket.taken ?? 0) > 500, "they are read");
  play(READ, ["clientEnd", 0, 0], ...TURNS);
  assert.deepEqual([world.clients[0]?.got, ...ending()], [100, "fin", 0]);
  world.finish("drain");
});

test("a client that sends for 30 s is cut, and another failure of the upstream does not prolong this", () => {
  const { world, pass, ending } = lingering(100);
  pass(LINGER_MS / 2);
  world.upstreams[0]?.socket.edge();
  pass(LINGER_MS / 2 - 2 * STEP_MS);
  assert.deepEqual(ending(), [undefined, 0]);
  pass(3 * STEP_MS);
  assert.deepEqual(ending(), ["reset", 1]);
  world.finish("drain");
});

test("a client that has not read the whole answer after 30 s stays", () => {
  const { world, play, pass, ending } = lingering(16_000);
  pass(LINGER_MS + STEP_MS);
  assert.deepEqual(ending(), [undefined, 0]);
  play(READ, ...TURNS, READ, ...TURNS, READ, ...TURNS, READ, ...TURNS, READ);
  assert.equal(world.clients[0]?.got, 16_000);
  pass(LINGER_MS + STEP_MS);
  assert.deepEqual(ending(), ["reset", 1]);
  world.finish("drain");
});
