import assert from "node:assert/strict";
import { test } from "node:test";
import { revisions, leaseRig as start, step, type Written } from "./fakes/lease-rig.ts";

// Tests which changes of a report are written before the next renewal.

const LIST = "switchback.dev/pod-revisions";
const listsOf = (written: readonly Written[]) => written.map(({ metadata }) => metadata.annotations[LIST]);

test("a change of the map that concerns no pod of the node is written only at the renewal", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1", ["p1"]));
  await pass(2_000);
  for (let change = 2; change <= 20; change += 1) {
    keeper.report(step(`r${change}`, ["p1"]));
    await pass(1_000);
  }
  assert.deepEqual(revisions(rig.written), ["r1"]);
  await pass(12_000);
  assert.deepEqual(revisions(rig.written), ["r1", "r20"]);
  assert.deepEqual(listsOf(rig.written), ["p1", "p1"]);
});

test("a changed list is written with the current map revision; an unknown list keeps the last one", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1", ["p1"]));
  await pass(2_000);
  keeper.report(step("r2", ["p1", "p2"]));
  await pass(2_000);
  keeper.report(step(undefined, undefined));
  await pass(2_000);
  assert.deepEqual(listsOf(rig.written), ["p1", "p1 p2"]);
  assert.deepEqual(revisions(rig.written), ["r1", "r2"]);
});

test("with too many pod revisions for a list, the map's revision is written at once", async (t) => {
  const { rig, keeper, pass } = start(t);
  const many = Array.from({ length: 129 }, (_, index) => `p${index}`);
  keeper.report(step("r1", ["p1"]));
  await pass(2_000);
  for (const revision of ["r2", "r3"]) {
    keeper.report(step(revision, many));
    await pass(2_000);
  }
  assert.deepEqual(revisions(rig.written), ["r1", "r2", "r3"]);
  assert.deepEqual(listsOf(rig.written), ["p1", undefined, undefined]);
});

test("the first write is at once; later changes are written at most once in the spread of all agents", async (t) => {
  const { rig, keeper, pass } = start(t);
  Object.assign(rig, { spreadMs: 20_000, random: 0.5 });
  keeper.report(step("r1", ["p1"]));
  await pass(200);
  assert.deepEqual(listsOf(rig.written), ["p1"]);
  await pass(22_000);
  keeper.report(step("r2", ["p2"]));
  // The renewal, which `random` makes an eighth earlier, comes before half of the spread is over.
  await pass(3_000);
  assert.deepEqual(listsOf(rig.written), ["p1"]);
  await pass(1_200);
  assert.deepEqual(listsOf(rig.written), ["p1", "p2"]);
  for (let change = 3; change <= 22; change += 1) {
    keeper.report(step(`r${change}`, [`p${change}`]));
    await pass(1_000);
  }
  assert.equal(rig.written.length, 3, "one in 20 s");
  assert.match(listsOf(rig.written)[2] ?? "", /^p2[12]$/);
});

test("a change waits for its random part of the spread", async (t) => {
  const { rig, keeper, pass } = start(t);
  Object.assign(rig, { spreadMs: 10_000, random: 0.25 });
  keeper.report(step("r1", ["p1"]));
  await pass(12_000);
  keeper.report(step("r2", ["p2"]));
  await pass(2_400);
  assert.deepEqual(listsOf(rig.written), ["p1"]);
  await pass(200);
  assert.deepEqual(listsOf(rig.written), ["p1", "p2"]);
});

test("renewals come up to a quarter of the interval early", async (t) => {
  const { rig, keeper, pass } = start(t);
  rig.random = 1;
  keeper.report(step("r1", []));
  await pass(22_400);
  assert.equal(rig.written.length, 1);
  await pass(300);
  assert.equal(rig.written.length, 2);
});
