import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { LookupSchedule } from "./lookup-schedule.ts";

test("no name is returned before its due time, and names are returned in order of due time", () => {
  const schedule = new LookupSchedule();
  schedule.add("b", 5_000);
  schedule.add("a", 2_500);
  assert.equal(schedule.take(2_900), undefined);
  assert.equal(schedule.take(10_000), "a");
  assert.equal(schedule.take(10_000), "b");
  assert.equal(schedule.take(10_000), undefined);
});

test("a name added with a past time is due at once", () => {
  const schedule = new LookupSchedule();
  schedule.add("a", 5_000);
  assert.equal(schedule.take(9_000), "a");
  assert.equal(schedule.take(9_000), undefined);
  schedule.add("b", 0);
  assert.equal(schedule.take(10_000), "b");
});

test("a name that is due at once does not wait for a later one", () => {
  const schedule = new LookupSchedule();
  schedule.add("later", 60_000);
  assert.equal(schedule.take(1_000), undefined);
  schedule.add("now", 0);
  assert.equal(schedule.take(2_000), "now");
});

test("property: every name is returned once, never early, and within a second of its due time", () => {
  const entry = fc.record({ at: fc.integer({ min: 0, max: 60_000 }), after: fc.integer({ min: 0, max: 3_000 }) });
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 50 }), (entries) => {
      const schedule = new LookupSchedule();
      const out = new Map<string, number>();
      let now = 1_000;
      const drain = () => {
        for (let name = schedule.take(now); name !== undefined; name = schedule.take(now)) {
          assert.ok(!out.has(name));
          out.set(name, now);
        }
      };
      const added = new Map<string, { at: number; when: number }>();
      for (const [index, { at, after }] of entries.entries()) {
        schedule.add(`n${index}`, at);
        added.set(`n${index}`, { at, when: now });
        now += after;
        drain();
      }
      for (; now < 250_000; now += 500) drain();
      assert.equal(out.size, entries.length);
      for (const [name, when] of out) {
        const { at, when: since } = added.get(name) ?? { at: 0, when: 0 };
        assert.ok(when >= at, "early");
        assert.ok(when <= Math.max(at, since) + 4_500, `late: ${when} for ${at}, added at ${since}`);
      }
    }),
    { numRuns: 200 },
  );
});
