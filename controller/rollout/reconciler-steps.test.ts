import assert from "node:assert/strict";
import { test } from "node:test";
import type { PatchResult } from "#lib/workloads/workload-informers.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { RULES } from "#test/fakes/rollout-world.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { NOW, restart, state, workload } from "#test/fakes/workload-facts.ts";
import { type ObservedWorkload, type RolloutClient, RolloutReconciler } from "./reconciler.ts";
import type { WebhookFacts } from "./restart-decision.ts";
import { type History, stamp } from "./restart-history.ts";
import type { HostsDiff } from "./workload-facts.ts";

// The calls of one run to its client, in order.

const KEY = "shop/Deployment/web";
const OK: WebhookFacts = { ok: true, text: "" };

/** An observed workload with a pod of another revision. */
function observed(more: Partial<ObservedWorkload> = {}): ObservedWorkload {
  const { key, namespace, kind, unrestartable, permitted, state: known, mode, updaters, stale, to } = workload();
  return { key, namespace, kind, unrestartable, permitted, state: known, mode, updaters, stale, to, ...more };
}

/** A client that records its calls, and answers as the test sets it. */
class Client implements RolloutClient {
  readonly calls: unknown[][] = [];
  workloads: readonly ObservedWorkload[] | undefined = [observed()];
  readonly histories = new Map<string, History>();
  patched: PatchResult = "patched";
  diff: HostsDiff | undefined = { missing: 1, extra: 0 };
  clock = NOW;
  webhooks = OK;
  /** Whether answers take some turns of the event loop. Then a call is recorded when it ends. */
  delays = false;
  /** Called with the name of each call. */
  onCall: (name: string) => void = () => {};

  observe() {
    this.#record("observe");
    return this.workloads;
  }
  historyOf(key: string) {
    return this.histories.get(key) ?? [];
  }
  async writeHistory(key: string, history: History) {
    if (this.delays) await settled();
    this.#record("writeHistory", key, history);
    this.histories.set(key, history);
  }
  async patch(key: string, text: string) {
    this.#record("patch", key, text);
    return this.patched;
  }
  async diffHosts(key: string) {
    if (this.delays) await settled();
    this.#record("diffHosts", key);
    return this.diff;
  }
  async askWebhooks() {
    this.#record("askWebhooks");
    return this.webhooks;
  }
  report(event: { kind: string; key: string }) {
    this.#record("report", event);
  }
  now() {
    return this.clock;
  }
  wallClock() {
    return this.clock;
  }
  /** The calls since the last time, without `observe`. */
  taken(): unknown[][] {
    return this.calls.splice(0).filter(([name]) => name !== "observe");
  }
  #record(name: string, ...rest: unknown[]): void {
    this.calls.push([name, ...rest]);
    this.onCall(name);
  }
}

/** A reconciler without debounce, and functions to run it. */
function rig(rules: Partial<typeof RULES> = {}) {
  const client = new Client();
  const log = new LineLog();
  const term = new AbortController();
  const reconciler = new RolloutReconciler(client, { ...RULES, debounceMs: 0, ...rules }, log);
  const run = async () => await reconciler.reconcile(term.signal);
  const codeOf = async (key = KEY) => (await run())?.decisions.get(key)?.code;
  return { client, log, term, run, codeOf };
}

const begun = { at: NOW, begun: NOW, from: ["old"], to: "new", uid: "u", generation: 1 };
const READ = ["diffHosts", KEY];
const ASKED = ["askWebhooks"];
const WRITTEN = ["writeHistory", KEY, [begun]];
const PATCHED = ["patch", KEY, stamp(NOW)];

test("a restart reads pods, asks webhooks, writes the record, patches, reports; progress needs no call", async () => {
  const { client, run, codeOf } = rig();
  const step = await run();
  assert.equal(step?.decisions.get(KEY)?.code, "restarting");
  const reported = ["report", { kind: "restarted", key: KEY, restart: begun }];
  const seen = ["observe"];
  assert.deepEqual(client.calls.splice(0), [seen, READ, seen, ASKED, seen, WRITTEN, PATCHED, reported, seen]);
  assert.equal(await codeOf(), "restarting");
  assert.deepEqual(client.calls, [seen]);
});

test("the record has the unique, sorted revisions of the stale pods, and only the last of older restarts", async () => {
  const { client, run } = rig();
  const stale = ["b", "a", undefined, "b"].map((revision) => ({ revision, restartedAt: undefined }));
  client.workloads = [observed({ stale })];
  const [older, old] = [restart(NOW - 2 * 86_400_000 - 1), restart(NOW - 2 * 86_400_000)];
  client.histories.set(KEY, [older, old]);
  await run();
  assert.deepEqual(client.histories.get(KEY), [old, { ...begun, from: ["", "a", "b"] }]);
});

for (const [patched, reports, code] of [
  ["conflict", [["report", { kind: "conflict", key: KEY }]], "look-again"],
  ["forbidden", [["report", { kind: "forbidden", key: KEY }]], "look-again"],
  ["gone", [], "look-again"],
] as const) {
  test(`a patch with the result ${patched} takes the record back and is retried later`, async () => {
    const { client, run } = rig();
    client.patched = patched;
    client.histories.set(KEY, [restart(NOW - 100_000)]);
    const before = client.historyOf(KEY);
    client.delays = true;
    const step = await run();
    const written = ["writeHistory", KEY, [...before, begun]];
    assert.deepEqual(client.taken(), [READ, ASKED, written, PATCHED, ["writeHistory", KEY, before], ...reports]);
    const ms = patched === "forbidden" ? 30_000 : 1_000;
    assert.deepEqual([step?.decisions.get(KEY)?.code, step?.wakeAt], [code, NOW + ms]);
    client.patched = "patched";
    client.clock = NOW + ms - 1;
    await run();
    assert.deepEqual(client.taken(), []);
    client.clock = NOW + ms;
    await run();
    assert.deepEqual(
      client.taken().map(([name]) => name),
      ["askWebhooks", "writeHistory", "patch", "report"],
    );
  });
}

test("pods that cannot be read are retried after half a minute; an error is logged", async () => {
  const { client, log, run } = rig();
  client.diffHosts = async (key) => {
    client.calls.push(["diffHosts", key]);
    if (client.calls.length < 5) throw new Error("no answer");
    return undefined;
  };
  assert.equal((await run())?.wakeAt, NOW + 30_000);
  assert.deepEqual(client.taken(), [READ]);
  const message = "stale pods could not be read: no answer";
  assert.deepEqual(log.lines, [{ level: "warn", fields: { workload: KEY }, message }]);
  client.clock = NOW + 30_000;
  client.diffHosts = async () => undefined;
  assert.equal((await run())?.wakeAt, NOW + 60_000);
  assert.equal(log.lines.length, 1);
});

test("a workload that disappears while its pods are read needs no decision", async () => {
  const { client, run } = rig();
  client.diffHosts = async () => {
    client.workloads = [];
    return undefined;
  };
  assert.deepEqual([...((await run())?.decisions ?? [])], []);
});

test("there is no decision until everything is known, even after the webhooks were asked", async () => {
  const { client, run } = rig();
  client.workloads = undefined;
  assert.equal(await run(), undefined);
  client.workloads = [observed()];
  client.onCall = (name) => {
    if (name === "askWebhooks") client.workloads = undefined;
  };
  assert.equal(await run(), undefined);
  assert.deepEqual(client.taken(), [READ, ASKED]);
});

test("a term that ends before a run, during a read, a webhook request or the write patches nothing", async () => {
  for (const [at, calls] of [
    ["", []],
    ["diffHosts", [READ]],
    ["askWebhooks", [READ, ASKED]],
    ["writeHistory", [READ, ASKED, WRITTEN]],
  ] as const) {
    const { client, term, run } = rig();
    if (at === "") term.abort();
    client.onCall = (name) => {
      if (name === at) term.abort();
    };
    await run();
    assert.deepEqual(client.taken(), calls, at);
  }
});

test("an outcome is written and reported; a restart that never arrived is removed from the record", async () => {
  const { client, run } = rig();
  const [first, earlier] = [restart(NOW - 300_000), restart(NOW - 200_000)];
  const last = restart(NOW - 100_000, { outcome: undefined });
  client.workloads = [observed({ stale: [], state: { ...state, generation: 2, restartedAt: stamp(last.at) } })];
  client.histories.set(KEY, [first, earlier, last]);
  await run();
  const done = [first, earlier, { ...last, outcome: "done" }];
  assert.deepEqual(client.taken(), [
    ["writeHistory", KEY, done],
    ["report", { kind: "outcome", key: KEY, outcome: "done" }],
  ]);
  client.workloads = [observed({ stale: [] })];
  client.histories.set(KEY, [first, earlier, last]);
  await run();
  assert.deepEqual(client.taken(), [["writeHistory", KEY, [first, earlier]]]);
});

test("a failed write ends the run before the patch", async () => {
  const { client, run } = rig();
  client.writeHistory = async () => {
    throw new Error("not confirmed");
  };
  await assert.rejects(run(), /not confirmed/);
  assert.deepEqual(client.taken(), [READ, ASKED]);
});

test("pods are read again if names or the set of stale revisions change, but not for another pod count", async () => {
  const { client, run } = rig({ dryRun: true });
  const stale = (...revisions: (string | undefined)[]) =>
    revisions.map((revision) => ({ revision, restartedAt: undefined }));
  const reads = async (more: Partial<ObservedWorkload>) => {
    client.workloads = [observed(more)];
    await run();
    return client.taken().length;
  };
  assert.equal(await reads({ stale: stale("a", "b") }), 1);
  assert.equal(await reads({ stale: stale("b", "a", "a") }), 0);
  assert.equal(await reads({ stale: stale("a") }), 1);
  assert.equal(await reads({ stale: stale(undefined) }), 1);
  assert.equal(await reads({ stale: stale(undefined), to: "newer" }), 1);
  assert.equal(await reads({ stale: stale(undefined), to: "newer" }), 0);
  assert.equal(await reads({ stale: [] }), 0);
  assert.equal(await reads({ stale: stale(undefined), to: "newer" }), 1, "in step in between");
});

test("the debounce begins at each change of names; its upper bound counts from the last stable state", async () => {
  const { client, run } = rig({ debounceMs: 2_000, maxDebounceMs: 5_000 });
  const until = async (ms: number, to: string) => {
    client.clock = NOW + ms;
    client.workloads = [observed({ to })];
    const decision = (await run())?.decisions.get(KEY);
    return decision?.code === "debouncing" ? (decision.until ?? 0) - NOW : decision?.code;
  };
  assert.equal(await until(0, "a"), 2_000);
  assert.equal(await until(1_000, "a"), 2_000);
  assert.equal(await until(1_999, "b"), 3_999);
  assert.equal(await until(3_500, "c"), 5_000);
  assert.equal(await until(4_500, "d"), 5_000);
  assert.equal(await until(6_499, "e"), "restarting", "the bound is over");
  client.histories.clear();
  assert.equal(await until(8_499, "f"), 10_499, "it was stable in between");
});

test("of two stale workloads, the one that became stale first is restarted first", async () => {
  const { client, run } = rig();
  client.webhooks = { ok: false, code: "webhook-behind", text: "" };
  const [a, b] = ["a", "b"].map((name) => observed({ key: `shop/Deployment/${name}` }));
  assert.ok(a && b);
  const first = async (ms: number, ...workloads: ObservedWorkload[]) => {
    client.clock = NOW + ms;
    client.workloads = workloads;
    return [...((await run())?.decisions.keys() ?? [])][0];
  };
  await first(0, b);
  assert.equal(await first(1_000, a, b), b.key);
  await first(2_000, a, { ...b, stale: [] });
  assert.equal(await first(3_000, a, b), a.key);
});

test("a run ends even if it finds more to do after every step", async () => {
  const { client, run } = rig();
  client.writeHistory = async () => {};
  assert.equal((await run())?.askWebhooks, true, "the last decision");
  assert.equal(client.calls.filter(([name]) => name === "observe").length, 50);
});
