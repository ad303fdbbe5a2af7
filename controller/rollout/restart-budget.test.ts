import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import {
  FIRST,
  HOUR_MS,
  inStep,
  podsPath,
  RECORD,
  RIG_START,
  restartRig,
  SECOND,
  STAMP,
  times,
  WEB,
} from "#test/fakes/restart-rig.ts";

describe("the budget", () => {
  const holders = (count: number, of: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`${of}-${index}.example.com`, of]));

  test("brings a tenant three names of a day within a minute, and after six a neighbour its next one", async (t) => {
    const rig = await inStep(t);
    for (let index = 1; index <= 6; index += 1) {
      rig.publish({ ...FIRST, ...holders(index, "tenant") });
      await rig.pass(60_000, 5_000);
      if (index <= 3) assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", index]);
      await rig.pass(HOUR_MS / 6 - 60_000, 5_000);
    }
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["budget-spent", 4]);
    const asked = Date.now();
    rig.publish({ ...FIRST, ...holders(6, "tenant"), "new.example.com": "neighbour" });
    await rig.pass(60_000, 500);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 5]);
    const last = rig.world.restarts.at(-1)?.at ?? 0;
    assert.ok(last + RIG_START - asked < 60_000);
  });

  test("of a removed name is that of the namespace that held it", async (t) => {
    const rig = await inStep(t);
    const neighbour = { "kept.example.com": "neighbour", "old.example.com": "neighbour" };
    rig.publish({ ...FIRST, ...neighbour, ...holders(4, "tenant") });
    await rig.pass(25 * HOUR_MS, HOUR_MS / 10);
    for (const left of [3, 2, 1, 0]) {
      rig.publish({ ...FIRST, ...neighbour, ...holders(left, "tenant") });
      await rig.pass(HOUR_MS / 4, 5_000);
    }
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 5]);
    rig.publish({ ...FIRST, "kept.example.com": "neighbour" });
    await rig.pass(HOUR_MS / 4, 5_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 6]);
  });

  test("is not forgotten by a new leader, nor if the owner removes the record", async (t) => {
    const rig = await inStep(t, { dailyBudget: 2 });
    rig.publish(SECOND);
    await rig.pass(HOUR_MS, 5_000);
    rig.edit(WEB, { metadata: { annotations: { [RECORD]: null } } });
    rig.publish({ ...SECOND, "third.example.com": "shop" });
    await rig.pass(HOUR_MS, 5_000);
    await rig.end();
    const next = rig.lead();
    rig.publish({ ...SECOND, "fourth.example.com": "shop" });
    await rig.pass(HOUR_MS, 5_000);
    assert.deepEqual([next.codeOf("web"), times(rig)], ["budget-spent", 2]);
  });

  test("starts from zero after a restart by hand", async (t) => {
    const rig = await inStep(t, { dailyBudget: 1 });
    rig.publish(SECOND);
    await rig.pass(60_000, 500);
    rig.publish({ ...SECOND, "third.example.com": "shop" });
    await rig.pass(60_000, 500);
    assert.equal(rig.codeOf("web"), "budget-spent");
    const at = new Date().toISOString();
    rig.edit(WEB, { spec: { template: { metadata: { annotations: { [STAMP]: at } } } } });
    await rig.pass(60_000, 500);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", 2]);
    rig.publish({ ...SECOND, "third.example.com": "shop", "fourth.example.com": "shop" });
    rig.world.broken.add("web");
    rig.report(WEB, true);
    await rig.pass(10_000);
    assert.equal(rig.codeOf("web"), "not-available");
    rig.report(WEB, false);
    await rig.pass(60_000, 500);
    assert.equal(times(rig), 3);
  });

  test("bounds the restarts of a template that somebody puts back every 10 s, and the status says so", async (t) => {
    const rig = await inStep(t);
    // The old ReplicaSet still has its old pods.
    const old = structuredClone(rig.api.at(`${podsPath()}/web-0`));
    rig.publish(SECOND);
    for (let round = 0; round < 420; round += 1) {
      await rig.pass(round < 200 ? 10_000 : HOUR_MS / 10, round < 200 ? 5_000 : HOUR_MS / 10);
      const annotations = { [STAMP]: null };
      rig.edit(WEB, {
        metadata: { annotations: { [RECORD]: null } },
        spec: { template: { metadata: { annotations } } },
      });
      await rig.pass(100);
      rig.api.put(`${podsPath()}/web-0`, old ?? {});
    }
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["budget-spent", 6]);
    assert.match(rig.statusOf("web")?.text ?? "", /somebody put the template back/);
  });

  test("is the same with clocks an hour apart", async (t) => {
    for (const skewMs of [-HOUR_MS, HOUR_MS]) {
      const rig = await inStep(t);
      for (let index = 1; index <= 8; index += 1) {
        rig.world.skewMs = index % 2 === 0 ? 0 : skewMs;
        rig.publish({ ...FIRST, ...holders(index, "shop") });
        await rig.pass(HOUR_MS, 10_000);
      }
      assert.ok(times(rig) <= 6, `${times(rig)} restarts`);
      const stamps = rig.api.writes.map(({ body }) => JSON.stringify(body).match(/restartedAt":"([^"]+)/)?.[1] ?? "");
      assert.deepEqual(stamps, [...new Set(stamps)].sort());
      await rig.end();
      t.mock.timers.reset();
    }
  });
});

describe("a restart that does not help", () => {
  test("is not repeated once a pod proves it, until somebody changes the workload", async (t) => {
    const rig = await inStep(t);
    rig.world.injects = false;
    rig.publish(SECOND);
    await rig.pass(HOUR_MS, 1_000);
    assert.deepEqual([rig.codeOf("web"), rig.statusOf("web")?.standing], ["did-not-converge", "stuck"]);
    assert.ok(times(rig) <= 2, `${times(rig)}: the first may have met a replica with the map before`);
    const before = times(rig);
    rig.world.injects = true;
    rig.edit(WEB, { spec: { template: { metadata: { annotations: { [STAMP]: new Date().toISOString() } } } } });
    await rig.pass(HOUR_MS, 5_000);
    assert.deepEqual([rig.codeOf("web"), times(rig)], ["in-step", before + 1]);
  });

  test("is not repeated because of names of others, but because of its own", async (t) => {
    const rig = restartRig(t);
    rig.publish(FIRST);
    rig.deploy("web", { template: { "switchback.dev/hosts": "first.example.com second.example.com" } });
    const leader = rig.lead();
    await rig.pass(1_000);
    rig.world.injects = false;
    rig.publish(SECOND);
    await rig.pass(HOUR_MS, 1_000);
    const before = times(rig);
    rig.publish({ ...SECOND, "other.example.com": "shop" });
    await rig.pass(HOUR_MS, 5_000);
    assert.deepEqual([leader.codeOf("web"), times(rig)], ["did-not-converge", before]);
    await leader.end();
    const next = rig.lead();
    await rig.pass(HOUR_MS, 5_000);
    assert.deepEqual([next.codeOf("web"), times(rig)], ["did-not-converge", before]);
    rig.world.injects = true;
    rig.publish({ "second.example.com": "shop" });
    await rig.pass(HOUR_MS, 5_000);
    assert.deepEqual([next.codeOf("web"), times(rig)], ["in-step", before + 1]);
  });

  test("pods that started while the webhook was away are restarted", async (t) => {
    const rig = await inStep(t);
    rig.world.injects = false;
    rig.deploy("late");
    await rig.pass(1_000);
    rig.world.injects = true;
    await rig.pass(10_000);
    assert.deepEqual([rig.codeOf("late"), times(rig, "late")], ["in-step", 1]);
  });

  test("whose rollout fails is not repeated, and other workloads go on", async (t) => {
    const rig = await inStep(t);
    rig.world.broken.add("web");
    rig.publish(SECOND);
    await rig.pass(5_000);
    assert.equal(rig.codeOf("web"), "restarting");
    rig.report(WEB, true, true);
    rig.deploy("other", { template: { "switchback.dev/hosts": "first.example.com" } });
    rig.publish({ ...SECOND, "third.example.com": "shop" });
    await rig.pass(60_000, 500);
    assert.deepEqual([rig.codeOf("web"), rig.codeOf("other"), times(rig)], ["rollout-failed", "in-step", 1]);
    assert.deepEqual(rig.counted, ["restarted", "failed"]);
  });

  for (const hasRoom of [true, false]) {
    const when = hasRoom ? "" : ", also if no pod could be created";
    test(`holds its namespace for an hour after three in a row, whoever leads, and then tries one${when}`, (t) =>
      holds(t, hasRoom));
  }

  async function holds(t: TestContext, hasRoom: boolean) {
    const rig = restartRig(t, { rolloutSeconds: 60 });
    rig.world.hasRoom = hasRoom;
    rig.publish(FIRST);
    for (const name of ["a", "b", "c", "d", "e"]) rig.deploy(name);
    const leader = rig.lead();
    await rig.pass(1_000);
    for (const name of ["a", "b", "c", "d"]) rig.world.broken.add(name);
    rig.publish(SECOND);
    await rig.pass(300_000, 1_000);
    assert.deepEqual(
      rig.world.restarts.map(({ name }) => name),
      ["a", "b", "c"],
    );
    assert.deepEqual([leader.codeOf("d"), leader.codeOf("e")], ["restarts-held", "restarts-held"]);
    await leader.end();
    const next = rig.lead();
    await rig.pass(300_000, 1_000);
    assert.deepEqual([next.codeOf("d"), rig.world.restarts.length], ["restarts-held", 3]);
    await rig.pass(HOUR_MS, 5_000);
    assert.equal(rig.world.restarts.length, 4);
    rig.world.broken.clear();
    await rig.pass(HOUR_MS, 5_000);
    assert.deepEqual(
      ["a", "b", "c", "d", "e"].map((name) => next.codeOf(name)),
      Array(5).fill("in-step"),
    );
    assert.equal(rig.world.restarts.length, 5);
  }

  test("but proves nothing, neither counts towards a hold nor ends the row", async (t) => {
    const rig = restartRig(t, { rolloutSeconds: 60 });
    rig.publish(FIRST);
    for (const name of ["a", "b", "unproven", "c", "d"]) rig.deploy(name);
    const leader = rig.lead();
    await rig.pass(1_000);
    for (const name of ["a", "b", "c"]) rig.world.broken.add(name);
    rig.publish(SECOND);
    await rig.pass(120_000, 500);
    // A webhook replica may still have the map before.
    rig.world.injects = false;
    rig.publish({ ...SECOND, "third.example.com": "shop" });
    await rig.pass(120_000, 500);
    assert.deepEqual(
      rig.world.restarts.map(({ name }) => name),
      ["a", "b", "unproven", "c"],
    );
    assert.equal(leader.codeOf("d"), "restarts-held");
  });

  test("does not count towards a hold if another one helped in between", async (t) => {
    const rig = restartRig(t, { rolloutSeconds: 60 });
    rig.publish(FIRST);
    const names = ["a", "b", "c", "d", "e", "f"];
    for (const name of names) rig.deploy(name);
    rig.lead();
    await rig.pass(1_000);
    for (const name of ["a", "c", "e"]) rig.world.broken.add(name);
    rig.publish(SECOND);
    await rig.pass(300_000, 1_000);
    assert.deepEqual(
      rig.world.restarts.map(({ name }) => name),
      names,
    );
  });
});
