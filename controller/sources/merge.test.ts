import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf } from "#test/arbitraries.ts";
import { mergeSources } from "./merge.ts";
import type { ClaimSink, Source } from "./types.ts";

/** A source that the test controls. */
function manual(name: string) {
  const handle = { sink: (() => {}) as ClaimSink, onSynced: () => {}, stopped: false, synced: false };
  const source: Source = {
    start(sink, onSynced) {
      handle.sink = sink;
      handle.onSynced = () => {
        handle.synced = true;
        onSynced();
      };
    },
    state: () => [{ name, synced: handle.synced, problems: [] }],
    stop: async () => {
      handle.stopped = true;
    },
  };
  return { source, handle };
}

test("synced is reported once, when the last source is synced; a source that reports it twice counts once", () => {
  const [one, two] = [manual("one"), manual("two")];
  let synced = 0;
  mergeSources([one.source, two.source]).start(
    () => {},
    () => {
      synced += 1;
    },
  );
  one.handle.onSynced();
  one.handle.onSynced();
  assert.equal(synced, 0);
  two.handle.onSynced();
  assert.equal(synced, 1);
  two.handle.onSynced();
  assert.equal(synced, 1);
});

test("without sources it is synced", () => {
  let synced = 0;
  mergeSources([]).start(
    () => {},
    () => {
      synced += 1;
    },
  );
  assert.equal(synced, 1);
});

test("two kinds with one object key do not overwrite each other; state and stop include all sources", async () => {
  const [one, two] = [manual("one"), manual("two")];
  const merged = mergeSources([one.source, two.source]);
  const counts = new Map<string, number>();
  merged.start(
    (object, claims) => counts.set(object, claims.length),
    () => {},
  );
  one.handle.sink("shop/web", [claimOf("a.example.com", "shop/web")]);
  two.handle.sink("shop/web", []);
  assert.deepEqual([...counts.values()], [1, 0]);
  one.handle.onSynced();
  assert.deepEqual(
    merged.state().map(({ name, synced }) => [name, synced]),
    [
      ["one", true],
      ["two", false],
    ],
  );
  await merged.stop();
  assert.ok(one.handle.stopped && two.handle.stopped);
});
