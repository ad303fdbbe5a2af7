import assert from "node:assert/strict";
import { before, type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { pooledKey } from "#test/fakes/keys.ts";
import { createMemoryBundle, createMemorySecretStore, type MemoryBundle } from "#test/fakes/memory-certs.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import type { BundleWriter } from "./ca-bundle.ts";
import { servingNames } from "./issue.ts";
import { runCertManager } from "./manager.ts";
import { runTurn } from "./reconcile.ts";
import { CA_SECRET, type SecretContent, TLS_SECRET } from "./secret-store.ts";

const ENTRIES = [{ name: "pod.switchback.dev", bundle: "" }];
const SECOND = 1_000;
const SERVICE = ["switchback-webhook", "switchback-system", "cluster.local"] as const;

const secrets = createMemorySecretStore();
before(async () => {
  // The time at which the tests stop the clock.
  const times = { caDays: 3650, leafDays: 90, overlapMs: 0, now: () => 1_700_000_000_000 };
  const stores = { store: secrets, bundleWriter: createMemoryBundle(ENTRIES) };
  const context = { ...stores, names: servingNames(...SERVICE), ...times, makeKey: pooledKey, log: new LineLog() };
  await runTurn(context, new AbortController().signal);
});

/** A manager on a stopped clock. The test counts its patches of the caBundle. */
async function rig(
  t: TestContext,
  hostile: (bundles: MemoryBundle, write: BundleWriter["write"]) => BundleWriter["write"],
) {
  const passSteps = stopTime(t, 50);
  const store = createMemorySecretStore();
  for (const name of [CA_SECRET, TLS_SECRET] as const) {
    await store.write(name, ((await secrets.read(name)) as SecretContent).data, undefined);
  }
  const bundles = createMemoryBundle(ENTRIES);
  const writes: number[] = [];
  const obstructed = hostile(bundles, bundles.write);
  let isHostile = true;
  const write: BundleWriter["write"] = async (bundle, view) => {
    writes.push(Date.now());
    await (isHostile ? obstructed : bundles.write)(bundle, view);
  };
  const stop = new AbortController();
  t.after(() => stop.abort());
  const manager = runCertManager({
    config: parseConfig({}).certs,
    namespace: SERVICE[1],
    serviceName: SERVICE[0],
    clusterDomain: SERVICE[2],
    store,
    bundleWriter: { ...bundles, write },
    now: () => Date.now(),
    log: new LineLog(),
    signal: stop.signal,
    makeKey: () => assert.fail("a key was generated: the certificates are there"),
  });
  const relent = () => {
    isHostile = false;
  };
  return { manager, writes, bundles, pass: passSteps, relent };
}

for (const [what, hostile] of [
  ["are dropped by the API server's admission", () => async () => {}],
  ["are reverted before they are read again", (bundles: MemoryBundle) => async () => bundles.set(ENTRIES)],
  [
    "come too late, since somebody changes the configuration all the time",
    (bundles: MemoryBundle, write: BundleWriter["write"]) =>
      async (...parts: Parameters<BundleWriter["write"]>) => {
        bundles.set(ENTRIES);
        await write(...parts);
      },
  ],
] as const) {
  test(`patches of the caBundle that ${what} back off, even if events arrive`, async (t) => {
    const { manager, writes, bundles, pass, relent } = await rig(t, hostile);
    await pass(0);
    for (let seconds = 0; seconds < 12; seconds += 1) {
      await pass(SECOND);
      bundles.set(ENTRIES);
    }
    t.diagnostic(`${writes.length} patches in 12 s`);
    assert.ok(writes.length > 0);
    // Turns at 0, 1, 3, 7 and 15 s; three conflicts each.
    assert.ok(writes.length <= 4 * 3, `${writes.length} patches in 12 s`);
    assert.match(manager.status().lastError?.text ?? "", /caBundle/);
    assert.equal(manager.status().bundle, "unknown");
    relent();
    await pass(61 * SECOND);
    assert.deepEqual([manager.status().bundle, manager.status().lastError], ["current", undefined]);
    const before = writes.length;
    bundles.set(ENTRIES);
    await pass(200);
    assert.equal(writes.length, before + 1, "after a success, a change is reverted at once");
  });
}
