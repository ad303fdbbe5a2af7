import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { settled } from "#test/fakes/stopped-time.ts";
import { away, followedWatch, object, type Stream, startWatch, status } from "#test/fakes/watch-rig.ts";

describe("a watch that fails lists everything again, and misses nothing", () => {
  const error = (code: number) => JSON.stringify({ type: "ERROR", object: { code, reason: "x", message: "x" } });
  for (const [what, act, code] of [
    ["a broken connection", (stream: Stream) => stream.fail(away), "unreachable"],
    ["a refused stream", (stream: Stream) => stream.fail(status(503)), "server-error"],
    ["an ERROR", (stream: Stream) => stream.raw(error(500)), "server-error"],
    ["an expired version in the stream", (stream: Stream) => stream.raw(error(410)), "expired"],
    ["an expired version as the answer", (stream: Stream) => stream.fail(status(410)), "expired"],
    ["a line that is not JSON", (stream: Stream) => stream.raw("{bad json}"), "corrupt"],
    ["null", (stream: Stream) => stream.raw("null"), "corrupt"],
    ["a line without an object", (stream: Stream) => stream.raw('{"type":"ADDED"}'), "corrupt"],
    ["a line without a type", (stream: Stream) => stream.raw('{"object":{"metadata":{"name":"x"}}}'), "corrupt"],
    ["an unknown type", (stream: Stream) => stream.raw('{"type":"NEW","object":{}}'), "corrupt"],
    ["an event without a version", (stream: Stream) => stream.line("ADDED", "x"), "corrupt"],
  ] as const) {
    test(what, async (t) => {
      const { rig, pass, stream, order, seen, state } = await followedWatch(t);
      stream().line("ADDED", "x", "77");
      Object.assign(rig, { version: "9", items: [object("c", "7")] });
      act(stream());
      await settled();
      assert.deepEqual([state().synced, state().following, state().problem?.code], [true, false, code]);
      assert.deepEqual(seen.changes, ["+a@1", "+x@77"], "what is known stays");
      await pass(250);
      assert.deepEqual(order, ["L", "W5", "L", "W9"]);
      assert.deepEqual(seen.changes.slice(2), ["+c@7", "-a@1", "-x@77"]);
      await pass(1_000);
      assert.deepEqual([state().following, state().problem], [true, undefined]);
    });
  }

  test("a list that fails halfway deletes nothing", async (t) => {
    const { rig, pass, stream, seen, state } = await followedWatch(t);
    rig.page = ({ query }) => {
      if (query.continue === "more") throw status(500);
      return { metadata: { resourceVersion: "8", continue: "more" }, items: [object("b")] };
    };
    stream().fail(away);
    await pass(250);
    assert.deepEqual(seen.changes, ["+a@1", "+b@1"]);
    assert.equal(state().problem?.code, "server-error");
  });

  test("a list whose pages expire is repeated, and forgets the objects of the earlier pages", async (t) => {
    const { rig, pass, seen, state } = startWatch(t);
    const pages = [{ metadata: { resourceVersion: "5", continue: "more" }, items: [object("ghost")] }, undefined];
    rig.page = ({ query }) => {
      if (query.continue === "more") throw status(410);
      return pages.shift();
    };
    await settled();
    assert.equal(state().problem?.code, "expired");
    await pass(1_250);
    assert.deepEqual([seen.changes, state().problem], [["+ghost@1", "+a@1", "-ghost@1"], undefined]);
  });

  test("an answer that is not a list clears nothing", async (t) => {
    const { rig, pass, stream, seen, state } = await followedWatch(t);
    rig.page = () => ({ kind: "Pod" });
    stream().fail(away);
    await pass(250);
    assert.deepEqual([state().problem?.code, seen.watcher.objects().size], ["corrupt", 1]);
  });
});

describe("pauses", () => {
  test("are 250 ms, then twice the last, up to 5 s", async (t) => {
    const { rig, delays } = startWatch(t);
    rig.refusesLists = status(500);
    assert.deepEqual(await delays(19_000), [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
  });

  test("are as long as Retry-After, also if it is in the stream", async (t) => {
    const { rig, delays, stream } = await followedWatch(t);
    rig.refusesLists = status(429, 7_000);
    stream().raw(JSON.stringify({ type: "ERROR", object: { code: 429, details: { retryAfterSeconds: 1 } } }));
    assert.deepEqual((await delays(20_000, 250)).slice(0, 3), [2_000, 7_000, 7_000]);
  });

  for (const [what, openMs, act, fails] of [
    ["at once without an event fails", 999, () => {}, true],
    ["after a second without an event does not fail", 1_000, () => {}, false],
    ["at once with an event does not fail", 999, (stream: Stream) => stream.line("ADDED", "b", "6"), false],
    ["at once with a bookmark fails", 999, (stream: Stream) => stream.line("BOOKMARK", undefined, "6"), true],
  ] as const) {
    test(`a watch that closes ${what}`, async (t) => {
      const { pass, stream, state } = startWatch(t);
      await settled();
      await pass(openMs, openMs);
      act(stream());
      stream().end("closed");
      await settled();
      assert.equal(state().problem?.code, fails ? "unreachable" : undefined);
    });
  }
});
