import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import { pollDaemonSet } from "./daemon-set-poll.ts";

const DAEMON_SETS = "/apis/apps/v1/namespaces/own/daemonsets";
const DAEMON_SET = `${DAEMON_SETS}/switchback-agent`;
const LEAVING = { metadata: { uid: "u1", annotations: { "switchback.dev/leaving": "true" } } };

/** Shortest interval between two reads. `random` takes nothing off it here. */
const INTERVAL_MS = 10_000;

async function start(t: TestContext, daemonSet?: object) {
  const pass = stopTime(t, 100);
  const kube = new MemoryKube();
  if (daemonSet !== undefined) kube.put(DAEMON_SET, daemonSet);
  const log = new LineLog();
  let changes = 0;
  const timeouts: unknown[] = [];
  /** The media type of each read, undefined for the whole object. */
  const accepted: Array<string | undefined> = [];
  const client: typeof kube.client = {
    ...kube.client,
    get: (path, query, options) => {
      if (path === DAEMON_SET) {
        timeouts.push(options?.timeoutMs);
        accepted.push(options?.accept);
      }
      return kube.client.get(path, query, options);
    },
  };
  const uninstall = pollDaemonSet({
    client,
    namespace: "own",
    random: () => 0,
    log,
    onChange: () => {
      changes += 1;
    },
  });
  t.after(() => uninstall.stop());
  await settled();
  const state = () => [uninstall.uninstalling, changes];
  const reads = () => kube.reads.length;
  return { kube, log, uninstall, state, timeouts, accepted, reads, pass };
}

for (const [what, metadata, isLeaving] of [
  ["that stays", { annotations: { note: "x" } }, false],
  ["with another value of the annotation", { annotations: { "switchback.dev/leaving": "false" } }, false],
  ["with the annotation", { annotations: { "switchback.dev/leaving": "true" } }, true],
  ["that is being deleted", { deletionTimestamp: "2026-01-01T00:00:00Z" }, true],
] as const) {
  test(`a DaemonSet ${what} means ${isLeaving ? "" : "no "}uninstall`, async (t) => {
    const { uninstall, state } = await start(t, { metadata: { uid: "u1", ...metadata } });
    assert.deepEqual(state(), [isLeaving, isLeaving ? 1 : 0]);
    assert.deepEqual(uninstall.daemonSet, { name: "switchback-agent", uid: "u1" });
  });
}

test("a DaemonSet that was never there means nothing and is not read at the end; others are ignored", async (t) => {
  const { kube, uninstall, state, timeouts, pass } = await start(t);
  kube.put(`${DAEMON_SETS}/other`, LEAVING);
  await pass(INTERVAL_MS);
  assert.deepEqual([uninstall.daemonSet, state(), timeouts.length], [undefined, [false, 0], 2]);
  assert.equal(await uninstall.askNow(), false);
  assert.equal(timeouts.length, 2);
});

test("each start or end of the uninstall is detected within ten seconds, and reported and logged once", async (t) => {
  const { kube, log, uninstall, state, pass } = await start(t, { metadata: { uid: "u1" } });
  for (const next of [LEAVING, LEAVING, { metadata: { uid: "u1" } }]) {
    kube.put(DAEMON_SET, next);
    await pass(INTERVAL_MS);
  }
  kube.remove(DAEMON_SET);
  await pass(INTERVAL_MS);
  assert.deepEqual(state(), [true, 3]);
  assert.deepEqual(uninstall.daemonSet, { name: "switchback-agent", uid: "u1" }, "as it was last seen");
  const [removed, cancelled] = ["uninstall: the blocks are removed from the hosts files", "uninstall: cancelled"];
  assert.deepEqual(log.messages, [removed, cancelled, removed]);
});

test("the DaemonSet is read, not watched, by all agents together at most fifty times a second", async (t) => {
  for (const [agents, intervalMs] of [
    [1, 10_000],
    [501, 10_000],
    [2_501, 50_000],
    [100_000, 100_000],
  ] as const) {
    await t.test(`${agents} agents`, async (t) => {
      const { kube, uninstall, reads, pass } = await start(t, { status: { desiredNumberScheduled: agents } });
      assert.equal(uninstall.agents, agents);
      assert.deepEqual(kube.watched, []);
      await pass(intervalMs - 200);
      assert.equal(reads(), 1);
      await pass(200);
      assert.equal(reads(), 2);
    });
  }
});

for (const [what, status, expected] of [
  ["30 of 50", { desiredNumberScheduled: 50, numberReady: 20 }, [50, 30]],
  ["none", { desiredNumberScheduled: 50, numberReady: 50 }, [50, 1]],
  ["an unknown number", undefined, [1, 1]],
] as const) {
  test(`if ${what} of the agents are not ready, ${expected[1]} start, including this one`, async (t) => {
    const { uninstall } = await start(t, { status });
    assert.deepEqual([uninstall.agents, uninstall.starting], expected);
  });
}

test("the first of ten reads requests the status, the others only metadata, which keeps the numbers", async (t) => {
  const { kube, uninstall, accepted, pass } = await start(t, {
    status: { desiredNumberScheduled: 50, numberReady: 20 },
  });
  kube.put(DAEMON_SET, { metadata: {} });
  await pass(9 * INTERVAL_MS);
  assert.deepEqual([uninstall.agents, uninstall.starting], [50, 30]);
  kube.put(DAEMON_SET, { metadata: {}, status: { desiredNumberScheduled: 60, numberReady: 60 } });
  await pass(INTERVAL_MS);
  assert.deepEqual([uninstall.agents, uninstall.starting], [60, 1]);
  assert.deepEqual(
    accepted.map((accept) => accept !== undefined),
    [false, ...Array.from({ length: 9 }, () => true), false],
  );
});

test("a DaemonSet that cannot be read changes nothing, is logged once, and delays nobody", async (t) => {
  const { kube, uninstall, state, log, pass } = await start(t, { metadata: { uid: "u1" } });
  kube.onRead = (path) => {
    throw refusal(path, 500);
  };
  await pass(5 * INTERVAL_MS);
  assert.deepEqual(state(), [false, 0]);
  assert.deepEqual(log.messages, ["DaemonSet: not read, an uninstall is noticed late"]);
  kube.onRead = () => {};
  kube.put(DAEMON_SET, LEAVING);
  await pass(10 * INTERVAL_MS);
  assert.deepEqual(state(), [true, 1]);
  await uninstall.read;
});

test("`read` waits for the first answer, even if it is an error", async (t) => {
  for (const status of [0, 403, 404, 503]) {
    const kube = new MemoryKube();
    kube.put(DAEMON_SET, {});
    const answered = Promise.withResolvers<void>();
    kube.onRead = async (path) => {
      await answered.promise;
      if (status !== 0) throw refusal(path, status);
    };
    const poll = pollDaemonSet({
      client: kube.client,
      namespace: "own",
      random: () => 0,
      log: new LineLog(),
      onChange: () => {},
    });
    t.after(() => poll.stop());
    assert.equal(await isSettled(poll.read), false);
    answered.resolve();
    assert.equal(await isSettled(poll.read), true, String(status));
  }
});

for (const [what, answer, isLeaving] of [
  ["the same DaemonSet", { metadata: { uid: "u1" } }, false],
  ["one of the same name that was made since", { metadata: { uid: "u2" } }, true],
  ["one that is being deleted", { metadata: { uid: "u1", deletionTimestamp: "2026-01-01T00:00:00Z" } }, true],
  ["none", 404, true],
  ["an error", 500, false],
] as const) {
  test(`when the agent stops, ${what} means ${isLeaving ? "" : "no "}uninstall`, async (t) => {
    const { kube, uninstall, state, timeouts } = await start(t, { metadata: { uid: "u1" } });
    timeouts.length = 0;
    // The DaemonSet was not read since that change.
    kube.client.get = async <T>(path: string) => {
      if (typeof answer === "number") throw refusal(path, answer);
      return answer as T;
    };
    assert.equal(await uninstall.askNow(), isLeaving);
    assert.deepEqual([state(), timeouts], [[isLeaving, isLeaving ? 1 : 0], [2_000]]);
    assert.equal(await uninstall.askNow(), isLeaving);
    assert.equal(timeouts.length, isLeaving ? 1 : 2, "what is known is not asked for");
  });
}

for (const status of [401, 403]) {
  test(`when the agent stops, ${status} for four seconds means uninstall: its Role or account is gone`, async (t) => {
    const { kube, uninstall, pass } = await start(t, { metadata: { uid: "u1" } });
    kube.onRead = (path) => {
      throw refusal(path, status);
    };
    const asked = uninstall.askNow();
    await pass(3_900);
    assert.equal(await isSettled(asked), false);
    await pass(200);
    assert.equal(await asked, true);
  });

  test(`when the agent stops, ${status} for a moment means no uninstall`, async (t) => {
    const { kube, uninstall, pass } = await start(t, { metadata: { uid: "u1" } });
    let refused = 0;
    kube.onRead = (path) => {
      refused += 1;
      if (refused <= 3) throw refusal(path, status);
    };
    const asked = uninstall.askNow();
    await pass(3_100);
    assert.deepEqual([await asked, refused], [false, 4]);
  });

  test(`while the agent runs, ${status} means no uninstall`, async (t) => {
    const { kube, state, pass } = await start(t, { metadata: { uid: "u1" } });
    kube.onRead = (path) => {
      throw refusal(path, status);
    };
    await pass(5 * INTERVAL_MS);
    assert.deepEqual(state(), [false, 0]);
  });
}
