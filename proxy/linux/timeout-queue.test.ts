import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { type TimeoutEntry, TimeoutQueue } from "./timeout-queue.ts";

type Named = TimeoutEntry & { readonly name: number };

function entry(name: number): Named {
  return { name, deadline: 0, queue: undefined, previous: undefined, next: undefined };
}

/** A queue of 10 ms, and the names of the entries that have expired. */
function start(ms = 10) {
  const expired: number[] = [];
  const queue = new TimeoutQueue(ms, (one) => {
    assert.deepEqual([one.queue, one.previous, one.next], [undefined, undefined, undefined]);
    expired.push((one as Named).name);
  });
  return { queue, expired };
}

test("an entry expires at its deadline, not before", () => {
  const { queue, expired } = start();
  assert.equal(queue.nextDeadline(), Number.POSITIVE_INFINITY);
  const one = entry(1);
  queue.add(one, 100);
  queue.add(entry(2), 105);
  assert.deepEqual([one.deadline, one.queue, queue.nextDeadline()], [110, queue, 110]);
  queue.expire(109);
  assert.deepEqual(expired, []);
  queue.expire(110);
  assert.deepEqual([expired, queue.nextDeadline()], [[1], 115]);
  queue.expire(1_000);
  assert.deepEqual([expired, queue.nextDeadline()], [[1, 2], Number.POSITIVE_INFINITY]);
});

test("an entry that is added to another queue leaves the first", () => {
  const [one, other] = [start(10), start(20)];
  const moved = entry(1);
  one.queue.add(moved, 0);
  other.queue.add(moved, 0);
  one.queue.expire(1_000);
  assert.deepEqual(
    [one.expired, one.queue.nextDeadline(), other.queue.nextDeadline()],
    [[], Number.POSITIVE_INFINITY, 20],
  );
  other.queue.expire(20);
  assert.deepEqual(other.expired, [1]);
});

test("an entry that expires may be added again at once, and expires again later", () => {
  const again: number[] = [];
  const queue: TimeoutQueue = new TimeoutQueue(10, (one) => {
    again.push(queue.nextDeadline());
    queue.add(one, 50);
  });
  queue.add(entry(1), 0);
  queue.expire(10);
  assert.deepEqual([again, queue.nextDeadline()], [[Number.POSITIVE_INFINITY], 60]);
});

test("property: after any adds, moves to the end and removals, the rest expires in the order of adding", () => {
  const step = fc.record({ name: fc.nat(5), isAdded: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50, size: "max" }), (steps) => {
      const { queue, expired } = start();
      const entries = Array.from({ length: 6 }, (_, name) => entry(name));
      let expected: number[] = [];
      for (const [now, { name, isAdded }] of steps.entries()) {
        const one = entries[name];
        if (one === undefined || (!isAdded && one.queue === undefined)) continue;
        expected = expected.filter((other) => other !== name);
        if (isAdded) {
          queue.add(one, now);
          expected.push(name);
        } else queue.remove(one);
        const first = expected[0];
        const earliest = first === undefined ? Number.POSITIVE_INFINITY : entries[first]?.deadline;
        assert.equal(queue.nextDeadline(), earliest);
      }
      queue.expire(1_000);
      assert.deepEqual(expired, expected);
    }),
  );
});
