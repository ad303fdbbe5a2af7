import assert from "node:assert/strict";
import { test } from "node:test";
import {
  breakTargets,
  DOCUMENT,
  direct,
  frontPath,
  frontsRig,
  holdWrites,
  lead,
  NAMESPACE,
  PUBLISHED,
  SLICES,
  target,
  written,
} from "#test/fakes/fronts-rig.ts";
import { refusal } from "#test/fakes/memory-kube.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";

// When fronts are written: during terms, after simultaneous changes, and when the reconciler stops.

test("a term that ended before or during a run writes no more and reports no failure", async (t) => {
  const rig = await frontsRig(t, { configured: Array.from({ length: 6 }, (_, index) => target(`t${index}`)) });
  rig.fronts.use(new Set());
  rig.fronts.lead(new Set(), AbortSignal.abort());
  await rig.pass(10_000);
  assert.deepEqual(written(rig), []);
  rig.kube.onWrite = ({ path }) => {
    if (path === DOCUMENT) rig.term.abort();
  };
  await lead(rig);
  await rig.pass(10_000);
  assert.deepEqual(written(rig), [PUBLISHED]);
  const second = new AbortController();
  rig.kube.onWrite = ({ path }) => {
    if (path === frontPath("t3")) second.abort();
  };
  rig.fronts.lead(new Set(), second.signal);
  await rig.pass(10_000);
  assert.deepEqual(
    written(rig),
    ["t0", "t1", "t2", "t3"].map((name) => `APPLY switchback-${name}`),
  );
  assert.deepEqual(rig.log.messages, []);
  rig.kube.onWrite = () => {};
  rig.fronts.lead(new Set(), new AbortController().signal);
  await rig.pass(100);
  assert.equal(rig.kube.paths(`${NAMESPACE}/services`).length, 6, "a later term goes on");
});

test("a term that ends before an unused front is deleted leaves that front", async (t) => {
  const rig = await frontsRig(t, { found: [target("a"), target("b")], discovery: { keepSeconds: 60 } });
  await lead(rig, "a", "b");
  rig.fronts.use(new Set());
  await rig.pass(100);
  written(rig);
  rig.kube.onWrite = () => rig.term.abort();
  await rig.pass(61_000);
  assert.deepEqual(written(rig), ["DELETE switchback-a"]);
});

test("a change during a run is applied right after it", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")], found: [target("late")] });
  const { held, release } = holdWrites(rig);
  await lead(rig);
  assert.equal(held.length, 1);
  rig.fronts.use(new Set(["late"]));
  await rig.pass(10_000);
  assert.equal(rig.kube.writes.length, 1, "one turn at a time");
  release();
  await rig.pass(40);
  assert.ok(rig.kube.at(frontPath("late")));
});

test("a change after a failure does not wait for the retry", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")], found: [target("late")] });
  rig.kube.onWrite = ({ path }) => {
    throw refusal(path, 503);
  };
  await lead(rig);
  rig.kube.onWrite = () => {};
  rig.catalog.changed();
  await rig.pass(40);
  assert.ok(rig.kube.at(frontPath("edge")));
});

test("simultaneous changes are reported once, 50 ms after the first", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")] });
  rig.state.changes = 0;
  for (let change = 0; change < 10; change += 1) rig.catalog.changed();
  await rig.pass(40);
  assert.equal(rig.state.changes, 0);
  await rig.pass(10);
  assert.equal(rig.state.changes, 1);
  await rig.pass(1_000);
  assert.equal(rig.state.changes, 1);
  rig.catalog.changed();
  await rig.pass(50);
  assert.equal(rig.state.changes, 2);
});

for (const [what, part] of [
  ["document", DOCUMENT],
  ["front Services", frontPath("edge")],
  ["proxies", `${SLICES}/slice`],
  ["Services of targets without a relay", "/api/v1/namespaces/infra/services/plain"],
] as const) {
  test(`an inactive watch of the ${what} is detected`, async (t) => {
    const labels = { "switchback.dev/target": "edge", "kubernetes.io/service-name": "switchback-proxy" };
    const paths = [DOCUMENT, frontPath("edge"), `${SLICES}/slice`, "/api/v1/namespaces/infra/services/plain"];
    const rig = await frontsRig(t, { configured: [direct("plain")] });
    for (const path of paths) rig.kube.put(path, { metadata: { labels } });
    await rig.pass(100);
    assert.ok(rig.fronts.inactiveMs <= 100);
    await rig.pass(5_000);
    for (const path of paths) if (path !== part) rig.kube.put(path, { metadata: { labels }, touched: true });
    await rig.pass(10);
    assert.ok(rig.fronts.inactiveMs >= 5_000);
    rig.kube.put(part, { metadata: { labels }, touched: true });
    await rig.pass(10);
    assert.ok(rig.fronts.inactiveMs <= 20);
  });
}

test("stopping ends all watches and cancels the scheduled work", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge"), direct("plain")] });
  assert.equal(rig.kube.watched.length, 4);
  rig.fronts.use(new Set());
  rig.fronts.lead(new Set(), rig.term.signal);
  rig.catalog.changed();
  const { changes } = rig.state;
  await rig.fronts.stop();
  assert.deepEqual(rig.kube.watched, []);
  rig.fronts.use(new Set(["edge"]));
  await rig.pass(10_000);
  assert.deepEqual(written(rig), []);
  assert.equal(rig.state.changes, changes);
});

test("stopping during a run finishes that run and starts no other, even after a change", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")], found: [target("late")] });
  const { release } = holdWrites(rig);
  await lead(rig);
  rig.fronts.use(new Set(["late"]));
  const stopped = rig.fronts.stop();
  assert.equal(await isSettled(stopped), false, "it waits for the turn");
  release();
  await stopped;
  await rig.pass(10_000);
  assert.deepEqual(written(rig), [PUBLISHED, "APPLY switchback-edge"]);
});

test("a change is applied after a short delay, so that simultaneous changes need one run", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")] });
  await lead(rig);
  written(rig);
  breakTargets(rig);
  await rig.pass(10);
  assert.deepEqual(written(rig), []);
  await rig.pass(10);
  assert.deepEqual(written(rig), [PUBLISHED]);
});

test("stopping clears the timer for the end of a front", async (t) => {
  const rig = await frontsRig(t, { found: [target("a")] });
  await lead(rig, "a");
  const started = t.mock.method(globalThis, "setTimeout");
  const cleared = t.mock.method(globalThis, "clearTimeout");
  rig.fronts.use(new Set());
  await rig.pass(1_000);
  const sleep = started.mock.calls.findLast(({ arguments: [, ms = 0] }) => ms >= 3_600_000);
  assert.ok(sleep);
  await rig.fronts.stop();
  assert.ok(cleared.mock.calls.some(({ arguments: [timer] }) => timer === sleep.result));
});
