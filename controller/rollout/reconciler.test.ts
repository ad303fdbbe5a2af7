import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES, RunningWorld, type Temper } from "#test/fakes/rollout-world.ts";

const KEY = "shop/Deployment/web";
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** A world with one workload. A name has just been added for it. */
function stale(key = KEY, temper: Temper = "good"): RunningWorld {
  const world = new RunningWorld();
  world.add(key, temper);
  world.publish("ab");
  return world;
}

test("a new name causes one restart, after the debounce", async () => {
  const world = stale();
  await world.pass(1_900, 100);
  assert.equal(world.patches.length, 0);
  assert.equal(await world.codeOf(KEY), "debouncing");
  await world.pass(200, 100);
  assert.equal(world.patches.length, 1);
  assert.equal(await world.codeOf(KEY), "restarting");
  await world.pass(MINUTE_MS);
  assert.equal(await world.codeOf(KEY), "in-step");
  assert.deepEqual(
    world.events.map(({ kind }) => kind),
    ["restarted", "outcome"],
  );
});

test("a mapping that flaps 20 times in 10 s causes at most one restart, wherever it ends", async () => {
  for (const flaps of [20, 21]) {
    const world = new RunningWorld();
    world.add(KEY);
    for (let flap = 0; flap < flaps; flap++) {
      world.publish(flap % 2 === 0 ? "ab" : "a");
      await world.pass(500, 100);
    }
    await world.pass(30 * MINUTE_MS, 1_000);
    assert.equal(world.patches.length, flaps % 2, `${flaps} flaps`);
  }
});

test("a name that keeps changing delays a restart by at most twenty seconds", async () => {
  const world = stale();
  for (let change = 0; change < 30; change++) {
    world.publish(change % 2 === 0 ? "abc" : "abd");
    await world.pass(1_000, 100);
  }
  assert.equal(world.patches.length, 1);
});

test("the longest debounce is configurable", async () => {
  const world = new RunningWorld({ ...RULES, maxDebounceMs: 5_000 });
  world.add(KEY);
  for (let change = 0; change < 8; change++) {
    world.publish(change % 2 === 0 ? "abc" : "abd");
    await world.pass(1_000, 100);
    if (change < 4) assert.equal(world.patches.length, 0);
  }
  assert.equal(world.patches.length, 1);
});

test("a restart for a removed name waits ten minutes, and is cancelled if the name returns", async () => {
  const world = new RunningWorld();
  world.names = world.webhook = "ab";
  world.add(KEY);
  world.publish("a");
  await world.pass(9 * MINUTE_MS, 1_000);
  assert.equal(await world.codeOf(KEY), "vanished-waiting");
  world.publish("ab");
  await world.pass(20 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 0);
  world.publish("a");
  await world.pass(11 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 1);
});

test("a different revision without different lines causes no restart", async () => {
  const world = stale();
  world.diffHosts = async () => ({ missing: 0, extra: 0 });
  await world.pass(MINUTE_MS);
  assert.equal(world.patches.length, 0);
  assert.equal(await world.codeOf(KEY), "same-names");
});

test("there is no restart while a webhook replica uses an older map, and one when it has the new map", async () => {
  const world = new RunningWorld();
  world.add(KEY);
  world.publish("ab", false);
  await world.pass(MINUTE_MS);
  assert.equal(world.patches.length, 0);
  assert.equal(await world.codeOf(KEY), "webhook-behind");
  world.webhook = "ab";
  await world.pass(2_000);
  assert.equal(world.patches.length, 1);
});

test("the interval doubles, and the seventh restart of a day waits for the next day", async () => {
  const world = new RunningWorld();
  world.add(KEY);
  for (let n = 0; n < 12; n++) {
    world.publish(`a${"bcdefghijklm".slice(0, n + 1)}`);
    await world.pass(20 * MINUTE_MS, 1_000);
  }
  assert.equal(world.patches.length, RULES.dailyBudget);
  assert.equal(await world.codeOf(KEY), "budget-spent");
  await world.pass(DAY_MS, 10 * MINUTE_MS);
  assert.equal(world.patches.length, RULES.dailyBudget + 1);
});

test("the minimum intervals between restarts are 30, 60, 120, 240 and 480 s", async () => {
  const world = new RunningWorld();
  world.add(KEY);
  for (let n = 0; n < 1_000; n++) {
    // Each time a new name, never unchanged for long enough to count as stable.
    world.publish(`a${String.fromCodePoint(0x100 + n)}`);
    await world.pass(1_000, 500);
  }
  const gaps = world.patches.slice(1).map(({ at }, index) => Math.round((at - (world.patches[index]?.at ?? 0)) / 1000));
  const expected = [30, 60, 120, 240, 480];
  assert.equal(gaps.length, expected.length);
  for (const [index, gap] of gaps.entries()) {
    const least = expected[index] ?? 0;
    assert.ok(gap >= least && gap < least + 30, `${gaps}`);
  }
});

for (const jumpMs of [60 * MINUTE_MS, -60 * MINUTE_MS]) {
  test(`a wall clock jump of ${jumpMs / MINUTE_MS} minutes changes no interval, budget or debounce`, async () => {
    const restartsOf = async (jump: number) => {
      const world = new RunningWorld();
      const restarts: number[] = [];
      world.onPatch = () => restarts.push(world.clock);
      world.add(KEY);
      for (let n = 0; n < 1_000; n++) {
        if (n === 45 || n === 300) world.jumpedMs += jump;
        world.publish(`a${String.fromCodePoint(0x100 + n)}`);
        await world.pass(1_000, 500);
      }
      return { restarts, code: await world.codeOf(KEY) };
    };
    const still = await restartsOf(0);
    assert.equal(still.restarts.length, RULES.dailyBudget);
    assert.deepEqual(await restartsOf(jumpMs), still);
  });
}

test("if another webhook strips annotations, one restart ends as did-not-converge, also for later names", async () => {
  const world = stale(KEY, "stripped");
  await world.pass(10 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 1);
  assert.equal(await world.codeOf(KEY), "did-not-converge");
  world.publish("abc");
  await world.pass(10 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 1);
  assert.equal(await world.codeOf(KEY), "did-not-converge");
});

test("if the webhook is down while the map changes, there is one restart, after it is back", async () => {
  const world = new RunningWorld();
  world.add(KEY);
  world.webhook = undefined;
  world.publish("ab");
  await world.pass(MINUTE_MS);
  assert.equal(world.patches.length, 0);
  world.webhook = "ab";
  await world.pass(10 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 1);
  assert.equal(await world.codeOf(KEY), "in-step");
});

test("after a reverted restart there is no other one, even by another leader or for other names", async () => {
  const world = stale(KEY, "owned");
  world.webhook = undefined;
  world.askWebhooks = async () => ({ ok: true, text: "" });
  await world.pass(10 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 1);
  assert.equal(await world.codeOf(KEY), "reverted-by-owner");
  world.changeLeader();
  world.publish("abc");
  await world.pass(10 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 1);
});

test("a rollout that does not end fails after ten minutes; only its own workload is not restarted again", async () => {
  const world = stale(KEY, "stuck");
  world.add("shop/Deployment/zz");
  world.publish("abc");
  await world.pass(5 * MINUTE_MS, 1_000);
  assert.deepEqual(
    world.patches.map(({ key }) => key),
    [KEY],
  );
  assert.equal(await world.codeOf("shop/Deployment/zz"), "its-turn");
  await world.pass(6 * MINUTE_MS, 1_000);
  assert.equal(await world.codeOf(KEY), "rollout-failed");
  assert.equal(await world.codeOf("shop/Deployment/zz"), "in-step");
  world.publish("abcd");
  await world.pass(60 * MINUTE_MS, 1_000);
  assert.equal(world.patches.filter(({ key }) => key === KEY).length, 1);
});

test("if a leader ends between the record and the patch, the next leader restarts once", async () => {
  for (const fault of ["lost", "unanswered"] as const) {
    const world = stale();
    world.fault = fault;
    await world.pass(2_100, 100);
    world.changeLeader();
    await world.pass(10 * MINUTE_MS, 1_000);
    assert.equal(world.patches.length, 1, fault);
    assert.equal(await world.codeOf(KEY), "in-step", fault);
  }
});

test("a conflict is retried and does not count as a restart", async () => {
  const world = stale();
  world.fault = "conflict";
  await world.pass(2_100, 100);
  assert.deepEqual([world.patches.length, world.records.get(KEY)], [0, []]);
  await world.pass(5_000, 100);
  assert.equal(world.patches.length, 1);
});

test("500 stale workloads are restarted one at a time, and each reports how many are before it", async () => {
  const world = new RunningWorld();
  for (let n = 0; n < 500; n++) world.add(`shop/Deployment/w${String(n).padStart(3, "0")}`);
  world.publish("ab");
  await world.pass(10_000);
  const step = await world.reconcile();
  const places = [...(step?.decisions.values() ?? [])].filter(({ code }) => code === "its-turn");
  assert.ok(places.length > 490);
  assert.match(places.at(-1)?.text ?? "", /^one workload at a time; 49\d before it$/);
  assert.ok(world.podReads < 100, `${world.podReads} pods were read for a queue that has hardly moved`);
  await world.pass(30 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 500);
  const gaps = world.patches.slice(1).map(({ at }, index) => at - (world.patches[index]?.at ?? 0));
  assert.ok(Math.min(...gaps) >= 2_000, "two were under way at once");
});

/** A queue of workloads `shop/Deployment/w00`, `w01`, ... with these tempers. A name was just added for all. */
function queue(tempers: readonly Temper[], rules = RULES): RunningWorld {
  const world = new RunningWorld(rules);
  for (const [n, temper] of tempers.entries()) world.add(nth(n), temper);
  world.publish("ab");
  return world;
}

function nth(n: number): string {
  return `shop/Deployment/w${String(n).padStart(2, "0")}`;
}

test("three unsuccessful restarts in a row hold all restarts for an hour", async () => {
  const world = queue(Array<Temper>(20).fill("stripped"));
  await world.pass(50 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 3);
  assert.equal(await world.codeOf(nth(19)), "restarts-held");
  await world.pass(20 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 4);
});

test("three failed rollouts in a row hold all restarts for an hour; one more failure holds them again", async () => {
  const world = queue(Array<Temper>(20).fill("stuck"));
  await world.pass(31 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 3);
  assert.equal(await world.codeOf(nth(2)), "rollout-failed");
  assert.equal(await world.codeOf(nth(19)), "restarts-held");
  await world.pass(58 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 3);
  await world.pass(60 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 4);
  assert.equal(await world.codeOf(nth(19)), "restarts-held");
});

test("failed rollouts and unsuccessful restarts count together; a successful restart ends the count", async () => {
  const mixed = queue(["stuck", "stripped", "stuck", "good"]);
  await mixed.pass(40 * MINUTE_MS, 1_000);
  assert.deepEqual([mixed.patches.length, await mixed.codeOf(nth(3))], [3, "restarts-held"]);
  const well = queue(["stuck", "stripped", "good", "stuck", "stripped", "good"]);
  await well.pass(40 * MINUTE_MS, 1_000);
  assert.deepEqual([well.patches.length, await well.codeOf(nth(5))], [6, "in-step"]);
});

test("fixing one of the failed workloads releases the others", async () => {
  const world = queue(["stuck", "stuck", "stuck", "good"]);
  await world.pass(40 * MINUTE_MS, 1_000);
  assert.equal(await world.codeOf(nth(3)), "restarts-held");
  world.edit(nth(1));
  await world.pass(MINUTE_MS, 1_000);
  assert.equal(await world.codeOf(nth(3)), "in-step");
});

test("the number of failures and the duration of the hold are configurable", async () => {
  const rules = { ...RULES, holdAfter: 1, holdMs: 5 * MINUTE_MS };
  const world = queue(["good", "stripped", "stripped", "stripped"], rules);
  await world.pass(4 * MINUTE_MS, 1_000);
  assert.deepEqual([world.patches.length, await world.codeOf(nth(3))], [2, "restarts-held"]);
  await world.pass(2 * MINUTE_MS, 1_000);
  assert.equal(world.patches.length, 3);
});

test("a dry run only reports what it would do", async () => {
  const world = stale();
  world.changeLeader({ ...RULES, dryRun: true });
  await world.pass(MINUTE_MS);
  assert.equal(await world.codeOf(KEY), "dry-run");
  assert.equal(world.patches.length, 0);
});

test("an unreadable record does not count as an empty one", async () => {
  const world = stale();
  world.historyOf = () => ({ code: "history-unreadable", text: "" }) as never;
  await world.pass(MINUTE_MS);
  assert.equal(world.patches.length, 0);
  assert.equal(await world.codeOf(KEY), "history-unreadable");
});
