import assert from "node:assert/strict";
import { test } from "node:test";
import { RefusalReporter } from "./refusal-reporter.ts";
import type { Reply } from "./worker-messages.ts";

test("the first refusal of a cause is reported at once; the next 100 ms later, with the first one's fields", () => {
  const replies: Reply[] = [];
  const reporter = new RefusalReporter((reply) => replies.push(reply));
  assert.equal(reporter.flushAt, Number.POSITIVE_INFINITY);
  const [a, b, c] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map((source) => ({ source })) as [object, object, object];
  reporter.report("limit-source", a, 1_000);
  assert.equal(reporter.flushAt, 1_100);
  reporter.report("limit-source", b, 1_010);
  reporter.report("limit-source", c, 1_020);
  reporter.report("limit-total", c, 1_030);
  assert.equal(reporter.flushAt, 1_100, "the earliest counts");
  const refused = (cause: string, count: number, fields: object) => ({ kind: "refused", cause, count, fields });
  const first = [refused("limit-source", 1, a), refused("limit-total", 1, c)];
  assert.deepEqual(replies.splice(0), first);
  reporter.flush();
  assert.deepEqual([replies.splice(0), reporter.flushAt], [[refused("limit-source", 2, a)], Number.POSITIVE_INFINITY]);
  reporter.flush();
  assert.deepEqual(replies, []);
  reporter.report("limit-source", b, 2_000);
  assert.deepEqual([replies, reporter.flushAt], [[refused("limit-source", 1, b)], 2_100]);
});
