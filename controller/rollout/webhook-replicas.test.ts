import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import type { RawEndpointSlice } from "#lib/kube/endpoints.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { type FakeCall, fakeApi, json, page, refuse, until, watch } from "#test/fakes/kube-api.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { OBJECTS } from "#test/published.ts";
import { WebhookReplicas } from "./webhook-replicas.ts";

const WANTED = { mapRevision: "abc", maxNames: 500 };
/** The answer of a replica that uses the map. */
const LOADED = { revision: "abc", maxNames: 500 };

/** A replica's answer to /loaded. `mute`: it never answers. */
type Answer = object | "mute" | "broken";

/** A replica at a loopback address. Returns its EndpointSlice. */
async function replica(t: TestContext, address: string, answer: () => Answer, ready = true): Promise<RawEndpointSlice> {
  const server = createServer((request, response) => {
    const loaded = answer();
    if (loaded === "mute") return;
    response.statusCode = loaded === "broken" || request.url !== "/loaded" ? 500 : 200;
    response.end(JSON.stringify(loaded));
  });
  server.listen(0, address);
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    endpoints: [{ addresses: [address], conditions: { ready } }],
    ports: [
      { name: "https", port: 1 },
      { name: "metrics", port },
    ],
  };
}

const ours = { configured: true, dryRun: json({ metadata: { name: OBJECTS.reachable } }) };

/**
 * Replicas, as the API server lists them. `configured`: whether a webhook configuration exists. `dryRun`: the answer
 * to the dry run on the index, which tests whether the API server can call the webhook.
 */
async function replicas(
  t: TestContext,
  slices: readonly RawEndpointSlice[],
  { configured = true, dryRun = ours.dryRun }: Partial<typeof ours> = {},
): Promise<WebhookReplicas> {
  const items = slices.map((slice, index) => ({
    metadata: { namespace: "ours", name: `slice-${index}`, uid: `uid-${index}`, resourceVersion: "1" },
    ...slice,
  }));
  const respond = (call: FakeCall) => {
    if (call.path.includes("mutatingwebhookconfigurations")) {
      return configured ? json({ metadata: { name: "switchback-webhook" } })(call) : refuse(404, "NotFound")(call);
    }
    if (call.method === "PATCH") {
      assert.deepEqual(
        [call.path, call.query.get("dryRun"), call.body],
        [`/api/v1/namespaces/ours/configmaps/${OBJECTS.reachable}`, "All", "{}"],
      );
      return dryRun(call);
    }
    return call.query.get("watch") === "true" ? watch()(call) : page(items, "2")(call);
  };
  const api = await fakeApi(respond);
  const found = new WebhookReplicas({ client: api.client, log: silentLogger, namespace: "ours" });
  t.after(async () => {
    await found.stop();
    await api.close();
  });
  // The watch begins after the list.
  await until(() => api.calls.some(({ query }) => query.get("watch") === "true"), "the list of replicas");
  return found;
}

const current = () => LOADED;
const NONE_READY = { ok: false, code: "webhook-behind", text: "no webhook replica is ready" };

test("the map is used only when every ready replica reports it", async (t) => {
  let second: Answer = { ...LOADED, revision: "old" };
  const slices = [await replica(t, "127.0.0.1", current), await replica(t, "127.0.0.2", () => second)];
  const found = await replicas(t, slices);
  const behind = (problem: string) => ({
    ok: false,
    code: "webhook-behind",
    text: `1 of 2 webhook replicas do not use this map yet: 127.0.0.2${problem}`,
  });
  assert.deepEqual(await found.ask(WANTED), behind(" has old"));
  second = { revision: null };
  assert.deepEqual(await found.ask(WANTED), behind(" has none"));
  second = { ...LOADED, maxNames: 100 };
  assert.deepEqual(await found.ask(WANTED), behind(" has another inject.maxNames"));
  second = "broken";
  assert.deepEqual(await found.ask(WANTED), behind(": /loaded answered 500"));
  second = "mute";
  assert.equal((await found.ask(WANTED)).ok, false);
  second = LOADED;
  assert.deepEqual(await found.ask(WANTED), { ok: true, text: "2 webhook replicas use the map" });
});

test("replicas that the API server cannot call do not count, and the text has its error", async (t) => {
  const calling =
    'failed calling webhook "reachable.switchback.dev": failed to call webhook: Post "https://w": refused';
  const dryRun = json({ kind: "Status", code: 500, reason: "InternalError", message: calling }, 500);
  const found = await replicas(t, [await replica(t, "127.0.0.1", current)], { dryRun });
  const answer = await found.ask(WANTED);
  assert.ok(!answer.ok);
  assert.equal(answer.code, "webhook-unreachable");
  assert.match(answer.text, /^the API server cannot call the webhook: .*failed calling webhook "reachable\./);
});

test("a replica that is not ready is not asked", async (t) => {
  const old = () => ({ ...LOADED, revision: "old" });
  const found = await replicas(t, [await replica(t, "127.0.0.1", current), await replica(t, "127.0.0.2", old, false)]);
  assert.equal((await found.ask(WANTED)).ok, true);
});

test("a replica that moves between slices counts once", async (t) => {
  const slice = await replica(t, "127.0.0.1", current);
  const found = await replicas(t, [slice, slice]);
  assert.deepEqual(await found.ask(WANTED), { ok: true, text: "1 webhook replicas use the map" });
});

test("a replica that does not answer counts as not using the map", async (t) => {
  const slice: RawEndpointSlice = {
    endpoints: [{ addresses: ["127.0.0.1"] }],
    ports: [{ name: "metrics", port: 1 }],
  };
  const { ok, text } = await (await replicas(t, [slice])).ask(WANTED);
  assert.equal(ok, false);
  assert.match(text, /^1 of 1 webhook replicas do not use this map yet: 127\.0\.0\.1: .*ECONNREFUSED/);
});

test("without a ready replica, or without the webhook's configuration, the map is not used", async (t) => {
  const unready = await replica(t, "127.0.0.1", current, false);
  assert.deepEqual(await (await replicas(t, [unready])).ask(WANTED), NONE_READY);
  const slice = await replica(t, "127.0.0.1", current);
  const { ok, text } = await (await replicas(t, [slice], { configured: false })).ask(WANTED);
  assert.equal(ok, false);
  assert.match(text, /^pods would not be injected: /);
});

test("before the first list the replicas are unknown, not absent; stopping ends the watch", async (t) => {
  const kube = new MemoryKube();
  const slices = "/apis/discovery.k8s.io/v1/namespaces/ours/endpointslices";
  kube.put("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook", {});
  kube.silent.add(slices);
  const found = new WebhookReplicas({ client: kube.client, log: silentLogger, namespace: "ours" });
  t.after(() => found.stop());
  await settled();
  assert.deepEqual(await found.ask(WANTED), {
    ok: false,
    code: "webhook-behind",
    text: "the webhook's replicas are not known yet",
  });
  kube.speak(slices);
  await settled();
  assert.deepEqual(await found.ask(WANTED), NONE_READY);
  assert.deepEqual(kube.watched, [slices]);
  const { now } = performance;
  const later = t.mock.method(performance, "now", () => now.call(performance) + 60_000);
  assert.ok(found.inactiveMs >= 60_000);
  later.mock.restore();
  await found.stop();
  assert.deepEqual(kube.watched, []);
});

test("a slice without the health server's port, or without endpoints, has no replica", async (t) => {
  const slice = await replica(t, "127.0.0.1", current);
  const found = await replicas(t, [
    { ...slice, ports: [{ name: "https", port: 1 }] },
    { endpoints: null, ports: slice.ports ?? [] },
    { ports: null },
  ]);
  assert.deepEqual(await found.ask(WANTED), NONE_READY);
});

test("an answer that does not parse has no revision, and a long revision is truncated", async (t) => {
  let answer: unknown = null;
  const found = await replicas(t, [await replica(t, "127.0.0.1", () => answer as object)]);
  const behind = "1 of 1 webhook replicas do not use this map yet: 127.0.0.1 has";
  assert.deepEqual(await found.ask(WANTED), { ok: false, code: "webhook-behind", text: `${behind} none` });
  answer = { ...LOADED, revision: "x".repeat(21) };
  assert.deepEqual(await found.ask(WANTED), {
    ok: false,
    code: "webhook-behind",
    text: `${behind} ${"x".repeat(20)}`,
  });
});
