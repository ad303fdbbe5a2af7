import assert from "node:assert/strict";
import { before, type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { pooledKey } from "#test/fakes/keys.ts";
import { createMemoryBundle, createMemorySecretStore } from "#test/fakes/memory-certs.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import type { BundleView } from "./ca-bundle.ts";
import { servingNames } from "./issue.ts";
import { type CertManagerOptions, runCertManager } from "./manager.ts";
import { runTurn } from "./reconcile.ts";
import { CA_SECRET, type SecretContent, type SecretName, TLS_SECRET } from "./secret-store.ts";

// Tests when turns run. A turn of a steady installation reads the caBundle once, so the tests count these reads.

const SECOND = 1_000;
const GAP_MS = 100;
const RECHECK_MS = 60 * SECOND;
const DAY = 86_400 * SECOND;
const ENTRIES = [{ name: "pod.switchback.dev", bundle: "" }];
const NAMES = servingNames("switchback-webhook", "switchback-system", "cluster.local");

let secrets: ReadonlyMap<SecretName, SecretContent>;
let view: BundleView;

before(async () => {
  const store = createMemorySecretStore();
  const bundleWriter = createMemoryBundle(ENTRIES);
  // The time at which the tests stop the clock.
  const now = () => 1_700_000_000_000;
  const times = { caDays: 3650, leafDays: 90, overlapMs: 0, now };
  const context = { store, bundleWriter, names: NAMES, ...times, makeKey: pooledKey, log: new LineLog() };
  await runTurn(context, new AbortController().signal);
  const read = async (name: SecretName) => [name, (await store.read(name)) as SecretContent] as const;
  secrets = new Map([await read(CA_SECRET), await read(TLS_SECRET)]);
  view = (await bundleWriter.read()) as BundleView;
});

/** A manager of a steady installation on a stopped clock. */
async function rig(t: TestContext, change: Partial<CertManagerOptions> = {}) {
  const passSteps = stopTime(t, 50);
  /** Short steps first, for work after a gap; later steps only end a long sleep. */
  const pass = async (ms: number) => {
    const short = Math.min(ms, 3 * GAP_MS);
    await passSteps(short);
    if (ms > short) await passSteps(ms - short, 2 * SECOND);
  };
  const store = createMemorySecretStore();
  for (const [name, { data }] of secrets) await store.write(name, data, undefined);
  const bundles = createMemoryBundle(view.entries);
  const stop = new AbortController();
  const log = new LineLog();
  const turns = { begun: 0, during: async () => {}, watches: 0 };
  const read = async () => {
    turns.begun += 1;
    await turns.during();
    return await bundles.read();
  };
  const begin = () =>
    runCertManager({
      config: parseConfig({}).certs,
      namespace: "switchback-system",
      serviceName: "switchback-webhook",
      clusterDomain: "cluster.local",
      store,
      bundleWriter: { ...bundles, read },
      now: () => Date.now(),
      log,
      signal: stop.signal,
      makeKey: () => assert.fail("a key was generated: the installation is not steady"),
      ...change,
    });
  t.after(() => stop.abort());
  /** The number of turns that begin within `ms` milliseconds. */
  const turnsWithin = async (ms: number) => {
    const already = turns.begun;
    await pass(ms);
    return turns.begun - already;
  };
  return { pass, store, bundles, stop, log, turns, begin, turnsWithin };
}

test("without an event a turn runs every minute, and only a changed state is logged", async (t) => {
  const { begin, turns, turnsWithin, log } = await rig(t);
  const manager = begin();
  await turnsWithin(0);
  assert.equal(turns.begun, 1);
  assert.equal(manager.status().state.code, "steady");
  assert.equal(await turnsWithin(RECHECK_MS), 0);
  assert.equal(await turnsWithin(GAP_MS), 1);
  assert.equal(await turnsWithin(RECHECK_MS + GAP_MS), 1);
  assert.deepEqual(log.messages, ["certificates: state"]);
});

test("a turn runs when a step is due, if that is sooner", async (t) => {
  // Two thirds of the leaf's 90 days will have passed in five seconds.
  const now = () => Date.now() + 60 * DAY - 5 * SECOND;
  const makeKey = t.mock.fn(() => Promise.reject(new Error("no key yet")));
  const { begin, turns, turnsWithin } = await rig(t, { now, makeKey });
  const manager = begin();
  await turnsWithin(0);
  assert.deepEqual([turns.begun, (manager.status().nextStepAt ?? 0) - now()], [1, 5 * SECOND]);
  assert.equal(await turnsWithin(5 * SECOND), 0);
  assert.equal(await turnsWithin(GAP_MS), 1);
  assert.deepEqual([makeKey.mock.callCount(), manager.status().lastError?.text], [1, "no key yet"]);
});

test("events of one change cause one turn, after a gap", async (t) => {
  const { begin, turnsWithin, bundles } = await rig(t);
  begin();
  await turnsWithin(10 * SECOND);
  bundles.set(view.entries);
  bundles.set(view.entries);
  assert.equal(await turnsWithin(0), 1, "the first event after a pause causes a turn at once");
  bundles.set(view.entries);
  bundles.set(view.entries);
  assert.equal(await turnsWithin(GAP_MS - 50), 0);
  assert.equal(await turnsWithin(50), 1);
  assert.equal(await turnsWithin(RECHECK_MS / 2), 0);
});

test("an event of a Secret also causes a turn", async (t) => {
  const { begin, turnsWithin, store } = await rig(t);
  begin();
  await turnsWithin(10 * SECOND);
  const current = await store.read(TLS_SECRET);
  await store.write(TLS_SECRET, current?.data ?? {}, current);
  assert.equal(await turnsWithin(0), 1);
});

test("an event during a turn causes another turn after the gap, not only at the recheck", async (t) => {
  const { begin, turns, turnsWithin, bundles } = await rig(t);
  const reading = Promise.withResolvers<void>();
  turns.during = () => reading.promise;
  begin();
  await turnsWithin(SECOND);
  assert.equal(turns.begun, 1);
  bundles.set(view.entries);
  assert.equal(await turnsWithin(RECHECK_MS * 2), 0, "one turn at a time");
  turns.during = async () => {};
  reading.resolve();
  assert.equal(await turnsWithin(GAP_MS - 50), 0);
  assert.equal(await turnsWithin(50), 1);
  assert.equal(await turnsWithin(RECHECK_MS / 2), 0, "and to no more than one");
});

test("turns back off after failures, up to one a minute; a success resets that", async (t) => {
  const { begin, turns, turnsWithin } = await rig(t);
  turns.during = () => Promise.reject(new Error("no route"));
  const manager = begin();
  await turnsWithin(0);
  assert.equal(turns.begun, 1);
  for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
    assert.equal(await turnsWithin(seconds * SECOND), 0, `${seconds} s`);
    assert.equal(await turnsWithin(GAP_MS), 1, `${seconds} s`);
  }
  assert.match(manager.status().lastError?.text ?? "", /no route/);
  turns.during = async () => {};
  assert.equal(await turnsWithin(RECHECK_MS + GAP_MS), 1);
  assert.equal(manager.status().lastError, undefined);
  turns.during = () => Promise.reject(new Error("no route"));
  assert.equal(await turnsWithin(RECHECK_MS + GAP_MS), 1);
  assert.equal(await turnsWithin(SECOND), 0);
  assert.equal(await turnsWithin(GAP_MS), 1, "the first retry is after a second again");
});

test("a turn that throws is reported as a failure with its time; the same failure is logged once", async (t) => {
  const { begin, store, turnsWithin, log } = await rig(t);
  let fault: string | undefined = "no route";
  const { read } = store;
  store.read = (name) => (fault === undefined ? read(name) : Promise.reject(new Error(fault)));
  const manager = begin();
  await turnsWithin(0);
  const begun = Date.now();
  assert.deepEqual(manager.status().lastError, { text: "no route", at: begun });
  assert.equal(await turnsWithin(SECOND + GAP_MS), 1);
  assert.deepEqual(manager.status().lastError, { text: "no route", at: begun + SECOND + GAP_MS });
  const errors = () => log.lines.filter(({ level }) => level === "error").length;
  assert.equal(errors(), 1);
  fault = "forbidden";
  assert.equal(await turnsWithin(2 * SECOND + GAP_MS), 1);
  assert.equal(errors(), 2);
  fault = undefined;
  assert.equal(await turnsWithin(4 * SECOND + GAP_MS), 1);
  assert.equal(manager.status().lastError, undefined);
});

test("a bundle that another writer changes ten times in a minute is restored every ten seconds", async (t) => {
  const { begin, bundles, turnsWithin, log, pass } = await rig(t);
  const manager = begin();
  await pass(10 * SECOND);
  for (let times = 1; times <= 10; times += 1) {
    bundles.set(ENTRIES);
    await pass(GAP_MS);
    assert.equal(manager.status().bundleRestored, times);
  }
  bundles.set(ENTRIES);
  assert.equal(await turnsWithin(9 * SECOND), 0);
  assert.ok((await turnsWithin(SECOND)) >= 1);
  assert.equal(manager.status().bundleRestored, 11);
  const warnings = log.lines.filter(({ message }) => message === "caBundle restored").map(({ fields }) => fields);
  assert.deepEqual(warnings[9], { code: "bundle-restored", lastMinute: 10 });
  // A minute later the earlier restores are ignored.
  await pass(2 * RECHECK_MS);
  bundles.set(ENTRIES);
  await pass(0);
  assert.equal(manager.status().bundleRestored, 12);
  bundles.set(ENTRIES);
  await pass(GAP_MS);
  assert.equal(manager.status().bundleRestored, 13);
});

for (const [what, ms] of [
  ["in the gap", 0],
  ["in the sleep", SECOND],
] as const) {
  test(`it stops at once when it is no longer the leader: ${what}`, async (t) => {
    const { begin, stop, turnsWithin, bundles, pass } = await rig(t);
    const manager = begin();
    await pass(ms);
    assert.equal(await isSettled(manager.done), false);
    stop.abort();
    assert.equal(await isSettled(manager.done), true);
    bundles.set(ENTRIES);
    assert.equal(await turnsWithin(2 * RECHECK_MS), 0);
  });
}

for (const [what, ends] of [
  ["ends well", async () => {}],
  ["fails", () => Promise.reject(new Error("aborted"))],
] as const) {
  test(`it waits for the running turn, which ${what} and is the last`, async (t) => {
    const { begin, stop, turns, turnsWithin, store } = await rig(t);
    const reading = Promise.withResolvers<void>();
    const { read } = store;
    store.read = async (name) => {
      await reading.promise;
      await ends();
      return await read(name);
    };
    const manager = begin();
    await settled();
    stop.abort();
    assert.equal(await isSettled(manager.done), false);
    reading.resolve();
    assert.equal(await isSettled(manager.done), true);
    assert.equal(manager.status().lastError, undefined, "a failure while stopping is not reported");
    assert.deepEqual([turns.begun, await turnsWithin(2 * RECHECK_MS)], [1, 0]);
  });
}

test("it does nothing if it is not the leader any more when it starts", async (t) => {
  const { begin, stop, turns } = await rig(t);
  stop.abort();
  await begin().done;
  assert.equal(turns.begun, 0);
});
