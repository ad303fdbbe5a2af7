import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { type GroupWatch, watchGroup } from "./api-discovery.ts";

const EVERY_MS = 15_000;

/**
 * A group whose discovery requests last until the test ends them. `begun` are their start times, `heard` the results
 * that listeners received.
 */
function rig(t: TestContext, everyMs = EVERY_MS) {
  let passed = 0;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(performance, "now", () => passed);
  const begun: number[] = [];
  const heard: number[] = [];
  const gates: PromiseWithResolvers<unknown>[] = [];
  const get = (_path: string, _query: unknown, { signal }: { signal: AbortSignal }) => {
    begun.push(passed);
    const gate = Promise.withResolvers<unknown>();
    signal.addEventListener("abort", () => gate.reject(signal.reason), { once: true });
    gates.push(gate);
    return gate.promise;
  };
  const discovery: GroupWatch = watchGroup({ client: { get: get as never }, group: "example.com", everyMs });
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 1) {
      passed += 1;
      t.mock.timers.tick(1);
    }
    await turn();
  };
  return {
    discovery,
    begun,
    heard,
    pass,
    follow: async () => {
      for (const version of ["v2", "v1"]) discovery.follow([version], (_, begunAt) => heard.push(begunAt));
      await pass(1);
    },
    end: async () => {
      gates.shift()?.resolve({ versions: [] });
      await turn();
    },
    fail: async () => {
      gates.shift()?.reject(new Error("refused"));
      await turn();
    },
  };
}

test("a group is polled once for all followers, then at an interval from the start of each poll", async (t) => {
  const { begun, heard, pass, follow, end } = rig(t);
  await pass(100);
  await follow();
  assert.deepEqual([begun, heard], [[101], []]);
  await pass(400);
  await end();
  assert.deepEqual(heard, [101, 101]);
  await pass(EVERY_MS - 401);
  assert.equal(begun.length, 1);
  await pass(1);
  assert.deepEqual(begun, [101, 101 + EVERY_MS]);
});

test("a failed poll is retried after 2 s or a shorter interval; it leaves a problem, and no result", async (t) => {
  for (const [everyMs, retryMs] of [
    [EVERY_MS, 2_000],
    [1_000, 1_000],
  ] as const) {
    t.mock.reset();
    const { discovery, begun, heard, pass, follow, end, fail } = rig(t, everyMs);
    await follow();
    await fail();
    assert.deepEqual([discovery.problem, heard], [{ code: "discovery-failed", text: "refused" }, []]);
    await pass(retryMs - 1);
    assert.equal(begun.length, 1);
    await pass(1);
    assert.equal(begun.length, 2);
    await fail();
    await pass(retryMs);
    assert.equal(begun.length, 3);
    await end();
    assert.deepEqual([discovery.problem, heard], [undefined, [begun[2], begun[2]]]);
    await discovery.stop();
  }
});

test("pollSoon moves the next poll forward, and a later one does not delay it", async (t) => {
  const { discovery, begun, pass, follow, end } = rig(t);
  await follow();
  await end();
  discovery.pollSoon(1_000);
  discovery.pollSoon(3_000);
  await pass(999);
  assert.equal(begun.length, 1);
  await pass(1);
  await end();
  assert.deepEqual(begun, [1, 1_001]);
  await pass(EVERY_MS - 1);
  assert.equal(begun.length, 2, "the interval counts from that look");
  await pass(1);
  assert.equal(begun.length, 3);
});

test("pollSoon during a poll causes another one after it, never two at the same time", async (t) => {
  const { discovery, begun, heard, pass, follow, end } = rig(t);
  await follow();
  discovery.pollSoon(100);
  await pass(5_000);
  assert.deepEqual(begun, [1]);
  await end();
  await pass(1);
  assert.equal(begun.length, 2);
  await end();
  assert.deepEqual(heard, [1, 1, begun[1], begun[1]]);
});

test("pollSoon shortens the wait after a failed poll", async (t) => {
  const { discovery, begun, pass, follow, fail } = rig(t);
  await follow();
  await fail();
  discovery.pollSoon(10);
  await pass(10);
  assert.equal(begun.length, 2);
});

test("stopping ends polls and reports, and aborts the poll in progress", async (t) => {
  const { discovery, begun, heard, pass, follow, end } = rig(t);
  await follow();
  await end();
  await pass(EVERY_MS);
  assert.equal(begun.length, 2);
  discovery.pollSoon(10);
  assert.equal(await isSettled(discovery.stop()), true);
  discovery.pollSoon(10);
  await pass(2 * EVERY_MS);
  assert.deepEqual([begun.length, heard], [2, [1, 1]]);
});
