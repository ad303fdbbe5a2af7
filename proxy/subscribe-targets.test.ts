import assert from "node:assert/strict";
import { test } from "node:test";
import type { PublishedTargets } from "../snapshot/targets-format.ts";
import type { TargetsReader } from "../snapshot/targets-reader.ts";
import { LineLog } from "../test/fakes/clock.ts";
import { subscribeTargets } from "./subscribe-targets.ts";

const document = (revision: string): PublishedTargets => ({ revision, targets: [] });

/** A feed in the test's hands. */
function manual() {
  const handle = { found: (_targets: PublishedTargets | undefined): void => {}, stopped: false };
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

test("begins with what the feed says first, and tells of what follows", async () => {
  const { feed, handle } = manual();
  const beginning = subscribeTargets(feed, NOT_ASKED, new LineLog());
  handle.found(document("one"));
  const following = await beginning;
  assert.equal(following.initial?.revision, "one");
  handle.found(document("two"));
  const told: string[] = [];
  following.subscribe(({ revision }) => told.push(revision));
  assert.deepEqual(told, ["two"], "what came in between is told");
  handle.found(document("three"));
  assert.deepEqual(told, ["two", "three"]);
  await following.stop();
  assert.equal(handle.stopped, true);
});

test("nothing published yet is an answer: the config counts", async () => {
  const { feed, handle } = manual();
  const beginning = subscribeTargets(feed, NOT_ASKED, new LineLog());
  handle.found(undefined);
  assert.equal((await beginning).initial, undefined);
});

test("an API server that does not answer in time: the mounted copy, and then what comes", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { feed, handle } = manual();
  const log = new LineLog();
  const beginning = subscribeTargets(feed, () => document("mounted"), log);
  t.mock.timers.tick(5_000);
  const following = await beginning;
  assert.equal(following.initial?.revision, "mounted");
  assert.equal(log.lines.length, 1);
  const told: string[] = [];
  following.subscribe(({ revision }) => told.push(revision));
  assert.deepEqual(told, []);
  handle.found(document("late"));
  assert.deepEqual(told, ["late"]);
});
