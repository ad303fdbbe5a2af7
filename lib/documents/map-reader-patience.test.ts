import assert from "node:assert/strict";
import { test } from "node:test";
import { shortHash } from "#hostmap/hash.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { StartTimer } from "#lib/kube/time.ts";
import { SnapshotBuilder } from "./map-builder.ts";
import { renderIndex } from "./map-format.ts";
import { followMap, PATIENCE_MS, SETTLE_MS } from "./map-reader.ts";
import { mapRevisionOf, Shards } from "./shards.ts";

/** A clock that advances only when the test says so. */
function fakeTimers() {
  let now = 0;
  const timers = new Set<{ at: number; callback: () => void }>();
  const start: StartTimer = (callback, ms) => {
    const timer = { at: now + ms, callback };
    timers.add(timer);
    return () => timers.delete(timer);
  };
  const advance = (ms: number): void => {
    const until = now + ms;
    for (;;) {
      const [next] = [...timers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      timers.delete(next);
      now = next.at;
      next.callback();
    }
    now = until;
  };
  return { start, advance, pending: () => timers.size };
}

/** Index and shards as the controller publishes them. */
function publication(names: readonly string[], ip = "198.51.100.9") {
  const shards = new Shards();
  for (const name of names) shards.set(name, [ip]);
  const rendered = shards.render();
  const revision = mapRevisionOf(rendered);
  const named = rendered.map((shard) => ({ name: `switchback-hosts-${shard.index}`, revision: shard.shardHash }));
  const texts = rendered.map(({ index: number, text }) => [`switchback-hosts-${number}`, text] as const);
  return { revision, index: renderIndex({ revision, shards: named }), shards: new Map(texts) };
}

const manyNames = (count: number, prefix = "host") =>
  Array.from({ length: count }, (_, index) => `${prefix}-${index}.some-long-team-name.example.com`);

function follow() {
  const timers = fakeTimers();
  const assembler = new SnapshotBuilder();
  const offers: Array<PublishedMap | Reason> = [];
  const follower = followMap(assembler, (offer) => offers.push(offer), timers.start);
  const put = ({ index, shards }: ReturnType<typeof publication>): void => {
    for (const [name, text] of shards) assembler.put(name, text);
    assembler.put("switchback-hosts-index", index);
    follower.changed();
  };
  const take = (): string[] => offers.splice(0).map((offer) => ("revision" in offer ? offer.revision : offer.code));
  return { timers, assembler, follower, offers, put, take };
}

test("index and shards that match are offered at once, in whatever order they arrive", () => {
  const { index, shards, revision } = publication(manyNames(2_000));
  assert.ok(shards.size > 1);
  const parts: Array<(a: SnapshotBuilder) => void> = [
    (a) => a.put("switchback-hosts-index", index),
    ...[...shards].map(
      ([name, text]) =>
        (a: SnapshotBuilder) =>
          a.put(name, text),
    ),
  ];
  for (const order of [parts, parts.toReversed()]) {
    const { timers, assembler, follower, take } = follow();
    follower.synced();
    for (const part of order) {
      assert.deepEqual(take(), []);
      part(assembler);
      follower.changed();
      timers.advance(SETTLE_MS);
    }
    assert.deepEqual(take(), [revision]);
  }
});

test("an incomplete publication keeps the last good map, and reports nothing", () => {
  const { timers, assembler, follower, put, take } = follow();
  const [older, newer] = [publication(manyNames(2_000)), publication(manyNames(2_001))];
  put(older);
  follower.synced();
  timers.advance(PATIENCE_MS * 2);
  assert.deepEqual(take(), [older.revision]);
  for (const [name, text] of newer.shards) assembler.put(name, text);
  follower.changed();
  timers.advance(PATIENCE_MS - 100);
  assert.deepEqual(take(), []);
  assembler.put("switchback-hosts-index", newer.index);
  follower.changed();
  timers.advance(PATIENCE_MS * 3);
  assert.deepEqual(take(), [newer.revision]);
});

test("if there is a good map, parts that do not match for long give a reason, never a map", () => {
  const faults: ReadonlyArray<readonly [string, (a: SnapshotBuilder) => void]> = [
    ["index-missing", (a) => a.put("switchback-hosts-index", undefined)],
    ["index-not-json", (a) => a.put("switchback-hosts-index", "{")],
    ["index-malformed", (a) => a.put("switchback-hosts-index", '{"version": 1, "revision": 1}')],
    [
      "index-version",
      (a) => a.put("switchback-hosts-index", '{"version": 2, "revision": "r", "targets": [], "shards": []}'),
    ],
    ["shard-missing", (a) => a.put("switchback-hosts-0", undefined)],
    ["shard-other-revision", (a) => a.put("switchback-hosts-0", "198.51.100.9 edited.example.com\n")],
  ];
  for (const [code, breakIt] of faults) {
    const { timers, assembler, follower, put, take } = follow();
    const good = publication(manyNames(3));
    put(good);
    follower.synced();
    timers.advance(SETTLE_MS);
    assert.deepEqual(take(), [good.revision]);
    breakIt(assembler);
    follower.changed();
    timers.advance(SETTLE_MS + PATIENCE_MS);
    assert.deepEqual(take(), [code]);
    put(good);
    timers.advance(SETTLE_MS + PATIENCE_MS * 3);
    assert.deepEqual(take(), [good.revision]);
  }
});

test("without a good map no partial map is ever used, and the reason is repeated", () => {
  const breaks: ReadonlyArray<readonly [string, (a: SnapshotBuilder) => void]> = [
    ["shard-missing", (a) => a.put("switchback-hosts-0", undefined)],
    ["index-missing", (a) => a.put("switchback-hosts-index", undefined)],
    ["index-version", (a) => a.put("switchback-hosts-index", '{"version": 2}')],
  ];
  for (const [code, breakIt] of breaks) {
    const { timers, assembler, follower, put, take } = follow();
    const whole = publication(manyNames(2_000));
    put(whole);
    breakIt(assembler);
    follower.synced();
    timers.advance(PATIENCE_MS - 100);
    assert.deepEqual(take(), []);
    timers.advance(PATIENCE_MS * 3);
    assert.deepEqual(take(), [code, code, code]);
    put(whole);
    timers.advance(SETTLE_MS);
    assert.deepEqual(take(), [whole.revision]);
  }
});

test("missing ConfigMaps never count as an empty map, however long they are missing", () => {
  const { timers, follower, take } = follow();
  follower.synced();
  timers.advance(PATIENCE_MS * 10);
  const codes = new Set(take());
  assert.deepEqual([...codes], ["index-missing"]);
});

test("a published map without names is a map", () => {
  const { timers, follower, put, take } = follow();
  const empty = publication([]);
  put(empty);
  follower.synced();
  timers.advance(SETTLE_MS);
  assert.deepEqual(take(), [empty.revision]);
});

test("before the first list is complete nothing is offered, even if parts match; the wait is reported", () => {
  const { timers, follower, put, take } = follow();
  const whole = publication(manyNames(2_000));
  put(whole);
  timers.advance(PATIENCE_MS * 5);
  assert.deepEqual([...new Set(take())], ["map-not-listed"]);
  follower.synced();
  timers.advance(SETTLE_MS);
  assert.deepEqual(take(), [whole.revision]);
});

test("after stop nothing is offered and no timer remains", () => {
  const { timers, follower, put, take } = follow();
  put(publication(manyNames(3)));
  follower.stop();
  timers.advance(PATIENCE_MS * 3);
  assert.deepEqual(take(), []);
  assert.equal(timers.pending(), 0);
});

test("a shard yields nothing that would break a hosts file or make the API server refuse a pod", () => {
  const { timers, assembler, follower, offers } = follow();
  const text = [
    "198.51.100.9 good.example.com",
    "198.51.100.9 UPPER.example.com",
    "198.51.100.999 bad-address.example.com",
    "fe80::1%eth0 zone.example.com",
    "198.51.100.9 under_score.example.com",
    `198.51.100.9 ${"a.".repeat(126)}com`,
    "198.51.100.9 *.wild.example.com",
    "198.51.100.9 bell\u0007.example.com",
    "198.51.100.9 trailing.example.com.",
    "198.51.100.9 127.0.0.1",
  ].join("\n");
  const shards = [{ name: "switchback-hosts-0", revision: shortHash(text) }];
  assembler.put("switchback-hosts-0", text);
  assembler.put("switchback-hosts-index", renderIndex({ revision: "r", shards }));
  follower.synced();
  timers.advance(SETTLE_MS);
  const [map] = offers;
  assert.ok(map && "names" in map);
  assert.deepEqual(map.names, ["good.example.com", "upper.example.com"]);
});
