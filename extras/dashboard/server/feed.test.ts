import assert from "node:assert/strict";
import { test } from "node:test";
import type { FullStatus } from "#controller/status.ts";
import { known } from "#doctor/fact.ts";
import type { ReportDocument } from "#doctor/report.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { Feed } from "./feed.ts";
import type { FeedMessage } from "./messages.ts";

/** A source for which the test gives each answer, one after the other. */
function source() {
  const waiting: PromiseWithResolvers<FullStatus>[] = [];
  let asked = Promise.withResolvers<void>();
  const signals: AbortSignal[] = [];
  return {
    place: "here",
    signals,
    status: (signal: AbortSignal) => {
      const answer = Promise.withResolvers<FullStatus>();
      waiting.push(answer);
      signals.push(signal);
      asked.resolve();
      return answer.promise;
    },
    /** Waits until the source is asked. Resolves to the answer, which the test has to settle. */
    async next(): Promise<PromiseWithResolvers<FullStatus>> {
      while (waiting.length === 0) {
        await asked.promise;
        asked = Promise.withResolvers();
      }
      return waiting.shift() ?? assert.fail();
    },
  };
}

/** A listener that records its messages, and can wait for a message of some type. */
function listener() {
  const got: FeedMessage[] = [];
  let came = Promise.withResolvers<void>();
  return {
    got,
    types: () => got.map(({ type }) => type).join(" "),
    take: (messages: readonly FeedMessage[]) => {
      got.push(...messages);
      came.resolve();
      came = Promise.withResolvers();
    },
    async until(type: FeedMessage["type"]): Promise<void> {
      while (got.at(-1)?.type !== type) await came.promise;
    },
  };
}

test("one read serves all clients; a later one gets everything at once; without clients nothing is read", async () => {
  const cluster = source();
  const feed = new Feed({ source: cluster, now: () => 7, everyMs: 1 });
  const [first, second] = [listener(), listener()];
  const stopFirst = feed.subscribe(first.take);
  assert.equal(first.types(), "begin");
  (await cluster.next()).resolve(fullStatus());
  await first.until("summary");
  const read = await cluster.next();
  const stopSecond = feed.subscribe(second.take);
  assert.equal(second.types(), first.types());
  assert.deepEqual(second.got, first.got);
  stopFirst();
  read.resolve(fullStatus({ names: [] }));
  await second.until("summary");
  assert.equal(first.types(), "begin names summary");
  await cluster.next();
  stopSecond();
  assert.deepEqual(
    cluster.signals.map(({ aborted }) => aborted),
    [true, true, true],
  );
});

test("a failed read is reported, also to later clients, and keeps what is known; the next read recovers", async () => {
  const cluster = source();
  const feed = new Feed({ source: cluster, now: () => 7, everyMs: 1 });
  const page = listener();
  const stop = feed.subscribe(page.take);
  (await cluster.next()).resolve(fullStatus());
  (await cluster.next()).reject(new Error("no route"));
  await page.until("unknown");
  assert.deepEqual(page.got.at(-1), { type: "unknown", at: 7, text: "no route" });
  const late = listener();
  const stopLate = feed.subscribe(late.take);
  assert.equal(late.types(), "begin names summary unknown");
  (await cluster.next()).resolve(fullStatus());
  await page.until("summary");
  assert.equal(page.types(), "begin names summary unknown summary");
  stop();
  stopLate();
});

test("later clients get the doctor's findings, too", async (t) => {
  const report = { findings: [] } as unknown as ReportDocument;
  const cluster = { ...source(), doctor: async () => report };
  const feed = new Feed({ source: cluster, now: () => 7 });
  const [page, late] = [listener(), listener()];
  t.after(feed.subscribe(page.take));
  await page.until("examined");
  t.after(feed.subscribe(late.take));
  assert.deepEqual(late.got, [
    { type: "begin", place: "here", canExamine: true },
    { type: "examined", at: 7, report: known(report) },
  ]);
});
