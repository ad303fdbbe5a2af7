import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled } from "#test/fakes/stopped-time.ts";
import { Namespaces } from "./namespaces.ts";

const NAMESPACES = "/api/v1/namespaces";

function namespace(name: string, domains?: string, labels: Record<string, string> = {}) {
  return { metadata: { name, labels, ...(domains !== undefined && { annotations: { [DOMAINS_KEY]: domains } }) } };
}

function rig(t: TestContext) {
  const api = new MemoryKube();
  const changed: string[] = [];
  const source = new Namespaces({ client: api.client, log: silentLogger });
  source.follow((name, before, after) => changed.push(`${name} ${before?.domains} ${after?.domains}`));
  const calls = { synced: 0 };
  const start = () =>
    source.start(() => {
      calls.synced += 1;
    });
  t.after(() => source.stop());
  return { api, source, start, calls, changed };
}

test("each change of a namespace is reported, with its annotation and labels", async (t) => {
  const { api, start, changed, source } = rig(t);
  api.set(NAMESPACES, namespace("shop", "example.com", { team: "a" }));
  start();
  await settled();
  assert.deepEqual(changed.splice(0), ["shop undefined example.com"]);
  assert.deepEqual([...api.whole], [], "only metadata is read");
  assert.deepEqual([source.of("shop")?.labels.team, source.of("web")], ["a", undefined]);
  api.set(NAMESPACES, namespace("shop", "example.org"));
  api.set(NAMESPACES, namespace("shop", ""));
  api.unset(NAMESPACES, "shop");
  assert.deepEqual(changed, ["shop example.com example.org", "shop example.org ", "shop  undefined"]);
  assert.deepEqual(source.of("shop"), undefined);
});

test("synced is reported once, after the list of namespaces; stopping waits for the end of the watch", async (t) => {
  const { api, source, start, calls } = rig(t);
  const release = api.hold(NAMESPACES);
  start();
  await settled();
  assert.deepEqual([source.state()[0]?.synced, calls.synced], [false, 0]);
  release();
  await settled();
  assert.deepEqual([source.state()[0]?.synced, calls.synced], [true, 1]);
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = source.stop();
  assert.equal(await isSettled(stopped), false);
  linger.resolve();
  await stopped;
  assert.deepEqual(api.watched, []);
});
