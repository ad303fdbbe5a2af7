import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryApi } from "#test/fakes/memory-api.ts";
import { isSettled, settled } from "#test/fakes/stopped-time.ts";
import { informerState, ingressSource } from "./ingress.ts";

const INGRESSES = "/apis/networking.k8s.io/v1/ingresses";
const CLASSES = "/apis/networking.k8s.io/v1/ingressclasses";

function ingress(name: string, className?: string) {
  const spec = { ...(className && { ingressClassName: className }), rules: [{ host: `${name}.example.com` }] };
  return { metadata: { namespace: "shop", name, creationTimestamp: "2026-01-01T00:00:00Z" }, spec };
}

function ingressClass(name: string, isDefault?: string) {
  const annotations = isDefault === undefined ? {} : { "ingressclass.kubernetes.io/is-default-class": isDefault };
  return { metadata: { name, annotations } };
}

/** A source for a cluster in memory; `reported` has `key host:class` for each claim, `-key` if there are none. */
function rig(t: TestContext) {
  const api = new MemoryApi();
  const source = ingressSource({ client: api.client, log: silentLogger });
  const reported: string[] = [];
  const calls = { synced: 0 };
  const start = () =>
    source.start(
      (key, claims) => {
        if (claims.length === 0) reported.push(`-${key}`);
        for (const { hostname, hints } of claims) {
          reported.push(`${key} ${hostname}:${"code" in hints ? hints.code : hints.className}`);
        }
      },
      () => {
        calls.synced += 1;
      },
    );
  t.after(() => source.stop());
  const take = () => reported.splice(0);
  return { api, source, start, reported, take, calls };
}

for (const last of [CLASSES, INGRESSES]) {
  test(`nothing is reported before the classes are known, and synced is reported once: ${last.split("/").pop()} last`, async (t) => {
    const { api, start, take, calls, source } = rig(t);
    api.set(INGRESSES, ingress("a"));
    api.set(CLASSES, ingressClass("nginx", "true"));
    const release = api.hold(last);
    start();
    await settled();
    assert.deepEqual([take(), calls.synced], [[], 0]);
    assert.deepEqual(
      source.state().map(({ name, synced }) => [name, synced]),
      [
        ["ingresses", last !== INGRESSES],
        ["ingressclasses", last !== CLASSES],
      ],
    );
    release();
    await settled();
    assert.deepEqual(new Set(take()), new Set(["shop/a a.example.com:nginx"]));
    assert.equal(calls.synced, 1);
    assert.ok(source.state().every(({ synced }) => synced));
    assert.deepEqual([...api.whole], [INGRESSES], "of a class an annotation counts");
  });
}

test("an added, changed or deleted Ingress is reported", async (t) => {
  const { api, start, take, calls } = rig(t);
  start();
  await settled();
  assert.deepEqual([take(), calls.synced], [[], 1]);
  api.set(INGRESSES, ingress("a", "nginx"));
  api.set(INGRESSES, ingress("a", "traefik"));
  api.remove(INGRESSES, "shop/a");
  assert.deepEqual(take(), ["shop/a a.example.com:nginx", "shop/a a.example.com:traefik", "-shop/a"]);
  assert.equal(calls.synced, 1);
});

test("another default class changes only the Ingresses without a class", async (t) => {
  const { api, start, take } = rig(t);
  api.set(INGRESSES, ingress("a"));
  api.set(INGRESSES, ingress("b", "nginx"));
  api.set(CLASSES, ingressClass("other", "false"));
  start();
  await settled();
  assert.deepEqual(new Set(take()), new Set(["shop/a a.example.com:undefined", "shop/b b.example.com:nginx"]));
  api.set(CLASSES, ingressClass("m", "true"));
  assert.deepEqual(take(), ["shop/a a.example.com:m"]);
  api.set(CLASSES, ingressClass("z", "true"));
  assert.deepEqual(take(), [], "with two defaults the first by name counts");
  api.set(CLASSES, ingressClass("b", "true"));
  assert.deepEqual(take(), ["shop/a a.example.com:b"]);
  api.remove(CLASSES, "b");
  assert.deepEqual(take(), ["shop/a a.example.com:m"]);
});

test("stopping ends both watches and waits for them", async (t) => {
  const { api, start, source, take } = rig(t);
  start();
  await settled();
  assert.deepEqual(api.watched, [CLASSES, INGRESSES]);
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = source.stop();
  assert.equal(await isSettled(stopped), false);
  api.set(INGRESSES, ingress("a", "nginx"));
  linger.resolve();
  await stopped;
  assert.deepEqual([api.watched, take()], [[], []]);
});

test("a source that was not started has no objects, and stops", async (t) => {
  const { source } = rig(t);
  assert.deepEqual(source.state(), [
    { name: "ingresses", synced: false, problems: [] },
    { name: "ingressclasses", synced: false, problems: [] },
  ]);
  await source.stop();
});

test("a failing watch is a problem of the source", async (t) => {
  const { api, start, source } = rig(t);
  api.refuse(CLASSES, 403);
  start();
  await settled();
  const [ingresses, classes] = source.state();
  assert.deepEqual([ingresses?.problems, classes?.problems.map(({ place }) => place)], [[], ["ingressclasses"]]);
  assert.equal(typeof classes?.inactiveMs, "number");
  assert.deepEqual(informerState("x", undefined), { name: "x", synced: false, problems: [] });
});
