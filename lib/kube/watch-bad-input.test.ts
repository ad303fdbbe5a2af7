import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { watching } from "#test/fakes/watching.ts";
import type { Query } from "./paths.ts";
import { KubeStatusError } from "./status.ts";
import type { StreamEnd, StreamOptions } from "./stream.ts";

// Bad answers that an API server may give for a long time, and a clock that somebody sets. The last good state stays,
// one log line reports the reason, the counters for the metrics continue, and attempts stay few.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const status = (code: number, retryAfterMs?: number) =>
  new KubeStatusError("GET", code, { message: "refused", ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });

/** A watch with its real timings. It has listed one object and follows. */
async function followed(t: TestContext) {
  const pass = stopTime(t, 250);
  const refused: { list: Error | undefined; watch: Error | undefined } = { list: undefined, watch: undefined };
  const calls = { lists: 0, watches: 0 };
  const ends: (() => void)[] = [];
  const client = {
    get: async <T>(_path: string, query: Query = {}) => {
      if (query.limit === 1) return { metadata: { resourceVersion: "1000" }, items: [] } as T;
      calls.lists++;
      if (refused.list !== undefined) throw refused.list;
      return { metadata: { resourceVersion: "5" }, items: [{ metadata: { name: "a", resourceVersion: "1" } }] } as T;
    },
    stream: async (_path: string, _query: Query, { signal, onOpen }: StreamOptions) => {
      calls.watches++;
      if (refused.watch !== undefined) throw refused.watch;
      onOpen?.();
      const { promise, resolve, reject } = Promise.withResolvers<StreamEnd>();
      signal.addEventListener("abort", () => reject(signal.reason));
      ends.push(() => resolve("closed"));
      return await promise;
    },
  };
  const timings = { backoffMs: 250, backoffCapMs: 5_000, unavailableCapMs: 30_000, shortMs: 1_000 };
  const seen = watching(client, { timings });
  t.after(() => seen.watcher.stop());
  await pass(2_000);
  assert.equal(seen.watcher.state.following, true);
  const { lists, watches } = calls;
  Object.assign(calls, { lists: lists - 1, watches: watches - 1 });
  return { pass, refused, calls, seen, end: () => ends.at(-1)?.(), state: () => seen.watcher.state };
}

for (const [what, refusal] of [
  ["every watch", { watch: status(410) }],
  ["every list", { list: status(410), watch: status(410) }],
] as const) {
  test(`410 at ${what} for an hour`, async (t) => {
    const { pass, refused, calls, seen, end, state } = await followed(t);
    Object.assign(refused, refusal);
    end();
    await pass(HOUR, 2_500);
    assert.deepEqual([...seen.watcher.objects().keys()], ["a"], "the last good state stays");
    assert.deepEqual(seen.changes, ["+a@1"]);
    assert.deepEqual([state().synced, state().following, state().problem?.code], [true, false, "expired"]);
    assert.deepEqual(
      seen.logs.map(({ message, fields }) => [message, fields.code]),
      [["watch interrupted, will be retried", "expired"]],
    );
    // There is an attempt every 5 s, and each pass of a list has four attempts.
    assert.ok(state().errors > 500 && calls.watches + calls.lists < 5 * 800, JSON.stringify(calls));
    Object.assign(refused, { list: undefined, watch: undefined });
    await pass(10_000);
    assert.deepEqual([state().following, state().problem], [true, undefined]);
    assert.equal(seen.logs.at(-1)?.message, "watch recovered");
  });
}

test("429 with a Retry-After of a minute", async (t) => {
  const { pass, refused, calls, seen, end, state } = await followed(t);
  Object.assign(refused, { list: status(429, MINUTE), watch: status(429, MINUTE) });
  end();
  await pass(10 * MINUTE);
  assert.deepEqual([...seen.watcher.objects().keys()], ["a"], "the last good state stays");
  assert.deepEqual([state().synced, state().following, state().problem?.code], [true, false, "throttled"]);
  assert.equal(seen.logs.length, 1);
  // Each attempt comes after 90 s, the maximum with jitter.
  assert.deepEqual([calls.lists, calls.watches], [0, 7]);
  assert.ok(state().inactiveMs < 3 * MINUTE, "no reason for a restart");
  Object.assign(refused, { list: undefined, watch: undefined });
  await pass(2 * MINUTE);
  assert.deepEqual([state().following, state().problem, seen.changes], [true, undefined, ["+a@1"]]);
});

for (const jump of [HOUR, -HOUR]) {
  test(`a wall clock that jumps by ${jump / HOUR} hour`, async (t) => {
    const { pass, calls, seen, state } = await followed(t);
    const [wall, steady] = [Date.now, performance.now.bind(performance)];
    t.mock.method(Date, "now", () => wall() + jump);
    // Stopped, the steady clock is derived from `Date.now`, so take the jump out again.
    t.mock.method(performance, "now", () => steady() - jump);
    await pass(10_000);
    assert.deepEqual([calls.lists, calls.watches, seen.logs], [0, 0, []], "nothing is listed, opened or logged for it");
    assert.ok(state().following && state().silentMs >= 0 && state().silentMs < MINUTE, String(state().silentMs));
    assert.ok(state().inactiveMs >= 0 && state().inactiveMs < MINUTE, String(state().inactiveMs));
  });
}
