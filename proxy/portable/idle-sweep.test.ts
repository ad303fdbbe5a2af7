import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { stopTime } from "#test/fakes/stopped-time.ts";
import type { PortableConnection } from "./connection.ts";
import { startIdleSweep } from "./idle-sweep.ts";

interface Fake {
  active: boolean;
  isHalfClosed: boolean;
  cut(cause: string): void;
  halfClosedTimedOut(): void;
}

function start(t: TestContext, idleTimeoutMs: number, halfClosedMs: number) {
  const pass = stopTime(t, 1_000);
  const timers = t.mock.method(globalThis, "setInterval");
  const ended: [string, string, number][] = [];
  const begun = performance.now();
  const connections = new Map<Fake, string>();
  const connect = (name: string, isHalfClosed = false): Fake => {
    const end = (how: string) => {
      ended.push([name, how, performance.now() - begun]);
      connections.delete(connection);
    };
    const connection = { active: true, isHalfClosed, cut: end, halfClosedTimedOut: () => end("half-closed") };
    connections.set(connection, name);
    return connection;
  };
  const stop = startIdleSweep(
    { idleTimeoutMs, halfClosedMs },
    connections as unknown as ReadonlyMap<PortableConnection, unknown>,
  );
  t.after(stop);
  return { pass, ended, connect, stop, periods: () => timers.mock.calls.map(({ arguments: [, ms] }) => ms) };
}

test("a connection is cut after the idle timeout, counted from the sweep that saw its last traffic", async (t) => {
  const { pass, ended, connect } = start(t, 10_000, 0);
  connect("a");
  const busy = connect("b", true);
  await pass(5_000);
  busy.active = true;
  await pass(5_000);
  assert.deepEqual(ended, []);
  await pass(1_000);
  assert.deepEqual(ended, [["a", "idle-timeout", 11_000]]);
  await pass(5_000);
  assert.deepEqual(ended.slice(1), [["b", "idle-timeout", 16_000]]);
});

test("a half-closed connection ends after its shorter timeout, the others stay", async (t) => {
  const { pass, ended, connect } = start(t, 10_000, 4_000);
  connect("half", true);
  connect("open");
  await pass(4_000);
  assert.deepEqual(ended, []);
  await pass(1_000);
  assert.deepEqual(ended, [["half", "half-closed", 5_000]]);
  await pass(6_000);
  assert.deepEqual(ended.slice(1), [["open", "idle-timeout", 11_000]]);
});

for (const [idleMs, halfClosedMs, periodMs] of [
  [10_000, 4_000, 1_000],
  [3_999, 10_000, 999.75],
  [0, 400, 100],
  [200, 0, 50],
  [0, 0, undefined],
] as const) {
  const sweeps = periodMs === undefined ? "no sweeps" : `a sweep every ${periodMs} ms`;
  test(`timeouts of ${idleMs} and ${halfClosedMs} ms mean ${sweeps}`, (t) => {
    const { periods } = start(t, idleMs, halfClosedMs);
    assert.deepEqual(periods(), periodMs === undefined ? [] : [periodMs]);
  });
}

test("once stopped there are no sweeps", async (t) => {
  const { pass, ended, connect, stop } = start(t, 1_000, 0);
  connect("a");
  stop();
  await pass(60_000);
  assert.deepEqual(ended, []);
});
