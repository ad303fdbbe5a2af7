import assert from "node:assert/strict";
import { test } from "node:test";
import { STATUS_KEY_HEADER, statusSecretData } from "#lib/documents/status-page.ts";
import { controllerRig, OWN, statusKey } from "#test/fakes/controller-rig.ts";
import { refusal } from "#test/fakes/memory-kube.ts";

const SECRET = `${OWN}/secrets/switchback-status`;
const WRONG =
  "send the key in the Secret switchback-status as the header switchback-status-key; the ClusterRole " +
  "switchback-reader grants reading it\n";
const UNKNOWN = "the key in the Secret switchback-status is not known to this controller yet\n";

type Rig = Awaited<ReturnType<typeof controllerRig>>;
const ask = (rig: Rig, key?: string) => rig.page("/status", { ...(key !== undefined && { [STATUS_KEY_HEADER]: key }) });
const writes = ({ kube }: Rig) => kube.writes.filter(({ path }) => path === SECRET);
/** Waits until the replica uses the key of the Secret. */
async function known(rig: Rig): Promise<void> {
  await rig.status();
}

test("a new key of 256 bits is created once, and a request without it does not get the page", async (t) => {
  const rig = await controllerRig(t);
  await known(rig);
  const key = statusKey(rig.kube) ?? "";
  assert.equal(Buffer.from(key, "base64url").length, 32);
  for (const sent of [undefined, "", "x".repeat(43), `${key}x`, key.slice(1), key.toUpperCase()]) {
    assert.deepEqual(await ask(rig, sent), { status: 403, text: WRONG }, String(sent));
  }
  assert.equal((await ask(rig, key)).status, 200);
  const [write, ...more] = writes(rig);
  assert.deepEqual(more, []);
  const metadata = { name: "switchback-status", namespace: "switchback-system", resourceVersion: "1" };
  const secret = { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", data: statusSecretData(key) };
  assert.deepEqual(write?.body, secret);
});

test("no request gets the page while the key cannot be created", async (t) => {
  let isForbidden = true;
  const rig = await controllerRig(t, {
    prepare: (kube) => {
      kube.onWrite = ({ path }) => {
        if (path === SECRET && isForbidden) throw refusal(path, 403);
      };
    },
  });
  for (const key of [undefined, "", "undefined"]) assert.deepEqual(await ask(rig, key), { status: 403, text: UNKNOWN });
  isForbidden = false;
  await known(rig);
});

test("a deleted key is refused within a second, and replaced; without an API server it stays valid", async (t) => {
  const rig = await controllerRig(t);
  await known(rig);
  const old = statusKey(rig.kube) ?? "";
  rig.kube.refuse(SECRET, 503);
  const { now } = performance;
  t.mock.method(performance, "now", () => now.call(performance) + 1_000);
  assert.equal((await ask(rig, old)).status, 200);
  rig.kube.refuse(SECRET, undefined);
  rig.kube.remove(SECRET);
  t.mock.method(performance, "now", () => now.call(performance) + 2_000);
  assert.deepEqual(await ask(rig, old), { status: 403, text: WRONG });
  assert.equal((await ask(rig, statusKey(rig.kube))).status, 200);
  t.mock.restoreAll();
});
