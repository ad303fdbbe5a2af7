import assert from "node:assert/strict";
import { afterEach, before, beforeEach, mock, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { KEY_POOL, pooledKey } from "#test/fakes/keys.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { isSettled, stopTime } from "#test/fakes/stopped-time.ts";
import { servingNames } from "./issue.ts";
import { CertManager, registerCertMetrics } from "./manager.ts";

const NAMES = servingNames("switchback-webhook", "ns", "cluster.local");
const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
const [CA, TLS] = ["switchback-ca", "switchback-webhook-tls"].map(
  (name) => `/api/v1/namespaces/ns/secrets/${name}`,
) as [string, string];
const EMPTY = { webhooks: ["namespace", "pod"].map((name) => ({ name, clientConfig: {} })) };

let kube: MemoryKube;
let log: LineLog;
let stop: AbortController;
/** Advances the stopped clock by milliseconds. */
let pass: (ms: number) => Promise<void>;

function run(certs: object = {}): CertManager {
  const config = parseConfig({ certs }).certs;
  const { client } = kube;
  const { signal } = stop;
  return new CertManager({
    config,
    namespace: "ns",
    names: NAMES,
    client,
    now: Date.now,
    log,
    signal,
    makeKey: pooledKey,
  });
}

async function until(isSeen: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !isSeen(); tries += 1) await pass(50);
  assert.ok(isSeen());
}

const steady = (manager: CertManager) => until(() => manager.status().state.code === "steady");
const textOf = (path: string, key: string) =>
  Buffer.from(kube.field<Record<string, string>>(path, "data")[key] ?? "", "base64").toString();
const bundles = () =>
  (kube.at(CONFIGURATION)!.webhooks as { clientConfig: { caBundle?: string } }[]).map(({ clientConfig }) =>
    Buffer.from(clientConfig.caBundle ?? "", "base64").toString(),
  );

// Generating a key takes no time on the stopped clock, but much CPU time.
before(() => Promise.all(Array.from({ length: KEY_POOL }, pooledKey)));
beforeEach(() => {
  pass = stopTime({ mock }, 50);
  kube = new MemoryKube();
  kube.put(CONFIGURATION, EMPTY);
  log = new LineLog();
  stop = new AbortController();
});
afterEach(() => {
  stop.abort();
  mock.reset();
});

test("the leader makes CA, bundle and leaf, in this order, and then writes nothing", async () => {
  const manager = run();
  assert.equal(manager.status().state.code, "starting");
  await steady(manager);
  const paths = kube.writes.map(({ path }) => path);
  assert.deepEqual(paths, [CA, CONFIGURATION, TLS]);
  assert.deepEqual(bundles(), [textOf(CA, "ca.crt"), textOf(CA, "ca.crt")]);
  await pass(200_000);
  assert.equal(kube.writes.length, paths.length);
  assert.ok((manager.status().leafNotAfter ?? 0) > Date.now() && (manager.status().caNotAfter ?? 0) > Date.now());
  assert.doesNotMatch(JSON.stringify(log.lines), /PRIVATE|BEGIN/, "no key is logged");
});

test("the leader restores a wiped bundle and a deleted leaf, and trusts a lost CA until its leaf is gone", async () => {
  const manager = run({ overlapSeconds: 5 });
  await steady(manager);
  const [old = ""] = bundles();
  kube.put(CONFIGURATION, EMPTY);
  await until(() => bundles().every((bundle) => bundle === old));
  kube.remove(TLS);
  await until(() => kube.at(TLS) !== undefined);
  await steady(manager);
  kube.remove(CA);
  await until(() => manager.status().state.code === "switching");
  assert.ok(bundles().every((bundle) => bundle === old + textOf(CA, "ca.crt")));
  await until(() => manager.status().state.code === "switching");
  await steady(manager);
  assert.ok(bundles().every((bundle) => bundle === textOf(CA, "ca.crt") && bundle !== old));
});

test("while the configuration cannot be read, a lost CA is not replaced, and retries back off", async () => {
  kube.onRead = (path) => {
    if (path === CONFIGURATION) throw refusal(path, 403);
  };
  const manager = run();
  await until(() => manager.status().lastError !== undefined);
  assert.equal(manager.status().state.code, "bundle-unreadable");
  const before = kube.reads.length;
  await pass(2_000);
  assert.ok(kube.reads.filter((path) => path === CA).length <= 5, `${kube.reads.length - before} reads`);
  assert.deepEqual(kube.writes, []);
  kube.onRead = () => {};
  await steady(manager);
  assert.equal(manager.status().lastError, undefined);
});

test("an admission plugin that reverts the bundle gets at most one write a second", async () => {
  const manager = run();
  await steady(manager);
  const before = kube.writes.length;
  kube.onWrite = ({ path }) => {
    if (path === CONFIGURATION) setImmediate(() => kube.put(CONFIGURATION, EMPTY));
  };
  kube.put(CONFIGURATION, EMPTY);
  await pass(10_000);
  const writes = kube.writes.length - before;
  assert.ok(writes >= 2 && writes <= 11, `${writes} writes in 10 s`);
});

test("a process that leads no more writes nothing", async () => {
  const manager = run();
  await steady(manager);
  const before = kube.writes.length;
  stop.abort();
  assert.ok(await isSettled(manager.done));
  kube.put(CONFIGURATION, EMPTY);
  await pass(5_000);
  assert.equal(kube.writes.length, before);
});

for (const mode of ["cert-manager", "files"] as const) {
  test(`in mode ${mode} the leader reads and writes nothing`, async () => {
    const manager = run({ mode, certFile: "a", keyFile: "b" });
    await manager.done;
    assert.deepEqual([manager.status().mode, manager.status().state.code], [mode, "managed-elsewhere"]);
    assert.deepEqual([kube.reads, kube.writes], [[], []]);
  });
}

test("the metrics have expiry, state, failures and writes of the bundle, and only in the leader", async () => {
  const manager = run();
  await steady(manager);
  const registry = new MetricsRegistry();
  let leads = true;
  registerCertMetrics(registry, () => (leads ? manager.status() : undefined));
  const text = await registry.metrics();
  const { leafNotAfter = 0 } = manager.status();
  assert.ok(text.includes(`{certificate="serving"} ${leafNotAfter / 1000}`));
  assert.match(text, /switchback_certificates_state\{code="steady"\} 1/);
  assert.match(text, /switchback_certificates_failing 0/);
  assert.match(text, /switchback_cabundle_writes_total 1/);
  leads = false;
  assert.doesNotMatch(await registry.metrics(), /certificate=/);
});
