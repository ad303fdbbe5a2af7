import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { watching } from "#test/fakes/watching.ts";
import { KubeStatusError } from "./status.ts";
import type { StreamEnd, StreamOptions } from "./stream.ts";
import type { WatchOptions } from "./watch.ts";

const MINUTE = 60_000;
const LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const WATCH = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

interface Stream {
  readonly query: Record<string, unknown>;
  readonly options: StreamOptions;
  readonly end: (end: StreamEnd) => void;
  readonly fail: (error: Error) => void;
  readonly line: (type: string, name: string | undefined, resourceVersion?: string) => void;
}

interface Call {
  /** Milliseconds since the start. */
  readonly at: number;
  readonly query: Record<string, unknown>;
  readonly options: Record<string, unknown>;
}

const status = (code: number, retryAfterMs?: number) =>
  new KubeStatusError("GET", code, { message: "refused", ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
const metadata = (name: string | undefined, resourceVersion: string) => ({ name, uid: `u-${name}`, resourceVersion });

/** A watch with its real timings. The test controls its lists and streams, and time passes only in `pass`. */
function start(t: TestContext, options: Partial<WatchOptions<string>> = {}) {
  const pass = stopTime(t, MINUTE);
  const begun = performance.now();
  const rig = {
    names: ["a"],
    version: "5",
    answer: undefined as Error | undefined,
    refuses: undefined as Error | undefined,
    newest: "1000",
  };
  const lists: Call[] = [];
  const streams: Stream[] = [];
  const opened: number[] = [];
  const at = () => performance.now() - begun;
  const client = {
    get: async <T>(_path: string, query = {}, read = {}) => {
      lists.push({ at: at(), query, options: { ...read } });
      if (rig.answer !== undefined) throw rig.answer;
      const items = rig.names.map((name) => ({ metadata: metadata(name, "1") }));
      const resourceVersion = "limit" in query && query.limit === 1 ? rig.newest : rig.version;
      return { metadata: { resourceVersion }, items } as T;
    },
    stream: async (_path: string, query: object, stream: StreamOptions) => {
      opened.push(at());
      if (rig.refuses !== undefined) throw rig.refuses;
      const { promise, resolve, reject } = Promise.withResolvers<StreamEnd>();
      stream.signal.addEventListener("abort", () => reject(stream.signal.reason));
      const line: Stream["line"] = (type, name, resourceVersion) =>
        stream.onLine(
          JSON.stringify({ type, object: { metadata: { ...(name && metadata(name, "0")), resourceVersion } } }),
        );
      streams.push({ query: { ...query }, options: stream, end: resolve, fail: reject, line });
      stream.onOpen?.();
      return await promise;
    },
  };
  const timings = { backoffMs: 250, backoffCapMs: 5_000, unavailableCapMs: 30_000, shortMs: 1_000 };
  const seen = watching(client, { timings, ...options });
  t.after(() => seen.watcher.stop());
  const stream = (index = -1): Stream => streams.at(index) ?? assert.fail("no stream");
  /** Returns the times between the attempts to open a stream within a period. */
  const delays = async (ms: number, stepMs = 125) => {
    await pass(ms, stepMs);
    return opened.slice(1).map((time, index) => time - (opened[index] ?? 0));
  };
  return { rig, pass, lists, streams, stream, opened, seen, delays, state: () => seen.watcher.state };
}

test("nothing is called before watchObjects has returned", async (t) => {
  const { lists } = start(t);
  assert.equal(lists.length, 0);
  await settled();
  assert.equal(lists.length, 1);
});

test("a list and a watch have their queries and limits", async (t) => {
  const plain = start(t, { random: () => 0 });
  await settled();
  const { signal, ...list } = plain.lists[0]?.options ?? assert.fail();
  assert.ok(signal instanceof AbortSignal);
  assert.deepEqual(plain.lists[0]?.query, {
    limit: 500,
    labelSelector: undefined,
    fieldSelector: undefined,
    continue: undefined,
  });
  assert.deepEqual([list.timeoutMs, list.accept], [30_000, undefined]);
  const selectors = { labelSelector: undefined, fieldSelector: undefined };
  const query = { watch: true, allowWatchBookmarks: true, resourceVersion: "5", timeoutSeconds: 300, ...selectors };
  assert.deepEqual(plain.stream().query, query);
  const { idleMs, maxMs, accept } = plain.stream().options;
  assert.deepEqual([idleMs, maxMs, accept], [90_000, 330_000, undefined]);
});

test("with metadata only, the media types request metadata, even in the check after a watch has ended", async (t) => {
  const { lists, stream, pass } = start(t, {
    metadataOnly: true,
    labelSelector: "a=b",
    fieldSelector: "c=d",
    pageSize: 7,
  });
  await settled();
  assert.deepEqual([lists[0]?.options.accept, stream().options.accept], [LIST, WATCH]);
  assert.deepEqual(lists[0]?.query, { limit: 7, labelSelector: "a=b", fieldSelector: "c=d", continue: undefined });
  await pass(2_000, 1_000);
  stream().end("closed");
  await settled();
  const { accept, timeoutMs } = lists[1]?.options ?? assert.fail();
  assert.deepEqual([accept, timeoutMs], [LIST, 30_000]);
  assert.deepEqual(lists[1]?.query, { labelSelector: "a=b", fieldSelector: "c=d", limit: 1 });
  assert.equal(stream().query.labelSelector, "a=b");
});

test("a watch follows once it has been open for a second", async (t) => {
  const { pass, state } = start(t);
  await pass(999, 999);
  assert.equal(state().following, false);
  await pass(1);
  assert.equal(state().following, true);
});

test("a watch that ended before it was open for a second never counted as following", async (t) => {
  const { pass, state, stream, rig } = start(t);
  await settled();
  rig.refuses = status(500);
  stream().end("idle");
  await pass(2_000, 250);
  assert.equal(state().following, false);
});

test("attempts are 250 ms apart, then the delay doubles each time, up to 5 s", async (t) => {
  const { rig, delays } = start(t);
  rig.refuses = status(500);
  assert.deepEqual(await delays(19_000), [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
});

for (const code of [403, 404]) {
  test(`attempts are a second apart after ${code}, then the delay doubles each time, up to 30 s`, async (t) => {
    const { rig, delays } = start(t);
    rig.refuses = status(code);
    assert.deepEqual(await delays(95_000, 500), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  });
}

test("Retry-After delays the next attempt, and jitter lengthens it by at most a half", async (t) => {
  const { rig, delays } = start(t);
  rig.refuses = status(429, 7_000);
  assert.deepEqual(await delays(22_000, 500), [10_500, 10_500]);
});

for (const [openMs, next] of [
  [59_999, 2_000],
  [60_000, 250],
] as const) {
  test(`after a watch that was open for ${openMs} ms the next delay is ${next} ms`, async (t) => {
    const { rig, pass, stream, opened } = start(t);
    rig.refuses = status(500);
    await pass(750, 250);
    assert.equal(opened.length, 3, "twice it failed");
    rig.refuses = undefined;
    await pass(1_000, 250);
    const before = opened.length;
    await pass(openMs, openMs);
    rig.refuses = status(500);
    stream().fail(new SwitchbackError("kube-unreachable", "reset"));
    await settled();
    await pass(next - 1, next - 1);
    assert.equal(opened.length, before);
    await pass(1);
    assert.equal(opened.length, before + 1);
  });
}

for (const [what, openMs, act, errors] of [
  ["at once without an event is a failure", 999, () => {}, 1],
  ["after a second without an event is none", 1_000, () => {}, 0],
  ["at once with an event is none", 999, (stream: Stream) => stream.line("ADDED", "b", "6"), 0],
  ["at once with a bookmark is a failure", 999, (stream: Stream) => stream.line("BOOKMARK", undefined, "6"), 1],
] as const) {
  test(`a watch that closes ${what}`, async (t) => {
    const { pass, stream, state } = start(t);
    await settled();
    await pass(openMs, openMs);
    act(stream());
    stream().end("closed");
    await settled();
    assert.equal(state().errors, errors);
    if (errors > 0) assert.deepEqual(state().problem?.code, "unreachable");
  });
}

test("an idle watch is reopened at once, and does not count as a failure", async (t) => {
  const { stream, streams, state } = start(t);
  await settled();
  stream().end("idle");
  await settled();
  assert.deepEqual([streams.length, state().errors], [2, 0]);
});

test("everything is listed again after at most an hour, and the watch ends in time for that", async (t) => {
  const { pass, lists, streams, stream } = start(t);
  await settled();
  assert.equal(stream().query.timeoutSeconds, 600);
  await pass(59 * MINUTE + 30_000, 30_000);
  stream().end("closed");
  await settled();
  assert.equal(stream().query.timeoutSeconds, 30);
  assert.equal(streams.length, 2);
  await pass(29_999, 29_999);
  stream().end("closed");
  await settled();
  assert.equal(stream().query.timeoutSeconds, 1);
  await pass(1);
  stream().end("idle");
  await settled();
  const whole = lists.filter(({ query }) => query.limit === 500);
  assert.deepEqual(
    whole.map(({ at }) => at),
    [0, 60 * MINUTE],
  );
});

test("a failed list is retried after a minute, and the watch continues meanwhile", async (t) => {
  const { pass, rig, lists, stream, streams, state } = start(t, { random: () => 0 });
  await settled();
  await pass(30 * MINUTE);
  rig.answer = status(500);
  stream().end("closed");
  await pass(250, 250);
  assert.deepEqual([streams.length, stream().query.resourceVersion], [2, "5"]);
  assert.deepEqual([stream().query.timeoutSeconds, state().errors], [60, 1]);
  rig.answer = undefined;
  rig.version = "9";
  await pass(MINUTE - 250, MINUTE - 250);
  stream().end("closed");
  await settled();
  assert.equal(stream().query.resourceVersion, "9");
  assert.equal(lists.at(-1)?.query.limit, 500);
});

test("an expired version causes a list at the next attempt, and so does invalid data", async (t) => {
  for (const [line, code] of [
    [JSON.stringify({ type: "ERROR", object: { code: 410, reason: "Expired" } }), "expired"],
    [JSON.stringify({ type: "RENAMED", object: { metadata: metadata("b", "6") } }), "corrupt"],
    [JSON.stringify({ object: { metadata: metadata("b", "6") } }), "corrupt"],
    [JSON.stringify({ type: "ADDED" }), "corrupt"],
    [JSON.stringify({ type: "ADDED", object: { metadata: { name: "b" } } }), "corrupt"],
    ["null", "corrupt"],
    ["{", "corrupt"],
  ] as const) {
    const { pass, stream, lists, seen, state } = start(t);
    await settled();
    try {
      stream().options.onLine(line);
      assert.fail("it is thrown");
    } catch (error) {
      stream().fail(error as Error);
    }
    await settled();
    assert.deepEqual([state().problem?.code, lists.length], [code, 1], line);
    await pass(250, 250);
    assert.deepEqual([lists.length, stream().query.resourceVersion, seen.changes], [2, "5", ["+a@1"]], line);
    await seen.watcher.stop();
    t.mock.reset();
    t.mock.timers.reset();
  }
});

test("an ERROR that is not 410 resumes the watch", async (t) => {
  const { pass, stream, lists, state } = start(t);
  await settled();
  try {
    stream().options.onLine(JSON.stringify({ type: "ERROR", object: { code: 500, message: "x" } }));
  } catch (error) {
    stream().fail(error as Error);
  }
  await pass(250, 250);
  assert.equal(state().problem?.code, "server-error");
  assert.deepEqual(
    lists.map(({ query }) => query.limit),
    [500, 1],
  );
});

test("each event advances the version from which the next watch starts", async (t) => {
  const { pass, stream, seen, state } = start(t);
  await settled();
  stream().line("ADDED", "b", "6");
  stream().line("MODIFIED", "b", "7");
  stream().line("BOOKMARK", undefined, "8");
  stream().line("DELETED", "b", "9");
  assert.deepEqual(seen.changes, ["+a@1", "+b@6", "~b@6>7", "-b@7"]);
  assert.equal(state().resourceVersion, "9");
  await pass(2_000, 1_000);
  stream().end("closed");
  await settled();
  assert.equal(stream().query.resourceVersion, "9");
});

test("a watch from a version that the API server has not reached is ended, and everything is listed", async (t) => {
  const { pass, rig, stream, lists, state } = start(t);
  await settled();
  stream().line("BOOKMARK", undefined, "100");
  await pass(2_000, 1_000);
  Object.assign(rig, { version: "7", newest: "99" });
  stream().end("closed");
  await settled();
  assert.equal(state().problem?.code, "expired");
  await pass(250, 250);
  assert.equal(stream().query.resourceVersion, "7");
  assert.deepEqual(
    lists.map(({ query }) => query.limit),
    [500, 1, 500],
  );
});

test("the first watch after a list is not checked", async (t) => {
  const { lists, pass } = start(t);
  await pass(2_000, 1_000);
  assert.equal(lists.length, 1);
});

test("if a handler stops the watch during a list, no other handler is called", async (t) => {
  const said: string[] = [];
  const { rig, seen, streams } = start(t, {
    onChange: ({ key }) => {
      said.push(key);
      void seen.watcher.stop();
    },
    onSynced: () => said.push("synced"),
  });
  rig.names = ["a", "b", "c"];
  await settled();
  assert.deepEqual([said, streams.length], [["a"], 0]);
});

test("other work runs after every 10 ms of a list's changes", async (t) => {
  const said: string[] = [];
  let time = 0;
  const { rig, seen } = start(t, {
    now: () => time,
    onChange: ({ key }) => {
      if (said.length === 0) setImmediate(() => said.push("turn"));
      said.push(key);
      time += 0.5;
    },
  });
  rig.names = Array.from({ length: 100 }, (_, index) => `n${index}`);
  await settled();
  assert.equal(said.indexOf("turn"), 20);
  assert.deepEqual([said.length, seen.synced], [101, 1]);
});

test("a line that arrives after the end is not processed", async (t) => {
  const { stream, seen } = start(t);
  await settled();
  const last = stream();
  await seen.watcher.stop();
  last.line("ADDED", "b", "6");
  assert.deepEqual(seen.changes, ["+a@1"]);
});
