import assert from "node:assert/strict";
import { afterEach, before, beforeEach, mock, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { KEY_POOL, pooledKey } from "#test/fakes/keys.ts";
import {
  createMemoryBundle,
  createMemorySecretStore,
  type MemoryBundle,
  type MemorySecretStore,
} from "#test/fakes/memory-certs.ts";
import { isSettled, stopTime } from "#test/fakes/stopped-time.ts";
import { type CertManager, type CertManagerOptions, runCertManager } from "./manager.ts";
import { registerCertMetrics } from "./metrics.ts";
import { parseCertificates } from "./pem.ts";
import { CA_SECRET, TLS_SECRET } from "./secret-store.ts";

const DAY = 86_400_000;
const ENTRIES = [{ name: "pod.switchback.dev", bundle: "" }];

let store: MemorySecretStore;
let bundles: MemoryBundle;
let stop: AbortController;
let skew: number;
/** Advances the stopped clock by milliseconds. */
let pass: (ms: number) => Promise<void>;

function run(change: Partial<CertManagerOptions> = {}, certs: object = {}): CertManager {
  return runCertManager({
    config: parseConfig({ certs }).certs,
    namespace: "switchback-system",
    serviceName: "switchback-webhook",
    clusterDomain: "cluster.local",
    store,
    bundleWriter: bundles,
    now: () => Date.now() + skew,
    log: silentLogger,
    signal: stop.signal,
    makeKey: pooledKey,
    ...change,
  });
}

/** Advances the clock by at most 3 s. */
async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 150; tries += 1) {
    if (await condition()) return;
    await pass(20);
  }
  assert.fail(`not seen: ${what}`);
}

const live = async () => (await bundles.read())?.entries[0]?.bundle ?? "";
const steady = (manager: CertManager) => until(() => manager.status().state.code === "steady", "steady");

// Generating a key takes no time on the stopped clock, but much CPU time.
before(() => Promise.all(Array.from({ length: KEY_POOL }, pooledKey)));
beforeEach(() => {
  pass = stopTime({ mock });
  store = createMemorySecretStore();
  bundles = createMemoryBundle(ENTRIES);
  stop = new AbortController();
  skew = 0;
});
afterEach(() => {
  stop.abort();
  mock.reset();
});

test("starts, reports expiry times, and stops when it is no longer the leader", async () => {
  const manager = run();
  assert.equal(manager.status().state.code, "starting");
  await steady(manager);
  const status = manager.status();
  assert.deepEqual(
    [status.mode, status.bundle, status.lastError, status.bundleRestored],
    ["self-signed", "current", undefined, 0],
  );
  assert.ok(Math.abs((status.leafNotAfter ?? 0) - Date.now() - 90 * DAY) < 60_000);
  assert.ok(Math.abs((status.caNotAfter ?? 0) - Date.now() - 3650 * DAY) < 60_000);
  assert.ok((status.nextStepAt ?? 0) > Date.now());
  stop.abort();
  assert.ok(await isSettled(manager.done));
  bundles.set(ENTRIES);
  await pass(300);
  assert.equal(await live(), "", "nothing is written any more");
});

test("a wiped bundle and deleted Secrets are restored at once, without waiting for the recheck", async () => {
  const manager = run();
  await steady(manager);
  const bundle = await live();
  bundles.set(ENTRIES);
  await until(async () => (await live()) === bundle, "the bundle");
  await until(() => manager.status().bundleRestored === 1, "that it was counted");
  store.remove(TLS_SECRET);
  await until(async () => (await store.read(TLS_SECRET)) !== undefined, "a new leaf");
  store.remove(CA_SECRET);
  await until(() => manager.status().state.code === "before-switch", "a new CA");
  assert.ok((await live()).includes(bundle), "the old CA is still trusted");
});

test("a bundle that another writer keeps changing is restored at most ten times, and then less often", async () => {
  const manager = run({ gapMs: 10 });
  await steady(manager);
  const fighter = new AbortController();
  bundles.watch(() => {
    setImmediate(async () => (await live()) === "" || fighter.signal.aborted || bundles.set(ENTRIES));
  }, fighter.signal);
  bundles.set(ENTRIES);
  await until(() => manager.status().bundleRestored === 10, "ten restorations");
  await pass(500);
  assert.equal(manager.status().bundleRestored, 10);
  await pass(10_000);
  assert.equal(manager.status().bundleRestored, 11);
  fighter.abort();
});

test("failing reads of the bundle back off", async () => {
  let reads = 0;
  const read = () => {
    reads += 1;
    return Promise.reject(new Error("no route"));
  };
  const manager = run({ bundleWriter: { ...bundles, read }, gapMs: 10 });
  await until(() => manager.status().lastError !== undefined, "the error");
  assert.equal(manager.status().state.code, "bundle-unreadable");
  await pass(500);
  assert.ok(reads <= 2, `${reads} reads`);
  assert.equal(await store.read(CA_SECRET), undefined, "and no CA is made");
});

test("another leader continues in the middle of a rotation", async () => {
  const first = run({}, { overlapSeconds: 1 });
  await steady(first);
  skew = 2500 * DAY;
  const aborted = new AbortController();
  const second = run({ signal: aborted.signal }, { overlapSeconds: 1 });
  await until(() => second.status().state.code === "before-switch", "the first half");
  aborted.abort();
  stop.abort();
  await Promise.all([first.done, second.done]);
  stop = new AbortController();
  const third = run({}, { overlapSeconds: 1 });
  await steady(third);
  assert.equal(parseCertificates(await live()).length, 1);
  assert.ok((third.status().caNotAfter ?? 0) > Date.now() + skew + 3600 * DAY, "the CA is the new one");
});

test("a failure stays in the status until a retry succeeds", async () => {
  let down = true;
  const read: MemorySecretStore["read"] = (name) => (down ? Promise.reject(new Error("no route")) : store.read(name));
  const manager = run({ store: { ...store, read } });
  await until(() => manager.status().lastError !== undefined, "the error");
  assert.match(manager.status().lastError?.text ?? "", /no route/);
  assert.equal(manager.status().state.code, "starting");
  down = false;
  await steady(manager);
  assert.equal(manager.status().lastError, undefined);
});

test("a bundle that cannot be written is an error that is logged once", async () => {
  const lines: object[] = [];
  const log = { ...silentLogger, error: (fields: object) => void lines.push(fields) };
  const write = () => Promise.reject(new Error("forbidden"));
  const manager = run({ bundleWriter: { ...bundles, write }, log });
  await until(() => manager.status().lastError !== undefined, "the error");
  assert.equal(manager.status().state.code, "bundle-unreadable");
  store.remove(TLS_SECRET);
  await until(async () => (await store.read(TLS_SECRET)) !== undefined, "a leaf all the same");
  await pass(1200);
  assert.equal(lines.length, 1);
});

for (const mode of ["cert-manager", "files"] as const) {
  test(`mode ${mode}: neither Secrets nor caBundle are read or written`, async () => {
    const untouchable = new Proxy({} as never, { get: () => assert.fail("touched") });
    const manager = run({ store: untouchable, bundleWriter: untouchable }, { mode, certFile: "a", keyFile: "b" });
    await manager.done;
    assert.deepEqual([manager.status().mode, manager.status().state.code], [mode, "managed-elsewhere"]);
  });
}

test("no key is ever logged", async () => {
  const lines: string[] = [];
  const write = (fields: object, message: string) => void lines.push(JSON.stringify(fields) + message);
  const manager = run({ log: { debug: write, info: write, warn: write, error: write } });
  await steady(manager);
  const secret = (await store.read(CA_SECRET))!;
  await store.write(CA_SECRET, { ...secret.data, "ca.key": secret.data["ca.key"]!.replace("MII", "MIX") }, secret);
  await until(() => manager.status().state.code === "before-switch", "a new CA");
  assert.ok(lines.length >= 5);
  for (const line of lines) assert.doesNotMatch(line, /PRIVATE|BEGIN|[A-Za-z0-9+/]{100}/);
});

test("the metrics report expiry, state, failures and restores, and only in the leader", async () => {
  const manager = run();
  await steady(manager);
  bundles.set(ENTRIES);
  await until(() => manager.status().bundleRestored === 1, "the bundle");
  const registry = new MetricsRegistry();
  let leads = true;
  registerCertMetrics(registry, () => (leads ? manager.status() : undefined));
  const text = await registry.metrics();
  const { leafNotAfter = 0 } = manager.status();
  assert.ok(
    text.includes(`switchback_certificate_expiry_timestamp_seconds{certificate="serving"} ${leafNotAfter / 1000}`),
  );
  assert.match(text, /switchback_certificate_expiry_timestamp_seconds\{certificate="ca"\} \d+/);
  assert.match(text, /switchback_certificates_state\{code="steady"\} 1/);
  assert.match(text, /switchback_certificates_failing 0/);
  assert.match(text, /switchback_cabundle_restored_total 1/);
  leads = false;
  assert.doesNotMatch(await registry.metrics(), /certificate=/);
});
