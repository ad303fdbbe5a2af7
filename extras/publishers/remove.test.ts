import assert from "node:assert/strict";
import { test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { NO_ANSWER, NOT_OURS, type Publisher } from "./publisher.ts";
import { emptyPublisherState, type PublisherState } from "./publisher-state.ts";
import type { StoredPublisherState } from "./publisher-state-store.ts";
import { removePublisher } from "./remove.ts";

/** `answers`: the answers of each round; the last round repeats. */
function rig(answers: string[][]) {
  let now = 1_000;
  let stored: StoredPublisherState | undefined = {
    state: { ...emptyPublisherState("one", "here"), revision: "r1", names: 3, since: 1 },
    original: "theirs",
    resourceVersion: "1",
  };
  const done: string[] = [];
  const said: string[] = [];
  let conflicts = 0;
  const publisher: Publisher = {
    name: "one",
    place: "here",
    publish: () => assert.fail("nothing is published"),
    isThere: async () => true,
    async remove() {
      done.push("remove");
    },
    readers: {
      tagOf: (revision) => revision,
      async ask() {
        now += 1_000;
        done.push("ask");
        return new Set(answers.length > 1 ? answers.shift() : answers[0]);
      },
    },
  };
  const store = {
    read: async () => stored,
    async write(state: PublisherState, original: string | undefined) {
      if (conflicts > 0) {
        conflicts -= 1;
        throw new SwitchbackError("kube-status", "changed", { status: 409 });
      }
      stored = { state, original, resourceVersion: "2" };
      done.push("mark");
      return stored;
    },
  };
  const run = (options: { canAsk?: boolean; timeoutMs?: number; blindMs?: number } = {}) =>
    removePublisher({
      publisher,
      store,
      canAsk: options.canAsk ?? true,
      timeoutMs: options.timeoutMs ?? 60_000,
      now: () => now,
      say: (line) => said.push(line),
      pollMs: 0,
      blindMs: options.blindMs ?? 30_000,
    });
  return {
    run,
    done,
    said,
    stored: () => stored,
    forget: () => {
      stored = undefined;
    },
    conflict: (times: number) => {
      conflicts = times;
    },
  };
}

test("marks first, then takes out, and goes on until three successive rounds get only other answers", async () => {
  const { run, done, stored } = rig([["r1"], ["r1", NOT_OURS], [NOT_OURS], [NO_ANSWER], [NOT_OURS]]);
  await run();
  assert.deepEqual(done.slice(0, 2), ["mark", "remove"]);
  assert.equal(done.filter((each) => each === "ask").length, 7);
  assert.equal(done.filter((each) => each === "remove").length, 8, "what was written meanwhile goes, too");
  const { state, original } = stored() ?? {};
  assert.ok(state !== undefined && !("code" in state));
  assert.deepEqual([state.leaving, state.names, state.revision, original], [1_000, 0, undefined, "theirs"]);
});

test("readers that still get the names, or no answer at all, are an error after the timeout", async () => {
  for (const answers of [["r1"], [NO_ANSWER]]) {
    await assert.rejects(rig([answers]).run({ timeoutMs: 5_000 }), { code: "still-held" });
  }
});

test("without answers of the DNS it waits as if it could not ask; answers of ours restart the wait", async () => {
  const { run, done, said } = rig([[NO_ANSWER], [NOT_OURS, NO_ANSWER], ["r1", NO_ANSWER], [NO_ANSWER]]);
  await run({ blindMs: 10_000 });
  assert.equal(done.filter((each) => each === "ask").length, 3 + 10);
  assert.match(said.at(-1) ?? "", /by waiting: it gives no answer$/);
});

test("a publisher that writes its document at the same time does not prevent the mark", async () => {
  const one = rig([[NOT_OURS]]);
  one.conflict(2);
  await one.run();
  assert.ok(one.done.includes("mark"));
});

test("without the document, the names are taken out all the same; without a way to ask, it waits", async () => {
  const one = rig([[NOT_OURS]]);
  one.forget();
  await one.run({ canAsk: false, blindMs: 0 });
  assert.deepEqual([...new Set(one.done)], ["remove"]);
  assert.match(one.said.at(-1) ?? "", /by waiting: nobody can ask it from here/);
});
