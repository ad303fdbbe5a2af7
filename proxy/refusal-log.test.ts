import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
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
  for (const cause of ["limit-total", "local-limit", "limit-source"] as const) refusals.record(cause, { source: "a" });
  const setting = /proxy\.maxConnections\)|file descriptors|proxy\.maxConnectionsPerSource\)/;
  assert.deepEqual(
    log.lines.map(({ level, fields, message }) => [level, fields, setting.exec(message)?.[0]]),
    [
      ["warn", { cause: "limit-total", source: "a" }, "proxy.maxConnections)"],
      ["warn", { cause: "local-limit", source: "a" }, "file descriptors"],
      ["warn", { cause: "limit-source", source: "a" }, "proxy.maxConnectionsPerSource)"],
    ],
  );
});

test("a series is over ten seconds after its last refusal, and counts all clients", async () => {
  const [clock, log] = [new FakeClock(), new LineLog()];
  const refusals = new RefusalLog(log, clock);
  refusals.record("limit-total", {}, 3);
  await clock.pass(1);
  refusals.record("limit-total", {}, 4);
  await clock.pass(9_999);
  assert.equal(log.lines.length, 1);
  await clock.pass(1);
  assert.deepEqual(log.lines.at(-1), {
    level: "info",
    fields: { cause: "limit-total", refused: 7 },
    message: "refusals with this cause have ended",
  });
});
