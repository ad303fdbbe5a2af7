import assert from "node:assert/strict";
import { test } from "node:test";
import type { PublishedTargets } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { subscribeTargets } from "./subscribe-targets.ts";

const document = (revision: string): PublishedTargets => ({ revision, targets: [] });

/** A feed controlled by the test. */
function manual() {
  const handle = {
    found: (_targets: PublishedTargets | undefined): void => {},
    stopped: false,
  };
  const feed: TargetsReader = {
    start(found) {
      handle.found = found;
      return {
        stop: async () => {
          handle.stopped = true;
        },
      };
    },
  };
  return { feed, handle };
}

const NOT_ASKED = () => assert.fail("the mounted copy was asked for");

test("starts with the first document of the feed, and reports later ones", async () => {
  const { feed, handle } = manual();
  const beginning = subscribeTargets(feed, NOT_ASKED, new LineLog());
  handle.found(document("one"));
  const following = await beginning;
  assert.equal(following.initial?.revision, "one");
  handle.found(document("two"));
  const told: string[] = [];
  following.subscribe(({ revision }) => told.push(revision));
  assert.deepEqual(told, ["two"], "targets from before the subscription are reported");
  handle.found(document("three"));
  handle.found(undefined);
  assert.deepEqual(told, ["two", "three"], "targets that are gone are kept");
  await following.stop();
  assert.equal(handle.stopped, true);
});

test("if nothing is published yet, the config is used", async () => {
  const { feed, handle } = manual();
  const log = new LineLog();
  const beginning = subscribeTargets(feed, NOT_ASKED, log);
  handle.found(undefined);
  const following = await beginning;
  assert.deepEqual([following.initial, log.lines], [undefined, []]);
  const told: string[] = [];
  following.subscribe(({ revision }) => told.push(revision));
  handle.found(document("one"));
  assert.deepEqual(told, ["one"]);
});

test("if the API server does not answer in time, the mounted copy is used, and then later documents", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { feed, handle } = manual();
  const log = new LineLog();
  const beginning = subscribeTargets(feed, () => document("mounted"), log);
  t.mock.timers.tick(4_999);
  assert.equal(await isSettled(beginning), false);
  t.mock.timers.tick(1);
  const following = await beginning;
  assert.equal(following.initial?.revision, "mounted");
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, fields]),
    [["warn", {}]],
  );
  const told: string[] = [];
  following.subscribe(({ revision }) => told.push(revision));
  following.subscribe(({ revision }) => told.push(revision));
  assert.equal(told.length, 0);
  handle.found(document("late"));
  assert.deepEqual(told, ["late"]);
});
