import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { createLru } from "./lru.ts";

test("the least recently used entry is evicted first", () => {
  const lru = createLru<number>(3);
  lru.set("a", 1, 1);
  lru.set("b", 2, 1);
  lru.set("c", 3, 1);
  lru.get("a");
  lru.set("d", 4, 1);
  assert.deepEqual(
    ["a", "b", "c", "d"].map((key) => lru.get(key)),
    [1, undefined, 3, 4],
  );
});

test("an entry that is heavier than the budget is not kept and evicts nothing", () => {
  const lru = createLru<number>(3);
  lru.set("a", 1, 2);
  lru.set("b", 2, 4);
  assert.equal(lru.get("a"), 1);
  assert.equal(lru.get("b"), undefined);
});

test("the kept entries never exceed the budget, and include the newest one that fits", () => {
  const steps = fc.array(fc.tuple(fc.constantFrom("a", "b", "c", "d", "e"), fc.integer({ min: 1, max: 12 })));
  fc.assert(
    fc.property(steps, (list) => {
      const lru = createLru<number>(10);
      for (const [key, weight] of list) {
        lru.set(key, weight, weight);
        assert.equal(lru.get(key), weight <= 10 ? weight : undefined);
        const kept = ["a", "b", "c", "d", "e"].map((each) => lru.get(each) ?? 0);
        assert.ok(kept.reduce((sum, each) => sum + each) <= 10);
      }
    }),
  );
});

test("entries that fill the budget exactly are kept, and a key that is set again has its new weight only", () => {
  const lru = createLru<number>(3);
  const kept = () => ["a", "b"].map((key) => lru.get(key));
  lru.set("a", 1, 3);
  assert.deepEqual(kept(), [1, undefined]);
  lru.set("a", 2, 1);
  lru.set("b", 3, 2);
  assert.deepEqual(kept(), [2, 3]);
  lru.set("b", 4, 3);
  assert.deepEqual(kept(), [undefined, 4]);
  lru.set("b", 5, 4);
  assert.deepEqual(kept(), [undefined, undefined], "too heavy: not kept, and neither is what it had before");
  lru.set("a", 6, 3);
  assert.deepEqual(kept(), [6, undefined]);
});
