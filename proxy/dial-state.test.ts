import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { type DialPhase, DialState, MIN_LOG_INTERVAL_MS } from "./dial-state.ts";

const OK: DialPhase = { state: "ok" };
const REFUSED: DialPhase = { state: "failing", cause: "connection-refused", detail: "connect ECONNREFUSED" };
const TIMEOUT: DialPhase = { state: "failing", cause: "timeout", detail: "no answer" };

function setUp() {
  const [clock, log] = [new FakeClock(), new LineLog()];
  return { clock, log, state: new DialState({ target: "a", port: 443 }, log, clock) };
}

test("a failure is logged once, with target and cause, and so is the recovery", async () => {
  const { clock, log, state } = setUp();
  for (let times = 0; times < 100; times += 1) state.set(REFUSED);
  assert.equal(log.lines.length, 1);
  assert.equal(log.lines[0]?.level, "warn");
  assert.deepEqual(log.lines[0]?.fields, {
    target: "a",
    port: 443,
    cause: "connection-refused",
    err: "connect ECONNREFUSED",
  });
  await clock.pass(MIN_LOG_INTERVAL_MS);
  for (let times = 0; times < 100; times += 1) state.set(OK);
  assert.deepEqual(
    log.lines.map(({ level }) => level),
    ["warn", "info"],
  );
});

test("a different cause counts as a change", async () => {
  const { clock, log, state } = setUp();
  state.set(REFUSED);
  await clock.pass(MIN_LOG_INTERVAL_MS);
  state.set(TIMEOUT);
  assert.equal(log.lines.length, 2);
});

test("the first success of an upstream that never failed is not logged", () => {
  const { log, state } = setUp();
  state.set(OK);
  assert.deepEqual([log.lines.length, state.phase.state], [0, "ok"]);
});

test("an upstream that fails every other time is logged once in ten seconds, and in its last state", async () => {
  const { clock, log, state } = setUp();
  for (let round = 0; round < 200; round += 1) {
    state.set(round % 2 === 0 ? REFUSED : OK);
    await clock.pass(100);
  }
  assert.ok(log.lines.length <= 3, `${log.lines.length} lines in 20 s`);
  state.set(REFUSED);
  await clock.pass(2 * MIN_LOG_INTERVAL_MS);
  assert.equal(log.lines.at(-1)?.level, "warn");
  state.set(OK);
  await clock.pass(2 * MIN_LOG_INTERVAL_MS);
  assert.equal(log.lines.at(-1)?.level, "info");
});

test("since is the time when the state was entered, regardless of what was logged", async () => {
  const { clock, state } = setUp();
  state.set(REFUSED);
  const entered = clock.now();
  await clock.pass(5000);
  state.set(REFUSED);
  assert.equal(state.since, entered);
  state.set(OK);
  assert.equal(state.since, entered + 5000);
});
