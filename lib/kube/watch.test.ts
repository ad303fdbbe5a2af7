import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import { collection, fakeApi, page, until, watch } from "#test/fakes/kube-api.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { away, followedWatch, object, startWatch, status } from "#test/fakes/watch-rig.ts";
import { METADATA_LIST, METADATA_WATCH } from "./accept.ts";
import type { ApiObject } from "./types.ts";
import { watchObjects } from "./watch.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe("a watch", () => {
  test("nothing is called before watchObjects has returned, or if it is stopped at once", async (t) => {
    const { order, seen } = startWatch(t);
    assert.deepEqual(order, []);
    await seen.watcher.stop();
    await settled();
    assert.deepEqual(order, []);
  });

  test("lists all pages, reports synced, then watches", async (t) => {
    const { rig, stream, seen, state, order } = startWatch(t);
    const last = Promise.withResolvers<object>();
    rig.page = ({ query }) => {
      if ("continue" in query && query.continue === "more") return last.promise;
      return { metadata: { resourceVersion: "5", continue: "more" }, items: [object("a")] };
    };
    await settled();
    assert.deepEqual([state().synced, seen.synced, seen.changes], [false, 0, ["+a@1"]]);
    last.resolve({ metadata: { resourceVersion: "5" }, items: [object("b")] });
    await settled();
    assert.deepEqual([state().synced, seen.synced], [true, 1]);
    stream().line("ADDED", "c", "6");
    stream().line("MODIFIED", "a", "7");
    stream().line("DELETED", "b", "8");
    assert.deepEqual(seen.changes, ["+a@1", "+b@1", "+c@6", "~a@1>7", "-b@1"]);
    assert.deepEqual(Object.fromEntries(seen.watcher.objects()), { "shop/a": "a@7", "shop/c": "c@6" });
    assert.deepEqual(order, ["L", "L", "W5"]);
  });

  test("a list and a watch have their queries, media types and limits", async (t) => {
    const selectors = { labelSelector: "a=b", fieldSelector: "c=d" };
    const { lists, stream } = startWatch(t, { metadataOnly: true, ...selectors, pageSize: 7, random: () => 0 });
    await settled();
    assert.deepEqual(lists[0]?.query, { limit: 7, ...selectors, continue: undefined });
    assert.deepEqual([lists[0]?.options.timeoutMs, lists[0]?.options.accept], [30_000, METADATA_LIST]);
    const query = { watch: true, allowWatchBookmarks: true, resourceVersion: "5", timeoutSeconds: 300, ...selectors };
    assert.deepEqual(stream().query, query);
    const { idleMs, accept } = stream().options;
    assert.deepEqual([idleMs, accept], [90_000, METADATA_WATCH]);
  });

  test("takes the connection of its list", async () => {
    const { client, calls, close } = await fakeApi(collection(page([], "5"), watch()));
    const ignore = { project: () => undefined, onChange: () => {}, log: silentLogger };
    const watcher = watchObjects({ client, path: "/api/v1/pods", ...ignore });
    await until(() => calls.length === 2, "a list and a watch");
    await watcher.stop();
    await close();
    assert.deepEqual(
      calls.map(({ reused }) => reused),
      [false, true],
    );
  });

  test("follows once it has been open for a second", async (t) => {
    const { pass, state } = startWatch(t);
    await pass(999, 999);
    assert.equal(state().following, false);
    await pass(1);
    assert.equal(state().following, true);
  });

  test("that ends cleanly or is idle resumes at once from the last version, including bookmarks", async (t) => {
    const { stream, order, state, lists } = await followedWatch(t);
    stream().line("ADDED", "b", "6");
    stream().end("closed");
    await settled();
    stream().line("BOOKMARK", undefined, "77");
    stream().end("idle");
    await settled();
    assert.deepEqual([order, lists.length, state().problem], [["L", "W5", "W6", "W77"], 1, undefined]);
  });

  test("everything is listed again after at most an hour, and the watch ends in time for that", async (t) => {
    const { pass, rig, lists, stream, seen } = startWatch(t);
    rig.items = [object("same"), object("again"), object("gone")];
    await settled();
    assert.equal(stream().query.timeoutSeconds, 600);
    await pass(59 * MINUTE + 30_000, 30_000);
    stream().end("closed");
    await settled();
    assert.equal(stream().query.timeoutSeconds, 30);
    // After a restore from a backup, versions are lower, and a watch from a version of the future gets no events.
    Object.assign(rig, {
      version: "4",
      items: [object("same"), object("again", "1", "recreated"), object("new", "3")],
    });
    seen.changes.length = 0;
    await pass(30_000, 30_000);
    stream().end("closed");
    await settled();
    assert.deepEqual(
      lists.map(({ at }) => at),
      [0, HOUR],
    );
    assert.deepEqual(seen.changes, ["~again@1>1", "+new@3", "-gone@1"]);
    assert.deepEqual([stream().query.resourceVersion, seen.synced], ["4", 1]);
  });

  test("lists everything again on request, also if that comes during a list", async (t) => {
    const { rig, seen, order, state } = await followedWatch(t);
    const answer = Promise.withResolvers<object>();
    rig.page = () => answer.promise;
    seen.watcher.relist();
    await settled();
    assert.deepEqual(order, ["L", "W5", "L"]);
    seen.watcher.relist();
    answer.resolve({ metadata: { resourceVersion: "7" }, items: [object("a")] });
    await settled();
    assert.deepEqual([order, state().problem], [["L", "W5", "L", "L", "W7"], undefined]);
  });

  test("other work runs after every 10 ms of a list's changes", async (t) => {
    const said: string[] = [];
    let time = 0;
    const { rig, seen } = startWatch(t, {
      now: () => time,
      onChange: ({ key }) => {
        if (said.length === 0) setImmediate(() => said.push("turn"));
        said.push(key);
        time += 0.5;
      },
    });
    rig.items = Array.from({ length: 100 }, (_, index) => object(`n${index}`));
    await settled();
    assert.equal(said.indexOf("turn"), 20);
    assert.deepEqual([said.length, seen.synced], [101, 1]);
  });
});

describe("the answer of an own request", () => {
  /** A watch of the object `a`, and a request for it whose answer is still to come. */
  async function requesting(t: TestContext) {
    const parts = await followedWatch(t);
    const answer = Promise.withResolvers<ApiObject | undefined>();
    const answered = parts.seen.watcher.request("shop/a", () => answer.promise);
    parts.seen.changes.length = 0;
    return { ...parts, answer, answered, objects: () => [...parts.seen.watcher.objects().values()] };
  }

  test("counts before the watch shows it", async (t) => {
    const { stream, seen, answer, answered, objects } = await requesting(t);
    answer.resolve(object("a", "8"));
    assert.equal(await answered, "a@8");
    stream().line("MODIFIED", "a", "8");
    assert.deepEqual([seen.changes, objects()], [["~a@1>8"], ["a@8"]]);
  });

  for (const [what, events, left] of [
    ["an edit", [["MODIFIED", "9"]], ["a@9"]],
    ["a deletion", [["DELETED", "9"]], []],
    [
      "a deletion and a new object",
      [
        ["DELETED", "9"],
        ["ADDED", "10"],
      ],
      ["a@10"],
    ],
  ] as const) {
    test(`does not hide ${what} that the watch showed since the request`, async (t) => {
      const { stream, answer, answered, objects } = await requesting(t);
      for (const [type, version] of events) stream().line(type, "a", version);
      answer.resolve(object("a", "8"));
      assert.equal(await answered, "a@8", "the answer itself is returned");
      assert.deepEqual(objects(), left);
    });
  }

  test("does not hide what a list showed since the request", async (t) => {
    const { rig, pass, stream, answer, answered, objects } = await requesting(t);
    rig.items = [object("a", "9")];
    stream().fail(away);
    await pass(3_000);
    answer.resolve(object("a", "8"));
    await answered;
    assert.deepEqual(objects(), ["a@9"]);
  });

  test("counts although other objects have changed since", async (t) => {
    const { stream, answer, answered, objects } = await requesting(t);
    stream().line("ADDED", "b", "7");
    answer.resolve(object("a", "8"));
    await answered;
    assert.deepEqual(objects(), ["a@8", "b@7"]);
  });

  test("that the object is missing counts, unless the watch showed a new one since", async (t) => {
    const { stream, seen, answer, answered } = await requesting(t);
    answer.resolve(undefined);
    assert.equal(await answered, undefined);
    assert.deepEqual(seen.changes, ["-a@1"]);
    const gone = Promise.withResolvers<undefined>();
    const second = seen.watcher.request("shop/a", () => gone.promise);
    stream().line("ADDED", "a", "9");
    gone.resolve(undefined);
    await second;
    assert.deepEqual(seen.changes, ["-a@1", "+a@9"]);
  });

  test("that is an error changes nothing and is passed on; after a stop, no handler is called", async (t) => {
    const { seen, answer, answered } = await requesting(t);
    answer.reject(status(409));
    await assert.rejects(answered, { status: 409 });
    const late = Promise.withResolvers<ApiObject>();
    const second = seen.watcher.request("shop/a", () => late.promise);
    await seen.watcher.stop();
    late.resolve(object("a", "8"));
    assert.equal(await second, "a@8");
    assert.deepEqual(seen.changes, []);
  });
});

describe("a watch that is stopped", () => {
  test("closes its stream and calls no handler", async (t) => {
    const { stream, seen, state } = await followedWatch(t);
    const last = stream();
    await seen.watcher.stop();
    last.line("ADDED", "b", "6");
    assert.deepEqual([last.options.signal.aborted, seen.changes, state().problem], [true, ["+a@1"], undefined]);
    await seen.watcher.stop();
  });

  test("by a handler during a list calls no other handler", async (t) => {
    const said: string[] = [];
    const { rig, seen, streams } = startWatch(t, {
      onChange: ({ key }) => {
        said.push(key);
        void seen.watcher.stop();
      },
      onSynced: () => said.push("synced"),
    });
    rig.items = [object("a"), object("b")];
    await settled();
    assert.deepEqual([said, streams.length], [["shop/a"], 0]);
  });

  test("ends a pause", async (t) => {
    const { rig, seen } = startWatch(t);
    rig.refusesLists = status(500);
    await settled();
    await seen.watcher.stop();
  });
});

describe("a handler that fails is logged once in ten seconds and ends nothing", () => {
  test("also in onSynced, and does not stop the other events", async (t) => {
    const handler = () => assert.fail("broken");
    const { seen, stream, pass, streams } = startWatch(t, { onChange: handler, onSynced: handler });
    await settled();
    stream().line("ADDED", "b", "6");
    await settled();
    const failures = () => seen.logs.filter(({ level }) => level === "error").map(({ fields }) => fields.error);
    assert.deepEqual(failures(), ["onChange of shop/a: broken"]);
    await pass(10_000, 5_000);
    stream().line("ADDED", "c", "7");
    await settled();
    assert.deepEqual(failures(), ["onChange of shop/a: broken", "onChange of shop/c: broken"]);
    assert.deepEqual([[...seen.watcher.objects().keys()], streams.length], [["shop/a", "shop/b", "shop/c"], 1]);
  });

  test("in the projection, without effect on other objects", async (t) => {
    const { rig, seen } = startWatch(t, {
      project: ({ metadata }) => (metadata?.name === "odd" ? assert.fail("cannot read this") : `${metadata?.name}@1`),
    });
    rig.items = [object("a"), object("odd")];
    await settled();
    assert.deepEqual(seen.changes, ["+a@1"]);
    assert.deepEqual(
      seen.logs.map(({ fields }) => fields.error),
      ["projection of shop/odd: cannot read this"],
    );
  });
});

describe("the state of a watch", () => {
  test("has the code of the problem, which is logged when it begins, changes and ends", async (t) => {
    const { rig, pass, stream, seen, state } = await followedWatch(t);
    rig.refusesLists = status(503);
    stream().fail(away);
    await pass(3_000);
    assert.deepEqual(state().problem, { code: "server-error", text: "GET: 503: refused" });
    rig.refusesLists = undefined;
    await pass(3_000);
    const path = "/apis/networking.k8s.io/v1/ingresses";
    assert.deepEqual(
      seen.logs.map(({ level, fields }) => [level, fields]),
      [
        ["warn", { path, code: "unreachable", error: "no answer" }],
        ["warn", { path, code: "server-error", error: "GET: 503: refused" }],
        ["info", { path }],
      ],
    );
  });

  test("an expired version is no warning", async (t) => {
    const { stream, seen } = await followedWatch(t);
    stream().fail(status(410));
    await settled();
    assert.deepEqual(
      seen.logs.map(({ level, fields }) => [level, fields.code]),
      [["info", "expired"]],
    );
  });

  test("is inactive since the last answer or attempt", async (t) => {
    const { rig, pass, stream, state } = startWatch(t);
    const answer = Promise.withResolvers<void>();
    rig.page = () => answer.promise;
    await pass(2_000);
    assert.equal(state().inactiveMs, 2_000);
    answer.resolve();
    await pass(3_000);
    assert.equal(state().inactiveMs, 3_000);
    stream().line("BOOKMARK", undefined, "6");
    assert.equal(state().inactiveMs, 0);
    await pass(1_000);
    stream().fail(away);
    await settled();
    assert.equal(state().inactiveMs, 0);
  });

  for (const [what, code, refusal] of [
    ["410 at every watch", "expired", { refusesWatches: status(410) }],
    ["410 at every list", "expired", { refusesLists: status(410), refusesWatches: status(410) }],
    ["429 at every request", "throttled", { refusesLists: status(429, 1_000), refusesWatches: status(429, 1_000) }],
  ] as const) {
    test(`${what} for an hour: attempts stay few, and one line is logged`, async (t) => {
      const { rig, pass, stream, seen, state, order } = await followedWatch(t);
      Object.assign(rig, refusal);
      stream().end("closed");
      await pass(HOUR, 2_500);
      assert.deepEqual([seen.changes, state().problem?.code, seen.logs.length], [["+a@1"], code, 1]);
      // There is an attempt every 5 s, and each pass of a list has four attempts.
      assert.ok(order.length > 500 && order.length < 5 * 800, String(order.length));
      assert.ok(state().inactiveMs < 3 * MINUTE, "no reason for a restart");
    });
  }
});
