import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES } from "#test/fakes/rollout-world.ts";
import { NOW, restart, state, workload } from "#test/fakes/workload-facts.ts";
import { decideRollout, type WebhookFacts } from "./restart-decision.ts";
import { stamp } from "./restart-history.ts";
import type { RestartRules } from "./restart-limits.ts";
import type { WorkloadFacts } from "./workload-facts.ts";

const OK: WebhookFacts = { ok: true, text: "2 webhook replicas use the map" };
const NOTHING = {
  decisions: [],
  outcomes: [],
  restart: undefined,
  diffFirst: [],
  askWebhooks: false,
  wakeAt: undefined,
};
const MINUTE_MS = 60_000;

/** A workload that is ready for a restart, and only waits for its turn. */
function web(name: string, more: Partial<WorkloadFacts> = {}): WorkloadFacts {
  return workload({ key: `shop/Deployment/${name}`, ...more });
}

/** The step, with its decisions as `name: code`, in order. */
function decide(workloads: readonly WorkloadFacts[], webhooks?: WebhookFacts, rules: RestartRules = RULES) {
  const { decisions, ...step } = decideRollout({ now: NOW, rules, workloads, webhooks });
  return { ...step, decisions: [...decisions].map(([key, { code }]) => `${key.split("/")[2]}: ${code}`) };
}

/** The decision of each workload, by name. */
function decisionsOf(workloads: readonly WorkloadFacts[], webhooks?: WebhookFacts, rules: RestartRules = RULES) {
  const { decisions } = decideRollout({ now: NOW, rules, workloads, webhooks });
  return Object.fromEntries([...decisions].map(([key, decision]) => [key.split("/")[2], decision]));
}

/** A workload whose last restart began `ms` ago, and whose template carries the stamp. */
function restarted(
  name: string,
  ms: number,
  more: Partial<WorkloadFacts["state"] & object> = {},
  outcome?: "done" | "failed",
) {
  const at = NOW - ms;
  return web(name, {
    history: [restart(at, { outcome })],
    state: { ...state, generation: 2, restartedAt: stamp(at), ...more },
  });
}

const itsTurn = (before: number) => ({
  standing: "waiting",
  code: "its-turn",
  text: `one workload at a time; ${before} before it`,
});

test("without workloads nothing is decided", () => {
  assert.deepEqual(decide([]), NOTHING);
  assert.deepEqual(decide([], OK), NOTHING);
});

test("the first step reads the unread pods of the first five workloads in the queue", () => {
  const names = ["a", "b", "c", "d", "e", "f", "g"];
  const keys = (part: readonly string[]) => part.map((name) => `shop/Deployment/${name}`);
  const unread = (read: string) => names.map((name) => web(name, name === read ? {} : { diff: undefined }));
  const decisions = names.map((name) => `${name}: its-turn`);
  assert.deepEqual(decide(unread(""), OK), { ...NOTHING, decisions, diffFirst: keys(names.slice(0, 5)) });
  assert.deepEqual(decide(unread("b"), OK, { ...RULES, dryRun: true }), {
    ...NOTHING,
    decisions,
    diffFirst: keys(["a", "c", "d", "e"]),
  });
  assert.deepEqual(decisionsOf(unread("")).c, itsTurn(2));
  assert.deepEqual(decide([web("a", { diff: undefined })]).diffFirst, keys(["a"]));
});

test("the next step asks the webhooks, but only if a workload is due", () => {
  assert.deepEqual(decide([web("a"), web("b")]), {
    ...NOTHING,
    decisions: ["a: its-turn", "b: its-turn"],
    askWebhooks: true,
  });
  assert.deepEqual(decisionsOf([web("a"), web("b")]), { a: itsTurn(0), b: itsTurn(1) });
  assert.deepEqual(decide([web("a", { stale: [] })]), { ...NOTHING, decisions: ["a: in-step"] });
});

test("webhooks are asked again half a second after being behind, two seconds after being unreachable", () => {
  for (const [code, wait] of [
    ["webhook-behind", 500],
    ["webhook-unreachable", 2_000],
  ] as const) {
    const facts = { ok: false, code, text: "no webhook replica is ready" } as const;
    const decision = { standing: "waiting", code, text: facts.text, until: NOW + wait };
    assert.deepEqual(decisionsOf([web("a"), web("b")], facts), { a: decision, b: decision });
    const decisions = [`a: ${code}`, `b: ${code}`];
    assert.deepEqual(decide([web("a"), web("b")], facts), { ...NOTHING, decisions, wakeAt: NOW + wait });
  }
});

test("the first in the queue is restarted; the others report how many are before them", () => {
  const all = [web("b"), web("c"), web("a"), web("done", { stale: [] })];
  assert.deepEqual(decide(all, OK), {
    ...NOTHING,
    decisions: ["done: in-step", "a: restarting", "b: its-turn", "c: its-turn"],
    restart: "shop/Deployment/a",
  });
  const { done: _, ...decisions } = decisionsOf(all, OK);
  assert.deepEqual(decisions, {
    a: { standing: "waiting", code: "restarting", text: "being restarted" },
    b: itsTurn(1),
    c: itsTurn(2),
  });
});

test("with dryRun no webhook is asked and nothing is restarted", () => {
  const rules = { ...RULES, dryRun: true };
  assert.deepEqual(decide([web("a"), web("b")], undefined, rules), {
    ...NOTHING,
    decisions: ["a: dry-run", "b: dry-run"],
  });
  const decision = { standing: "waiting", code: "dry-run", text: "would be restarted; restart.dryRun is on" };
  assert.deepEqual(decisionsOf([web("a")], OK, rules), { a: decision });
});

test("the queue is ordered by missing names, longest wait, then key; unread pods count as missing names", () => {
  const extra = { missing: 0, extra: 1 };
  const all = [
    web("extra-old", { diff: extra, staleSince: 1 }),
    web("late", { staleSince: 3 }),
    web("b", { staleSince: 2 }),
    web("a", { staleSince: 2 }),
    web("c", { staleSince: 2 }),
    web("extra-new", { diff: extra, staleSince: 2 }),
    web("both", { diff: { missing: 2, extra: 1 }, staleSince: 0 }),
  ];
  const order = ["both", "a", "b", "c", "late", "extra-old", "extra-new"];
  const of = (list: readonly WorkloadFacts[]) => decide(list).decisions.map((line) => line.split(":")[0]);
  assert.deepEqual(of(all), order);
  assert.deepEqual(of(all.toReversed()), order);
  assert.deepEqual(of([all[0]!, web("unread", { diff: undefined, staleSince: 9 })]), ["unread", "extra-old"]);
});

test("a restart in progress holds back all others, and their pods are not read", () => {
  const until = NOW - 1_000 + RULES.rolloutMs;
  const busy = restarted("busy", 1_000, { unsettled: "0 of 1 available" });
  const all = [busy, web("a", { diff: undefined }), web("b")];
  assert.deepEqual(decide(all, OK), {
    ...NOTHING,
    decisions: ["busy: restarting", "a: its-turn", "b: its-turn"],
    wakeAt: until,
  });
  assert.deepEqual(decisionsOf(all, OK), {
    busy: {
      standing: "waiting",
      code: "restarting",
      text: `a restart has been in progress since ${stamp(NOW - 1_000)}`,
      until,
    },
    a: itsTurn(1),
    b: itsTurn(2),
  });
});

test("a restart that is being reverted holds back others only as long as its rollout may last", () => {
  const reverted = (ms: number, more: Partial<WorkloadFacts["state"] & object>) =>
    restarted("reverted", ms, { generation: 3, restartedAt: undefined, ...more });
  const rules = { ...RULES, revertMs: 2 * RULES.rolloutMs };
  const restartOf = (one: WorkloadFacts) => decide([one, web("a")], OK, rules).restart;
  const moving = { unsettled: "0 of 1 available" };
  assert.equal(restartOf(reverted(RULES.rolloutMs - 1, moving)), undefined);
  assert.equal(restartOf(reverted(RULES.rolloutMs, moving)), "shop/Deployment/a");
  assert.equal(restartOf(reverted(1_000, {})), "shop/Deployment/a");
  assert.equal(restartOf(restarted("failed", 1_000, moving, "failed")), "shop/Deployment/a", "failed, not reverted");
  const unreadable = { ...reverted(1_000, {}), history: [restart(NOW, { outcome: "reverted" })], state: "unknown" };
  assert.equal(restartOf(unreadable as WorkloadFacts), "shop/Deployment/a");
});

test("an outcome, also void, is recorded once it is known and differs from the recorded one", () => {
  const changed = { restartedAt: undefined, generation: 3 };
  const all = [
    restarted("done", 1_000),
    restarted("running", 1_000, { unsettled: "0 of 1 available" }),
    restarted("failed", RULES.rolloutMs, { unsettled: "0 of 1 available" }),
    restarted("known", RULES.rolloutMs, { unsettled: "0 of 1 available" }, "failed"),
    restarted("reverted", 1_000, changed),
    restarted("void", MINUTE_MS, { restartedAt: undefined, generation: 1 }),
    web("never"),
    web("unreadable", { history: { code: "history-unreadable", text: "" } }),
  ];
  assert.deepEqual(decide(all).outcomes, [
    { key: "shop/Deployment/done", outcome: "done" },
    { key: "shop/Deployment/failed", outcome: "failed" },
    { key: "shop/Deployment/reverted", outcome: "reverted" },
    { key: "shop/Deployment/void", outcome: "void" },
  ]);
});

const MOVING = { unsettled: "0 of 1 available" };
/** A workload that did not converge: the pods of its restart are still stale. */
function inVain(name: string, ms: number): WorkloadFacts {
  const one = restarted(name, ms, {}, "done");
  return { ...one, stale: [{ revision: "old", restartedAt: stamp(NOW - ms) }] };
}
const failed = (name: string, ms: number) => restarted(name, ms, MOVING, "failed");

/** When the hold ends, according to a workload that is due; undefined: there is no hold. */
function heldUntil(workloads: readonly WorkloadFacts[], rules: RestartRules = RULES): number | undefined {
  return decisionsOf([...workloads, web("due")], OK, rules).due?.until;
}

test("after holdAfter unsuccessful restarts, all others are held for holdMs from the last one", () => {
  const all = [inVain("x", 3_000), inVain("y", 1_000), inVain("z", 2_000)];
  const until = NOW - 1_000 + RULES.holdMs;
  const text = `the last 3 restarts failed or did not bring the names into the pods: no restart until ${stamp(until)}`;
  assert.deepEqual(decisionsOf([...all, web("due", { diff: undefined })]).due, {
    standing: "waiting",
    code: "restarts-held",
    text,
    until,
  });
  assert.deepEqual(decide([...all, web("due")], OK), {
    ...NOTHING,
    decisions: ["x: did-not-converge", "y: did-not-converge", "z: did-not-converge", "due: restarts-held"],
    wakeAt: until,
  });
  assert.equal(heldUntil(all.slice(1)), undefined);
  assert.equal(heldUntil(all, { ...RULES, holdAfter: 4 }), undefined);
  assert.equal(heldUntil([]), undefined);
});

test("a hold ends after holdMs; after a failed rollout it begins only when the rollout's time is over", () => {
  const vain = [inVain("x", RULES.holdMs + 1), inVain("y", RULES.holdMs + 2)];
  assert.equal(heldUntil([...vain, inVain("z", RULES.holdMs - 1)]), NOW + 1);
  assert.equal(heldUntil([...vain, inVain("z", RULES.holdMs)]), undefined);
  assert.equal(heldUntil([...vain, failed("z", RULES.holdMs)]), NOW + RULES.rolloutMs);
  assert.equal(heldUntil([failed("x", 3_000), inVain("y", 1_000), failed("z", 2_000)]), NOW - 1_000 + RULES.holdMs);
});

test("only the newest restarts count for a hold: a successful one among them ends it, an older one does not", () => {
  const vain = [inVain("x", 4_000), inVain("y", 2_000), inVain("z", 3_000)];
  assert.equal(heldUntil([...vain, restarted("good", 1_000)]), undefined);
  assert.equal(heldUntil([...vain, restarted("good", 3_500)]), undefined);
  assert.equal(heldUntil([...vain, restarted("good", 5_000)]), NOW - 2_000 + RULES.holdMs);
  const twice = { ...vain[0]!, history: [restart(NOW - 9_000), restart(NOW - 4_000)] };
  assert.equal(heldUntil([twice, vain[1]!]), undefined, "one of each workload");
  assert.equal(heldUntil([...vain, web("broken", { history: { code: "c", text: "" } })]), NOW - 2_000 + RULES.holdMs);
});

test("the next decision is due at the earliest wait that ends after now", () => {
  const wakeAt = (...workloads: WorkloadFacts[]) => decide(workloads, OK).wakeAt;
  const waits = (name: string, ms: number) => web(name, { notBefore: NOW + ms });
  assert.equal(wakeAt(waits("a", 3_000), waits("b", 1_000), waits("c", 2_000), web("d", { stale: [] })), NOW + 1_000);
  // The patch may still arrive, although the time for a rollout is already over.
  const lost = restarted("lost", 5_000, { restartedAt: undefined, generation: 1 });
  assert.equal(decide([lost], OK, { ...RULES, rolloutMs: 5_000 }).wakeAt, undefined);
  assert.equal(decide([web("a")], OK, { ...RULES, dailyBudget: 0 }).wakeAt, undefined, "never");
});
