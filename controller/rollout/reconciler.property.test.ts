import assert from "node:assert/strict";
import { test } from "node:test";
import { type Fault, type Patch, RunningWorld, type Temper, RULES as USUAL } from "#test/fakes/rollout-world.ts";
import { fc } from "#test/property.ts";
import { DAY_MS } from "./restart-history.ts";

// Random sequences of events in workloads, map, webhook, API server and leader never lead to a restart that the rules
// forbid.

/** A daily budget that is small enough to be reached in runs of this length. */
const RULES = { ...USUAL, dailyBudget: 3 };

type Step =
  | { readonly do: "publish"; readonly names: string; readonly webhookToo: boolean; readonly thenMs: number }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "webhook"; readonly is: "up" | "down" | "dying" }
  | { readonly do: "fault"; readonly fault: Fault; readonly leaderToo: boolean }
  | { readonly do: "edit"; readonly key: string }
  | { readonly do: "scale"; readonly key: string }
  | { readonly do: "leader" };

const KEYS = [
  "shop/Deployment/good",
  "shop/Deployment/other",
  "x/Deployment/stripped",
  "x/Deployment/stuck",
  "x/Deployment/owned",
];
const keys = fc.constantFrom(...KEYS);
const spans = fc.constantFrom(100, 700, 2_500, 6_000, 31_000, 130_000, 700_000, 4_000_000);
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("publish" as const),
      names: fc.constantFrom("a", "ab", "abc", "ac", "b"),
      // Usually true, because there are more restarts if the webhook is rarely behind.
      webhookToo: fc.integer({ min: 0, max: 4 }).map((n) => n > 0),
      thenMs: spans,
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: spans }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("webhook" as const),
      is: fc.constantFrom("up" as const, "down" as const, "dying" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("fault" as const),
      fault: fc.constantFrom<Fault[]>("conflict", "lost", "unanswered", "late", "forbidden"),
      leaderToo: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("edit" as const), key: keys }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("leader" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("scale" as const), key: keys }) },
);

function setWebhook(world: RunningWorld, is: "up" | "down" | "dying"): void {
  if (is === "dying") world.webhookDies = true;
  else world.webhook = is === "up" ? world.names : undefined;
}

async function take(world: RunningWorld, step: Step): Promise<void> {
  if (step.do === "publish") {
    world.publish(step.names, step.webhookToo);
    await world.pass(step.thenMs, Math.max(500, step.thenMs / 100));
  } else if (step.do === "webhook") setWebhook(world, step.is);
  else if (step.do === "fault") {
    world.fault = step.fault;
    await world.pass(3_000);
    if (step.leaderToo) world.changeLeader();
  } else if (step.do === "leader") world.changeLeader();
  else if (step.do === "edit") world.edit(step.key);
  else if (step.do === "scale") world.scale(step.key);
  else await world.pass(step.ms, Math.max(500, step.ms / 200));
  await world.reconcile();
}

/** Observations of a workload between two of its restarts. */
interface Seen {
  readonly patch: Patch;
  hadItsNames: boolean;
  edited: boolean;
}

/** Throws if a patch breaks a rule. */
function guard(world: RunningWorld): { look(step: Step): void } {
  const last = new Map<string, Seen[]>();
  const of = (key: string) => last.get(key) ?? [];
  world.onPatch = (patch) => {
    const { key, at, to } = patch;
    const before = of(key);
    for (const other of KEYS) {
      const young = of(other).some((seen) => at - seen.patch.at < RULES.rolloutMs);
      assert.ok(!(young && world.isRollingOut(other) && !of(other).at(-1)?.edited), `${key}: ${other} was under way`);
    }
    assert.ok(!world.isRollingOut(key), `${key} was not fully available`);
    if (!patch.late) assert.equal(world.webhook, to, `${key}: restarted before the webhooks had the map`);
    const restless = world.mapChanges.filter((change) => at - change < RULES.maxDebounceMs).length > 1;
    assert.ok(patch.late || at - world.mapSince >= RULES.debounceMs || restless, `${key}: restarted at once`);
    const today = before.filter(({ patch: earlier }) => at - earlier.at < DAY_MS);
    assert.ok(today.length < RULES.dailyBudget, `${key}: over the budget`);
    const newest = today.at(-1)?.patch.at;
    const interval = Math.min(RULES.minIntervalMs * 2 ** (today.length - 1), RULES.maxIntervalMs);
    assert.ok(newest === undefined || at - newest >= interval, `${key}: ${at - (newest ?? 0)} ms after the last`);
    const again = today.findLast((seen) => seen.patch.to === to);
    assert.ok(again === undefined || again.hadItsNames, `${key}: restarted twice for ${to}`);
    assert.ok(patch.late || !world.has(key).isSubsetOf(new Set([to])), `${key}: restarted for nothing`);
    last.set(key, [...before, { patch, hadItsNames: false, edited: false }]);
  };
  return {
    look(step) {
      for (const [key, seen] of last) {
        for (const each of seen) if (world.has(key).has(each.patch.to)) each.hadItsNames = true;
        const newest = seen.at(-1);
        if (newest && step.do === "edit" && step.key === key) newest.edited = true;
      }
    },
  };
}

function worldOf(): RunningWorld {
  const world = new RunningWorld(RULES);
  for (const key of KEYS) {
    const temper = key.split("/")[2] as Temper;
    world.add(key, ["stripped", "stuck", "owned"].includes(temper) ? temper : "good", 2);
  }
  return world;
}

test("property: no restart breaks a rule", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 60 }), async (life) => {
      const world = worldOf();
      const { look } = guard(world);
      for (const step of life) {
        await take(world, step);
        look(step);
      }
    }),
    { numRuns: 100 },
  );
});

test("an owner that reverts restarts is restarted once; one that strips our annotations at most twice", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 60 }), async (life) => {
      const world = worldOf();
      const untouched = life.filter((step) => step.do !== "edit" && step.do !== "fault");
      for (const step of untouched) await take(world, step);
      const times = (name: string) => world.patches.filter(({ key }) => key.endsWith(name)).length;
      assert.ok(times("owned") <= 1, `owned: ${times("owned")}`);
      assert.ok(times("stripped") <= 2, `stripped: ${times("stripped")}`);
      assert.ok(times("stuck") <= 1, `stuck: ${times("stuck")}`);
    }),
    { numRuns: 70 },
  );
});

test("without further events and with the webhook up, every good workload comes into step", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom("a", "ab", "abc", "b"), fc.boolean(), async (names, leaderToo) => {
      const world = new RunningWorld(RULES);
      for (const key of KEYS) world.add(key);
      world.publish(names);
      await world.pass(3_000);
      if (leaderToo) world.changeLeader();
      await world.pass(700_000, 1_000);
      for (const key of KEYS) assert.deepEqual([...world.has(key)], [names]);
      assert.equal(world.patches.length, names === "a" ? 0 : KEYS.length);
    }),
    { numRuns: 20 },
  );
});
