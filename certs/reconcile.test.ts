import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { pooledKey } from "#test/fakes/keys.ts";
import {
  createMemoryBundle,
  createMemorySecretStore,
  type MemoryBundle,
  type MemorySecretStore,
} from "#test/fakes/memory-certs.ts";
import { fc } from "#test/property.ts";
import type { BundleView } from "./ca-bundle.ts";
import { servingNames } from "./issue.ts";
import { isSignedBy, parseCertificates } from "./pem.ts";
import { runTurn, type TurnContext, type TurnResult } from "./reconcile.ts";
import { CA_SECRET, TLS_SECRET } from "./secret-store.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;
const ENTRIES = [
  { name: "namespace.switchback.dev", bundle: "" },
  { name: "pod.switchback.dev", bundle: "" },
];

let now: number;
let store: MemorySecretStore;
let bundles: MemoryBundle;
const never = new AbortController().signal;

function context(change: Partial<TurnContext> = {}): TurnContext {
  return {
    store,
    bundleWriter: bundles,
    names: servingNames("switchback-webhook", "switchback-system", "cluster.local"),
    caDays: 300,
    leafDays: 30,
    overlapMs: 10 * MINUTE,
    now: () => now,
    makeKey: pooledKey,
    log: silentLogger,
    ...change,
  };
}

const turn = (change?: Partial<TurnContext>): Promise<TurnResult> => runTurn(context(change), never);
const leaf = async () => (await store.read(TLS_SECRET))?.data["tls.crt"] ?? "";
const live = async () => (await bundles.read())?.entries[0]?.bundle ?? "";

/** The next turn fails, or the process crashes, at the write with this number. */
function failingAfter(writes: number, error = new Error("crash")): TurnContext {
  let left = writes;
  const guarded = async (write: () => Promise<void>) => {
    if (left === 0) throw error;
    left -= 1;
    await write();
  };
  return context({
    store: { ...store, write: (...args) => guarded(() => store.write(...args)) },
    bundleWriter: { ...bundles, write: (...args) => guarded(() => bundles.write(...args)) },
  });
}

function later(ms: number): void {
  now += ms;
}

function verifies(cert: string, bundle: string): boolean {
  const [first] = parseCertificates(cert);
  return bundle !== "" && parseCertificates(bundle).some((ca) => first !== undefined && isSignedBy(first, ca));
}

beforeEach(() => {
  now = Date.UTC(2026, 0, 1);
  store = createMemorySecretStore();
  bundles = createMemoryBundle(ENTRIES);
});

test("a first start creates a CA, a leaf and the bundle of every entry in one turn, and is then steady", async () => {
  const first = await turn();
  assert.deepEqual(first.steps, ["create-signer", "publish", "issue-leaf"]);
  assert.equal(first.reason.code, "steady");
  assert.deepEqual([first.caNotAfter, first.leafNotAfter], [now + 300 * DAY, now + 30 * DAY]);
  assert.ok(verifies(await leaf(), await live()));
  assert.deepEqual(new Set((await bundles.read())?.entries.map(({ bundle }) => bundle)).size, 1);
  assert.deepEqual(Object.keys((await store.read(CA_SECRET))?.data ?? {}), ["ca.crt", "ca.key"]);
  assert.deepEqual((await turn()).steps, []);
});

test("certificates are issued without a webhook configuration, which is filled once it exists", async () => {
  bundles.set(undefined);
  const before = await turn();
  assert.deepEqual([before.bundle, before.reason.code], ["absent", "bundle-absent"]);
  assert.equal(await bundles.read(), undefined);
  bundles.set(ENTRIES);
  assert.deepEqual((await turn()).steps, ["publish"]);
  assert.ok(verifies(await leaf(), await live()));
  bundles.set([]);
  assert.equal((await turn()).bundle, "absent", "a configuration without entries");
});

test("a wiped, edited or half-filled bundle is restored", async () => {
  await turn();
  const good = await live();
  for (const damaged of ["", "rubbish", `${good}x`]) {
    bundles.set([
      { name: "a", bundle: damaged },
      { name: "b", bundle: good },
    ]);
    assert.deepEqual((await turn()).steps, ["publish"]);
    assert.deepEqual((await bundles.read())?.entries, [
      { name: "a", bundle: good },
      { name: "b", bundle: good },
    ]);
  }
});

test("a whole rotation of the CA, step by step", async () => {
  await turn();
  const old = await leaf();
  now += 201 * DAY;
  assert.deepEqual((await turn()).steps, ["issue-leaf", "create-next", "publish", "stamp-next"]);
  const last = await leaf();
  now += 10 * MINUTE - 1;
  const waiting = await turn();
  assert.deepEqual([waiting.steps, waiting.reason.code, waiting.at], [[], "before-switch", now + 1]);
  const both = await live();
  assert.equal(parseCertificates(both).length, 2);
  now += 1;
  const switched = await turn();
  assert.deepEqual(
    [switched.steps, switched.reason.code],
    [["promote", "issue-leaf", "stamp-previous"], "after-switch"],
  );
  assert.equal(await live(), both, "the bundle does not change when the leaf does");
  assert.ok(verifies(await leaf(), both) && verifies(last, both) && verifies(old, both));
  now += 10 * MINUTE;
  const done = await turn();
  assert.deepEqual([done.steps, done.reason.code], [["drop-previous", "publish"], "steady"]);
  assert.ok(verifies(await leaf(), await live()) && !verifies(last, await live()));
  assert.equal(done.caNotAfter, now - 20 * MINUTE + 300 * DAY);
});

test("a deleted TLS Secret: the same CA issues a new leaf at once", async () => {
  await turn();
  const bundle = await live();
  store.remove(TLS_SECRET);
  assert.deepEqual((await turn()).steps, ["issue-leaf"]);
  assert.ok(verifies(await leaf(), bundle));
});

test("a deleted CA Secret: its leaf stays in use until the new CA has been in the bundle for the overlap", async () => {
  await turn();
  const old = await leaf();
  store.remove(CA_SECRET);
  assert.deepEqual((await turn()).steps, ["create-next", "publish", "stamp-next"]);
  assert.equal(await leaf(), old);
  assert.ok(verifies(old, await live()));
  now += 10 * MINUTE;
  assert.deepEqual((await turn()).steps, ["promote", "issue-leaf", "stamp-previous"]);
  assert.ok(verifies(old, await live()) && verifies(await leaf(), await live()));
  now += 10 * MINUTE;
  await turn();
  assert.ok(!verifies(old, await live()) && verifies(await leaf(), await live()));
});

test("both Secrets deleted: the CA in the live bundle stays, and a leaf follows after half a minute", async () => {
  await turn();
  const held = await leaf();
  store.remove(CA_SECRET);
  store.remove(TLS_SECRET);
  assert.deepEqual((await turn()).steps, ["create-next", "publish", "stamp-next"]);
  assert.ok(verifies(held, await live()));
  now += 30_000;
  assert.deepEqual((await turn()).steps, ["promote", "issue-leaf", "stamp-previous"]);
  assert.ok(verifies(held, await live()) && verifies(await leaf(), await live()));
});

test("a broken CA key is handled like a lost one", async () => {
  await turn();
  const data = (await store.read(CA_SECRET))!;
  await store.write(CA_SECRET, { ...data.data, "ca.key": "broken" }, data);
  const result = await turn();
  assert.deepEqual(result.steps, ["create-next", "publish", "stamp-next"]);
  assert.ok(verifies(await leaf(), await live()));
  assert.deepEqual(Object.keys((await store.read(CA_SECRET))!.data).toSorted(), [
    "next.crt",
    "next.key",
    "next.since",
    "previous.crt",
  ]);
});

test("a broken next CA is recreated, and so is a broken TLS pair", async () => {
  await turn();
  now += 201 * DAY;
  await turn();
  const ca = (await store.read(CA_SECRET))!;
  await store.write(CA_SECRET, { ...ca.data, "next.crt": "broken" }, ca);
  const tls = (await store.read(TLS_SECRET))!;
  await store.write(TLS_SECRET, { ...tls.data, "tls.key": "broken" }, tls);
  const result = await turn();
  assert.equal(result.steps[0], "repair");
  assert.ok(result.steps.includes("issue-leaf") && result.steps.includes("create-next"));
  assert.ok(verifies(await leaf(), await live()));
});

test("a new cluster domain: the CA issues a leaf with its name", async () => {
  await turn();
  const names = servingNames("switchback-webhook", "switchback-system", "cozy.local");
  assert.deepEqual((await turn({ names })).steps, ["issue-leaf"]);
});

test("after months without a leader everything is recreated at once", async () => {
  await turn();
  now += 400 * DAY;
  const result = await turn();
  assert.ok(result.steps.includes("promote"), result.steps.join());
  assert.ok((result.leafNotAfter ?? 0) > now);
  assert.ok(verifies(await leaf(), await live()));
});

test("a bundle that cannot be written is reported, and delays only the steps that rely on it", async () => {
  await turn();
  const forbidden = new SwitchbackError("kube-status", "forbidden", { status: 403 });
  const bundleWriter = { ...bundles, write: () => Promise.reject(forbidden) };
  now += 201 * DAY;
  const result = await turn({ bundleWriter });
  assert.deepEqual(result.steps, ["issue-leaf", "create-next"], "the leaf is renewed, the next CA waits");
  assert.deepEqual(
    [result.bundle, result.bundleError, result.reason.code],
    ["unknown", forbidden, "bundle-unreadable"],
  );
  now += DAY;
  assert.deepEqual((await turn({ bundleWriter })).steps, []);
  assert.deepEqual((await turn()).steps, ["publish", "stamp-next"], "the overlap begins once it is in the bundle");
});

test("while the bundle cannot be read, a lost CA is not replaced: the trusted CAs are unknown", async () => {
  await turn();
  store.remove(CA_SECRET);
  const bundleWriter = { ...bundles, read: () => Promise.reject(new Error("down")) };
  const result = await turn({ bundleWriter });
  assert.deepEqual([result.steps, result.reason.code], [[], "bundle-unreadable"]);
});

test("a Secret that cannot be read stops the turn: unknown is not absent", async () => {
  await turn();
  const before = await store.read(CA_SECRET);
  await assert.rejects(turn({ store: { ...store, read: () => Promise.reject(new Error("down")) } }), /down/);
  assert.equal(await store.read(CA_SECRET), before);
});

test("a turn reports its complete state and all steps, and each step is logged", async () => {
  const log = new LineLog();
  const first = await turn({ log });
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, (fields as { step: string }).step]),
    first.steps.map((step) => ["info", step]),
  );
  const { reason, ...steady } = await turn();
  assert.equal(reason.code, "steady");
  assert.deepEqual(steady, {
    at: now + DAY,
    bundle: "current",
    caNotAfter: now + 300 * DAY,
    leafNotAfter: now + 30 * DAY,
    steps: [],
    bundleError: undefined,
    isObstructed: false,
  });
});

for (const status of [404, 409]) {
  test(`a turn whose writes all conflict (${status}) ends after sixteen; the next one is due at once`, async () => {
    const [log, moved] = [new LineLog(), new SwitchbackError("kube-status", "moved", { status })];
    let writes = 0;
    const write = () => {
      writes++;
      return Promise.reject(moved);
    };
    const { steps, at, isObstructed } = await turn({ store: { ...store, write }, log });
    assert.deepEqual([writes, steps, at, isObstructed], [16, [], now, false]);
    const line = { level: "debug", fields: { step: "create-signer", error: "moved" } };
    assert.deepEqual(
      log.lines.map(({ level, fields }) => ({ level, fields })),
      Array(16).fill(line),
    );
  });
}

test("any other failure of a write ends the turn", async () => {
  const write = () => Promise.reject(new SwitchbackError("kube-status", "no", { status: 500 }));
  await assert.rejects(turn({ store: { ...store, write } }), { status: 500 });
});

test("a process that is no longer the leader writes nothing", async () => {
  const stop = new AbortController();
  stop.abort();
  await assert.rejects(runTurn(context(), stop.signal), { name: "AbortError" });
  assert.equal(await store.read(CA_SECRET), undefined);
});

for (const pause of ["before", "after"] as const) {
  test(`a leader that pauses ${pause} it reads the bundle cannot revert another leader's writes`, async () => {
    await turn();
    now += 201 * DAY;
    const written: string[] = [];
    let paused = false;
    const meanwhile = async (where: string) => {
      if (paused || where !== pause) return;
      paused = true;
      await turn();
    };
    const slow = {
      ...bundles,
      async read() {
        await meanwhile("before");
        const view = await bundles.read();
        await meanwhile("after");
        return view;
      },
      async write(bundle: string, view: BundleView) {
        await bundles.write(bundle, view);
        written.push(bundle);
      },
    };
    await turn({ bundleWriter: slow });
    assert.ok(paused);
    assert.deepEqual(written, []);
    assert.equal(parseCertificates(await live()).length, 2, "both CAs are in the bundle");
    assert.equal((await turn()).reason.code, "before-switch");
  });
}

test("two leaders that work at the same time end up with one CA", async () => {
  for (let round = 0; round < 3; round += 1) {
    await Promise.all([turn(), turn(), turn()]);
    assert.equal((await turn()).reason.code, "steady");
    assert.ok(verifies(await leaf(), await live()));
    now += 201 * DAY;
    for (const wait of [0, 10, 10]) {
      now += wait * MINUTE;
      await Promise.all([turn(), turn(), turn()]);
    }
  }
});

test("crashes at any write, deletions, late API servers and replicas: every served leaf is trusted", async () => {
  const act = fc.oneof(
    {
      weight: 3,
      arbitrary: fc
        .nat(4)
        .map((writes) => async () => void (await runTurn(failingAfter(writes), never).catch(() => 0))),
    },
    { weight: 3, arbitrary: fc.constantFrom(1, 9, 10).map((minutes) => async () => later(minutes * MINUTE)) },
    { weight: 1, arbitrary: fc.constant(async () => later(201 * DAY)) },
    { weight: 1, arbitrary: fc.constant(async () => void ((await store.read(TLS_SECRET)) && store.remove(CA_SECRET))) },
    { weight: 1, arbitrary: fc.constant(async () => bundles.set(ENTRIES)) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 14 }), async (acts) => {
      now = Date.UTC(2026, 0, 1);
      store = createMemorySecretStore();
      bundles = createMemoryBundle(ENTRIES);
      const history: { at: number; leaf: string; bundle: string }[] = [];
      const check = async () => {
        const bundle = await live();
        const cert = await leaf();
        // Bundles that others wipe are out of scope. After an outage there is nothing to keep valid.
        if (cert !== "" && parseCertificates(cert)[0]!.notAfter <= now) history.length = 0;
        else if (bundle !== "" && cert !== "") history.push({ at: now, leaf: cert, bundle });
        const recent = history.filter(
          ({ at }, index) => (history[index + 1]?.at ?? now) > now - 10 * MINUTE || at === now,
        );
        for (const served of new Set(recent.map((entry) => entry.leaf))) {
          for (const held of new Set(recent.map((entry) => entry.bundle))) assert.ok(verifies(served, held));
        }
      };
      await turn();
      for (const step of acts) {
        await check();
        await step();
        await check();
      }
      // Two overlaps for the current rotation, and two for a CA that became due since then.
      for (let overlaps = 0; overlaps < 5; overlaps += 1) {
        await turn();
        await check();
        now += 10 * MINUTE;
      }
      assert.equal((await turn()).reason.code, "steady");
    }),
    { numRuns: 10, endOnFailure: true },
  );
});
