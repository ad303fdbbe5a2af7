import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { KubeClient } from "#lib/kube/client.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { endlessTerm } from "#test/fakes/term.ts";
import { WEBHOOK_CONFIGURATION } from "./ca-bundle.ts";
import { KubeBundleWriter } from "./ca-bundle-kube.ts";
import { CA_SECRET, TLS_SECRET } from "./secret-store.ts";
import { KubeSecretStore } from "./secret-store-kube.ts";
import { secretSource } from "./serving-secret.ts";

// Tests how certificates are read, written and watched. test/integration/ tests the API server's own rules.

const SECRETS = "/api/v1/namespaces/ns/secrets";
const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const base64 = (text: string) => Buffer.from(text).toString("base64");

/**
 * Records its writes and responds to each read with the result of `read`. The write of a leader term
 * (`switchback-term`) returns version 9.
 */
function writing(read: () => unknown = () => assert.fail("read")) {
  const writes: unknown[][] = [];
  const note = async (...call: unknown[]) => void writes.push(call);
  const apply = async (path: string, object: object, options: { fieldManager: string }) => {
    if (options.fieldManager === "switchback-term") return { metadata: { resourceVersion: "9" } };
    return await note(path, object, options);
  };
  const client = { get: async () => read(), apply, mergePatch: note, jsonPatch: note };
  return { client: client as unknown as KubeClient, writes };
}

const failing = (status: number) => () => {
  throw new KubeStatusError("GET", status, { reason: "x", message: "" });
};

for (const [what, of] of [
  [
    "Secret",
    (client: KubeClient) =>
      new KubeSecretStore({ client, namespace: "ns", log: silentLogger, fence: endlessTerm(client) }).read(TLS_SECRET),
  ],
  [
    "configuration",
    (client: KubeClient) => new KubeBundleWriter({ client, log: silentLogger, fence: endlessTerm(client) }).read(),
  ],
] as const) {
  test(`a ${what} that does not exist is undefined; a failed read throws`, async () => {
    assert.equal(await of(writing(failing(404)).client), undefined);
    for (const status of [403, 500]) await assert.rejects(of(writing(failing(status)).client), { status });
  });
}

test("a Secret is read as text, with its version", async () => {
  const { client } = writing(() => ({ metadata: { resourceVersion: "7" }, data: { "tls.crt": base64("päm") } }));
  const store = new KubeSecretStore({ client, namespace: "ns", log: silentLogger, fence: endlessTerm(client) });
  assert.deepEqual(await store.read(TLS_SECRET), { data: { "tls.crt": "päm" }, version: "9" });
  const empty = writing(() => ({ metadata: { resourceVersion: "8" } })).client;
  const other = new KubeSecretStore({ client: empty, namespace: "ns", log: silentLogger, fence: endlessTerm(client) });
  assert.deepEqual(await other.read(CA_SECRET), { data: {}, version: "9" });
});

test("a new Secret is applied in a way that can only create it; a known one is patched at its version", async () => {
  const { client, writes } = writing();
  const store = new KubeSecretStore({ client, namespace: "ns", log: silentLogger, fence: endlessTerm(client) });
  await store.write(TLS_SECRET, { a: "1" }, undefined);
  await store.write(CA_SECRET, { a: "1" }, undefined);
  await store.write(CA_SECRET, { a: "2" }, { data: { a: "1", old: "x" }, version: "7" });
  const secret = (name: string, type: string) => {
    const metadata = { name, namespace: "ns", resourceVersion: "1" };
    return { apiVersion: "v1", kind: "Secret", metadata, type, data: { a: base64("1") } };
  };
  const create = { fieldManager: "switchback-certs", force: true };
  assert.deepEqual(writes, [
    [`${SECRETS}/${TLS_SECRET}`, secret(TLS_SECRET, "kubernetes.io/tls"), create],
    [`${SECRETS}/${CA_SECRET}`, secret(CA_SECRET, "Opaque"), create],
    [
      `${SECRETS}/${CA_SECRET}`,
      { metadata: { resourceVersion: "7" }, data: { a: base64("2"), old: null } },
      { fieldManager: "switchback-certs" },
    ],
  ]);
});

test("the caBundle is read from each entry, and written to each at the version that was read", async () => {
  const webhooks = [
    { name: "a", clientConfig: { caBundle: base64("pem") } },
    { name: "b", clientConfig: {} },
    { name: "c" },
  ];
  const { client, writes } = writing(() => ({ metadata: { resourceVersion: "7" }, webhooks }));
  const writer = new KubeBundleWriter({ client, log: silentLogger, fence: endlessTerm(client) });
  const view = await writer.read();
  assert.deepEqual(view, {
    version: "9",
    entries: [
      { name: "a", bundle: "pem" },
      { name: "b", bundle: "" },
      { name: "c", bundle: "" },
    ],
  });
  await writer.write("new", view ?? assert.fail());
  const value = base64("new");
  const operations = [
    { op: "replace", path: "/metadata/resourceVersion", value: "9" },
    ...[0, 1, 2].map((at) => ({ op: "add", path: `/webhooks/${at}/clientConfig/caBundle`, value })),
  ];
  assert.deepEqual(writes, [
    [`${WEBHOOKS}/${WEBHOOK_CONFIGURATION}`, operations, { fieldManager: "switchback-cabundle" }],
  ]);
});

/** Starts a watch with `begin`. `take` returns the number of events since its last call. */
async function heardOf(t: TestContext, begin: (api: MemoryKube, changed: () => void, signal: AbortSignal) => void) {
  const api = new MemoryKube();
  const stop = new AbortController();
  t.after(() => stop.abort());
  let heard = 0;
  begin(
    api,
    () => {
      heard += 1;
    },
    stop.signal,
  );
  await settled();
  const take = () => {
    const count = heard;
    heard = 0;
    return count;
  };
  return { api, stop, take };
}

test("both Secrets are watched, each list and change is reported, and the signal ends both watches", async (t) => {
  const { api, stop, take } = await heardOf(t, ({ client }, changed, signal) =>
    new KubeSecretStore({ client, namespace: "ns", log: silentLogger, fence: endlessTerm(client) }).watch(
      changed,
      signal,
    ),
  );
  assert.deepEqual([api.watched, take()], [[SECRETS, SECRETS], 2]);
  api.set(SECRETS, { metadata: { name: "another" } });
  assert.equal(take(), 0);
  api.set(SECRETS, { metadata: { name: CA_SECRET } });
  assert.equal(take(), 1);
  api.set(SECRETS, { metadata: { name: TLS_SECRET } });
  api.unset(SECRETS, TLS_SECRET);
  assert.equal(take(), 2);
  stop.abort();
  await settled();
  assert.deepEqual(api.watched, []);
});

test("the configuration is watched, its list and changes are reported, and the signal ends the watch", async (t) => {
  const { api, stop, take } = await heardOf(t, ({ client }, changed, signal) =>
    new KubeBundleWriter({ client, log: silentLogger, fence: endlessTerm(client) }).watch(changed, signal),
  );
  assert.deepEqual([api.watched, take()], [[WEBHOOKS], 1]);
  api.set(WEBHOOKS, { metadata: { name: "another" } });
  assert.equal(take(), 0);
  api.set(WEBHOOKS, { metadata: { name: WEBHOOK_CONFIGURATION } });
  assert.equal(take(), 1);
  stop.abort();
  await settled();
  assert.deepEqual(api.watched, []);
});

test("the serving Secret is followed; its deletion is reported, and stopping ends the watch", async () => {
  const api = new MemoryKube();
  const offers: unknown[] = [];
  const source = secretSource({ client: api.client, namespace: "ns", log: silentLogger });
  const metadata = { name: TLS_SECRET };
  api.set(SECRETS, { metadata, data: { "tls.crt": base64("cert"), "tls.key": base64("key") } });
  const running = source.start((offer) => void offers.push("code" in offer ? offer.code : offer));
  await settled();
  api.set(SECRETS, { metadata, data: {} });
  api.unset(SECRETS, TLS_SECRET);
  assert.deepEqual(offers, [{ cert: "cert", key: "key" }, { cert: "", key: "" }, "secret-missing"]);
  await running.stop();
  assert.deepEqual(api.watched, []);
});

test("a rejected write throws", async () => {
  const refuse = async () => failing(409)();
  const client = { apply: refuse, mergePatch: refuse, jsonPatch: refuse } as unknown as KubeClient;
  const store = new KubeSecretStore({ client, namespace: "ns", log: silentLogger, fence: endlessTerm(client) });
  await assert.rejects(store.write(TLS_SECRET, {}, undefined), { status: 409 });
  await assert.rejects(store.write(TLS_SECRET, {}, { data: {}, version: "7" }), { status: 409 });
  const writer = new KubeBundleWriter({ client, log: silentLogger, fence: endlessTerm(client) });
  await assert.rejects(writer.write("new", { version: "7", entries: [] }), { status: 409 });
});
