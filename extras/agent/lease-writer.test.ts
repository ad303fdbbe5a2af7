import assert from "node:assert/strict";
import { test } from "node:test";
import { mockSteadyTime } from "#test/fakes/stopped-time.ts";
import { revisions, leaseRig as start, step, type Written } from "./fakes/lease-rig.ts";

test("a first revision is written at once, then at most one a second, and the newest last", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(100);
  for (let change = 2; change <= 40; change += 1) {
    keeper.report(step(`r${change}`));
    await pass(100);
  }
  await pass(2_000);
  assert.deepEqual([revisions(rig.written)[0], revisions(rig.written).at(-1)], ["r1", "r40"]);
  assert.ok(rig.written.length <= 6, `${rig.written.length} writes in 6 s`);
});

test("without changes, the Lease is renewed every half minute", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(95_000);
  assert.equal(rig.written.length, 4);
  assert.equal(new Set(rig.written.map(({ spec }) => spec.renewTime)).size, 4);
  assert.equal(rig.written[0]?.spec.holderIdentity, "agent-1");
});

test("a revision that some pods do not have does not replace the last one, and the pods are named", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(1_500);
  const reason = { code: "not-kubelets", text: "" };
  const problems = ["a", "b", "c", "d"].map((name) => ({ pod: `shop/${name}`, reason }));
  keeper.report({ applied: undefined, podRevisions: undefined, problems });
  await pass(1_500);
  assert.deepEqual(rig.written.at(-1)?.metadata.annotations, {
    "switchback.dev/format": "1",
    "switchback.dev/revision": "r1",
    "switchback.dev/problem": "shop/a: not-kubelets, shop/b: not-kubelets, shop/c: not-kubelets, 1 more",
  });
});

test("while the API server is away, the write is retried with the newest report", async (t) => {
  const { rig, keeper, pass } = start(t);
  rig.failing = true;
  keeper.report(step("r1"));
  await pass(12_000);
  keeper.report(step("r2"));
  rig.failing = false;
  await pass(6_000);
  assert.deepEqual(revisions(rig.written), ["r2"]);
});

test("a deleted Lease is written again only after a new report", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(1_000);
  await keeper.remove();
  await pass(60_000);
  assert.deepEqual([rig.written.length, rig.deleted], [1, 1]);
  keeper.report(step("r1"));
  await pass(1_000);
  assert.equal(rig.written.length, 2);
});

for (const [what, first, deleted, answerMs] of [
  ["it is being deleted", undefined, 1, 5_000],
  ["its deletion waits for a renewal", "r2", 0, 5_000],
  ["its deletion waits for a renewal that ends soon", "r2", 0, 100],
] as const) {
  test(`a new report while ${what} is written after that, not before`, async (t) => {
    const { rig, keeper, pass } = start(t);
    keeper.report(step("r1"));
    await pass(2_000);
    const { promise, resolve } = Promise.withResolvers<void>();
    rig.answered = promise;
    if (first !== undefined) keeper.report(step(first));
    await pass(100);
    const before = rig.written.length;
    const removed = keeper.remove();
    await pass(100);
    keeper.report(step("r3"));
    await pass(answerMs);
    assert.deepEqual([rig.written.length, rig.deleted], [before, deleted]);
    resolve();
    await removed;
    await pass(2_000);
    assert.equal(rig.deleted, 1);
    assert.ok(rig.written.length > before);
    assert.equal(revisions(rig.written).at(-1), "r3");
  });
}

test("a report from before the deletion is not written after it", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(2_000);
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.answered = promise;
  keeper.report(step("r2"));
  await pass(100);
  keeper.report(step("r3"));
  const removed = keeper.remove();
  await pass(5_000);
  resolve();
  await removed;
  await pass(60_000);
  assert.deepEqual([revisions(rig.written), rig.deleted], [["r1", "r2"], 1]);
});

test("a Lease that could not be renewed is still deleted, and comes back", async (t) => {
  const { rig, keeper, pass } = start(t);
  rig.failing = true;
  keeper.report(step("r1"));
  await pass(1_000);
  await keeper.remove();
  rig.failing = false;
  await pass(10_000);
  assert.deepEqual([rig.written.length, rig.deleted], [0, 1]);
  keeper.report(step("r1"));
  await pass(1_000);
  assert.deepEqual(revisions(rig.written), ["r1"]);
});

test("the Lease names the agent and the DaemonSet, and lasts for two renewals", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step(undefined));
  await pass(100);
  const { metadata, ...rest } = rig.written[0] as Written & { kind: string };
  assert.deepEqual(
    { metadata, ...rest },
    {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        name: "switchback-agent-node-1",
        namespace: "switchback-agent",
        labels: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" },
        annotations: { "switchback.dev/format": "1" },
        ownerReferences: [{ apiVersion: "apps/v1", kind: "DaemonSet", name: "switchback-agent", uid: "u" }],
      },
      spec: { holderIdentity: "agent-1", leaseDurationSeconds: 60, renewTime: "2023-11-14T22:13:20.000000Z" },
    },
  );
});

test("a second write waits exactly one second after the first", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(100);
  keeper.report(step("r2"));
  await pass(800);
  assert.deepEqual(revisions(rig.written), ["r1"]);
  await pass(100);
  assert.deepEqual(revisions(rig.written), ["r1", "r2"]);
});

test("an unchanged report causes no write, before or after the renewal", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(100);
  for (let count = 0; count < 20; count += 1) {
    keeper.report(step("r1"));
    await pass(1_000);
  }
  assert.equal(rig.written.length, 1);
  await pass(10_000);
  assert.equal(rig.written.length, 2, "the renewal is not put off by it");
});

test("a report during a write is written a second after it, not at the next renewal", async (t) => {
  const { rig, keeper, pass } = start(t);
  const { promise, resolve } = Promise.withResolvers<void>();
  rig.answered = promise;
  keeper.report(step("r1"));
  await pass(100);
  keeper.report(step("r2"));
  keeper.report(step("r1"));
  keeper.report(step("r3"));
  await pass(300);
  resolve();
  await pass(900);
  assert.deepEqual(revisions(rig.written), ["r1", "r3"]);
});

for (const [drawn, tries] of [
  [0, 6],
  [1, 3],
] as const) {
  test(`while the API server is away, there are ${tries} tries in 15 s and two log lines in total`, async (t) => {
    const { rig, keeper, pass, log } = start(t);
    Object.assign(rig, { failing: true, random: drawn });
    for (let count = 0; count < 148; count += 1) {
      keeper.report(step(`r${count}`));
      await pass(100);
    }
    assert.equal(rig.tried, tries);
    Object.assign(rig, { failing: false, random: 0 });
    await pass(5_000);
    assert.deepEqual(revisions(rig.written), ["r147"]);
    const lease = "switchback-agent-node-1";
    assert.deepEqual(log.lines, [
      { level: "warn", fields: { lease, error: "away" }, message: "lease: not renewed" },
      { level: "info", fields: { lease }, message: "lease: renewed again" },
    ]);
    await pass(25_000);
    assert.equal(rig.written.length, 1, "then it is renewed as ever");
  });
}

test("after a stop, nothing is written or scheduled, even for a new report or after a running write", async (t) => {
  const { rig, keeper, pass } = start(t);
  const { promise, resolve } = Promise.withResolvers<void>();
  keeper.report(step("r1"));
  await pass(1_500);
  rig.answered = promise;
  keeper.report(step("r2"));
  await pass(100);
  keeper.stop();
  keeper.report(step("r3"));
  resolve();
  await pass(120_000);
  assert.deepEqual(revisions(rig.written), ["r1", "r2"]);
});

test("a Lease that is already gone counts as deleted; another refusal is thrown, and later writes work", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(100);
  rig.refusal = 404;
  await keeper.remove();
  rig.refusal = 403;
  await assert.rejects(keeper.remove(), { status: 403 });
  keeper.report(step("r1"));
  await pass(1_100);
  assert.deepEqual([revisions(rig.written), rig.deleted], [["r1", "r1"], 2]);
});

test("three problems are all named", async (t) => {
  const { rig, keeper, pass } = start(t);
  const reason = { code: "not-kubelets", text: "" };
  const of = (...names: string[]) => names.map((name) => ({ pod: `shop/${name}`, reason }));
  keeper.report({ applied: undefined, podRevisions: undefined, problems: of("a", "b", "c") });
  await pass(100);
  assert.deepEqual(rig.written[0]?.metadata.annotations, {
    "switchback.dev/format": "1",
    "switchback.dev/problem": "shop/a: not-kubelets, shop/b: not-kubelets, shop/c: not-kubelets",
  });
});

test("a clock that is set back delays no write for longer than a second", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(2_000);
  const time = Date.now;
  const begun = time() - performance.now();
  mockSteadyTime(t, () => time() - begun);
  t.mock.method(Date, "now", () => time() - 3_600_000);
  keeper.report(step("r2"));
  await pass(2_000);
  keeper.report(step("r3"));
  await pass(2_000);
  assert.deepEqual(revisions(rig.written), ["r1", "r2", "r3"]);
});
