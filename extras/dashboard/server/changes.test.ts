import assert from "node:assert/strict";
import { test } from "node:test";

import type { FullStatus } from "#controller/status.ts";
import { fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { fc } from "#test/property.ts";
import { PageState } from "../page/state.ts";
import { StatusChanges } from "./changes.ts";
import type { FeedMessage } from "./messages.ts";

/** The lists that a page shows, each entry as JSON, sorted. */
function shown(state: PageState): { names: string[]; workloads: string[] } {
  const text = ({ id: _id, searched: _searched, ...entry }: object & { id: number; searched: string }) =>
    JSON.stringify(entry);
  return { names: state.view.names.map(text).sort(), workloads: state.view.workloads.map(text).sort() };
}

function expected({ names, running }: FullStatus): { names: string[]; workloads: string[] } {
  const texts = (entries: readonly object[]) => entries.map((entry) => JSON.stringify(entry)).sort();
  return { names: texts(names), workloads: texts(running?.workloads ?? []) };
}

const BEGIN: FeedMessage = { type: "begin", place: "here", canExamine: true };
/** The message as the browser gets it. */
const sent = (message: FeedMessage): FeedMessage => JSON.parse(JSON.stringify(message));

test("only changes are sent: a changed entry as a whole with its number, a removed one as its number", () => {
  const changes = new StatusChanges();
  changes.take(fullStatus({ names: [NAME, REFUSED] }, { workloads: [WORKLOAD] }), 1);
  assert.deepEqual(
    changes.take(fullStatus({ names: [NAME, REFUSED] }, { workloads: [WORKLOAD] }), 2).map(({ type }) => type),
    ["summary"],
  );
  const warned = { ...NAME, warning: { code: "dns-elsewhere", text: "x" } };
  assert.deepEqual(changes.take(fullStatus({ names: [warned] }), 3).slice(0, -1), [
    { type: "names", set: [[0, warned]] },
    { type: "names", gone: [1] },
    { type: "workloads", gone: [0] },
  ]);
});

test("a list is sent in batches that a browser parses without a pause", () => {
  const names = Array.from({ length: 4_001 }, (_, index) => ({ ...NAME, name: `n${index}.example.com` }));
  const changes = new StatusChanges();
  const sizes = changes
    .take(fullStatus({ names }), 1)
    .map((message) => message.type === "names" && message.set?.length);
  assert.deepEqual(sizes, [2_000, 2_000, 1, false]);
  assert.deepEqual(
    changes.whole().map((message) => message.type === "names" && message.set?.length),
    sizes,
  );
});

test("an unchanged list stays the same object, so that a page need not sort it again", () => {
  const changes = new StatusChanges();
  const page = new PageState();
  const take = (status: FullStatus, at: number) => {
    for (const message of changes.take(status, at)) page.take(sent(message));
    return page.view;
  };
  page.take(BEGIN);
  const first = take(fullStatus({}, { workloads: [WORKLOAD] }), 1);
  const second = take(fullStatus({}, { workloads: [WORKLOAD] }), 2);
  assert.equal(second.names, first.names);
  assert.equal(second.workloads, first.workloads);
  assert.equal(second.at, 2);
  assert.notEqual(take(fullStatus({ names: [REFUSED] }), 3).names, first.names);
});

test("a page that missed changes and subscribes again has no removed entries", () => {
  const changes = new StatusChanges();
  const page = new PageState();
  for (const message of [BEGIN, ...changes.take(fullStatus(), 1)]) page.take(sent(message));
  const last = fullStatus({ names: [REFUSED] });
  changes.take(last, 2);
  for (const message of [BEGIN, ...changes.whole()]) page.take(sent(message));
  assert.deepEqual(shown(page), expected(JSON.parse(JSON.stringify(last))));
});

test("a page has the last status, whatever came before it, and whenever the page subscribed", () => {
  const name = fc.record({ name: fc.constantFrom("a", "b", "c"), target: fc.constantFrom("x", "y") });
  const workload = fc.record({ name: fc.constantFrom("v", "w"), pods: fc.nat(2) });
  const status = fc
    .record({
      names: fc.array(name, { maxLength: 5 }),
      workloads: fc.uniqueArray(workload, { selector: ({ name }) => name }),
    })
    .map(({ names, workloads }) =>
      fullStatus(
        { names: names.map((each) => ({ ...NAME, ...each })) },
        { workloads: workloads.map((each) => ({ ...WORKLOAD, ...each })) },
      ),
    );
  fc.assert(
    fc.property(fc.array(status, { minLength: 1, maxLength: 6 }), (all) => {
      const changes = new StatusChanges();
      const [early, late] = [new PageState(), new PageState()];
      early.take(BEGIN);
      for (const [at, each] of all.entries()) for (const message of changes.take(each, at)) early.take(sent(message));
      for (const message of [BEGIN, ...changes.whole()]) late.take(sent(message));
      const last = all.at(-1);
      assert.ok(last);
      for (const page of [early, late]) assert.deepEqual(shown(page), expected(JSON.parse(JSON.stringify(last))));
    }),
  );
});
