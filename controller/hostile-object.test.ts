import assert from "node:assert/strict";
import { test } from "node:test";
import { loopRig, mapped, published, stopClock } from "#test/fakes/loop-rig.ts";

test("an object that cannot be evaluated affects only itself: it is logged, and its names stay", async (t) => {
  const pass = stopClock(t);
  const { loop, source, store, plan, logged, leadership } = loopRig();
  const set = plan.set.bind(plan);
  let isOdd = false;
  plan.set = (object, claims) => {
    if (isOdd && object === "shop/odd") throw new Error("odd");
    set(object, claims);
  };
  loop.start(leadership.signal);
  source.sync();
  source.set("shop/odd", "odd.example.com");
  isOdd = true;
  for (const object of ["shop/a", "shop/odd", "shop/b"]) source.set(object, `${object.slice(5)}.new.example.com`);
  await pass(1_000);
  assert.deepEqual(published(store), mapped(["a.new.example.com", "b.new.example.com", "odd.example.com"]));
  assert.ok(logged.includes("object-failed"));
});
