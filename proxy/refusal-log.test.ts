import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, LineLog } from "../test/fakes/clock.ts";
import { QUIET_MS, RefusalLog } from "./refusal-log.ts";

test("a series of refusals is logged when it starts and, with its count, when it is over", async () => {
  const [clock, log] = [new FakeClock(), new LineLog()];
  const refusals = new RefusalLog(log, clock);
  for (let times = 0; times < 500; times += 1) {
    refusals.record("limit-source", { source: `192.0.2.${times % 250}` });
    await clock.pass(100);
  }
  assert.equal(log.lines.length, 1);
  assert.deepEqual(log.lines[0]?.fields, { cause: "limit-source", source: "192.0.2.0" });
  await clock.pass(QUIET_MS - 200);
  assert.equal(log.lines.length, 1);
  await clock.pass(200);
  assert.deepEqual(log.lines[1]?.fields, { cause: "limit-source", refused: 500 });
  assert.equal(clock.pending, 0);
  refusals.record("limit-source", {});
  assert.equal(log.lines.length, 3);
});

test("causes are logged separately", () => {
  const log = new LineLog();
  const refusals = new RefusalLog(log, new FakeClock());
  refusals.record("limit-total", {});
  refusals.record("local-limit", {});
  assert.equal(log.lines.length, 2);
});
