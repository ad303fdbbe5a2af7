import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled } from "#test/fakes/stopped-time.ts";
import { namespaceDomains } from "./namespace-domains.ts";

const NAMESPACES = "/api/v1/namespaces";

function namespace(name: string, domains?: string, labels: Record<string, string> = {}) {
  return { metadata: { name, labels, ...(domains !== undefined && { annotations: { [DOMAINS_KEY]: domains } }) } };
}

function rig(t: TestContext) {
  const api = new MemoryKube();
  const changed: string[] = [];
  const source = namespaceDomains({ client: api.client, log: silentLogger });
  source.follow((name) => changed.push(`${name} ${source.domainsOf(name)}`));
  const calls = { synced: 0 };
  const start = () =>
    source.start(() => {
      calls.synced += 1;
    });
  t.after(() => source.stop());
  return { api, source, start, calls, changed };
}

test("a namespace is reported only when its annotation changes", async (t) => {
  const { api, start, changed } = rig(t);
  api.set(NAMESPACES, namespace("shop", "example.com"));
  api.set(NAMESPACES, namespace("plain"));
  start();
  await settled();
  assert.deepEqual(changed.splice(0), ["shop example.com"]);
  assert.deepEqual([...api.whole], [], "annotations are metadata");
  api.set(NAMESPACES, namespace("shop", "example.com", { a: "b" }));
  assert.deepEqual(changed, []);
  api.set(NAMESPACES, namespace("shop", "example.org"));
  api.set(NAMESPACES, namespace("shop"));
  api.set(NAMESPACES, namespace("shop", ""));
  api.unset(NAMESPACES, "shop");
  assert.deepEqual(changed, ["shop example.org", "shop undefined", "shop ", "shop undefined"]);
});

test("synced is reported once, after the namespaces were listed", async (t) => {
  const { api, source, start, calls } = rig(t);
  const release = api.hold(NAMESPACES);
  assert.deepEqual([source.state()[0]?.synced, source.domainsOf("shop")], [false, undefined]);
  start();
  await settled();
  assert.deepEqual([source.state()[0]?.synced, calls.synced], [false, 0]);
  release();
  await settled();
  assert.deepEqual([source.state()[0]?.synced, source.state()[0]?.name, calls.synced], [true, "namespaces", 1]);
});

test("stopping ends the watch and waits for its end; it also works without a start", async (t) => {
  const { api, source, start, changed } = rig(t);
  await source.stop();
  start();
  await settled();
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = source.stop();
  assert.equal(await isSettled(stopped), false);
  api.set(NAMESPACES, namespace("shop", "example.com"));
  linger.resolve();
  await stopped;
  assert.deepEqual([api.watched, changed], [[], []]);
});
