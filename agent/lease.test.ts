import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { SwitchbackError } from "../errors/errors.ts";
import { silentLogger } from "../observe/log.ts";
import { LeaseKeeper } from "./lease.ts";

interface Written {
  readonly metadata: { readonly annotations: Record<string, string>; readonly ownerReferences?: object[] };
  readonly spec: { readonly renewTime: string; readonly holderIdentity: string };
}

function start(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  /** What answers wait for. */
  const answered: Promise<void> = Promise.resolve();
  const rig = { written: [] as Written[], deleted: 0, failing: false, answered };
  const client = {
    async apply<T>(_path: string, object: object): Promise<T> {
      if (rig.failing) throw new SwitchbackError("kube-unreachable", "away");
      rig.written.push(object as Written);
      await rig.answered;
      return object as T;
    },
    async delete() {
      rig.deleted += 1;
      await rig.answered;
    },
  };
  const keeper = new LeaseKeeper({
    client,
    namespace: "switchback-agent",
    node: "node-1",
    identity: "agent-1",
    renewMs: 30_000,
    daemonSet: () => ({ name: "switchback-agent", uid: "u" }),
    log: silentLogger,
    now: Date.now,
  });
  t.after(() => keeper.stop());
  /** Lets time go by in steps, and what hangs on it happen. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 100) {
      t.mock.timers.tick(Math.min(100, left));
      for (let turns = 0; turns < 5; turns += 1) await Promise.resolve();
    }
  };
  return { rig, keeper, pass };
}

const step = (applied: string | undefined) => ({ applied, problems: [] });
const revisions = (written: readonly Written[]) =>
  written.map(({ metadata }) => metadata.annotations["switchback.dev/revision"]);

test("a new revision is written at once, then at most one a second, the newest last", async (t) => {
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

test("without news it is renewed every half minute", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(95_000);
  assert.equal(rig.written.length, 4);
  assert.equal(new Set(rig.written.map(({ spec }) => spec.renewTime)).size, 4);
  assert.equal(rig.written[0]?.spec.holderIdentity, "agent-1");
});

test("a revision that not every pod has does not take the place of one that they had, and the pods are named", async (t) => {
  const { rig, keeper, pass } = start(t);
  keeper.report(step("r1"));
  await pass(1_500);
  const reason = { code: "not-kubelets", text: "" };
  const problems = ["a", "b", "c", "d"].map((name) => ({ pod: `shop/${name}`, reason }));
  keeper.report({ applied: undefined, problems });
  await pass(1_500);
  assert.deepEqual(rig.written.at(-1)?.metadata.annotations, {
    "switchback.dev/revision": "r1",
    "switchback.dev/problem": "shop/a: not-kubelets, shop/b: not-kubelets, shop/c: not-kubelets, 1 more",
  });
});

test("an API server that is away is tried again, with the newest to say", async (t) => {
  const { rig, keeper, pass } = start(t);
  rig.failing = true;
  keeper.report(step("r1"));
  await pass(12_000);
  keeper.report(step("r2"));
  rig.failing = false;
  await pass(6_000);
  assert.deepEqual(revisions(rig.written), ["r2"]);
});

test("once it is deleted nothing writes it, until there is something to report again", async (t) => {
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
  test(`what is to be reported again while ${what} is written after that, not before`, async (t) => {
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

test("what was reported before it is deleted is not written after that", async (t) => {
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

test("one that could not be renewed is deleted, and comes back, all the same", async (t) => {
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
