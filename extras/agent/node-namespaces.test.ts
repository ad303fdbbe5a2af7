import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Query } from "#lib/kube/paths.ts";
import type { ReadOptions } from "#lib/kube/types.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { watchNodeNamespaces } from "./node-namespaces.ts";

const NAMESPACES = "/api/v1/namespaces";
const PAUSE_MS = 5_000;

/** A node with pods in these namespaces. `arrive` adds one. `lists` has the names of each request. */
function rig(t: TestContext, ...present: string[]) {
  const pass = stopTime(t, 50);
  const kube = new MemoryKube();
  const put = (name: string, inject?: string) =>
    kube.put(`${NAMESPACES}/${name}`, { metadata: { labels: inject && { "switchback.dev/inject": inject } } });
  const lists: string[][] = [];
  const client = {
    get: async <T>(path: string, query: Query = {}, options?: ReadOptions) => {
      lists.push((/\((.*)\)/.exec(String(query.labelSelector))?.[1] ?? "").split(","));
      return await kube.client.get<T>(path, query, options);
    },
    stream: kube.client.stream,
  };
  const names = new Set(present);
  const seen = { changes: 0 };
  const namespaces = watchNodeNamespaces({
    client,
    log: new LineLog(),
    names: () => names,
    pauseMs: () => PAUSE_MS,
    onChange() {
      seen.changes += 1;
    },
  });
  t.after(() => namespaces.stop());
  const arrive = (name: string) => {
    names.add(name);
    namespaces.follow(name);
  };
  const inject = (name: string) => namespaces.get(name)?.inject;
  return { pass, kube, put, lists, names, seen, namespaces, arrive, inject };
}

test("only the namespaces of the node's pods are listed, and only their changes are reported", async (t) => {
  const { pass, put, lists, seen, namespaces, inject } = rig(t, "shop", "bank");
  for (const name of ["shop", "other"]) put(name, "enabled");
  put("bank");
  namespaces.follow();
  assert.equal(namespaces.synced, false);
  await pass(100);
  assert.deepEqual([namespaces.synced, lists], [true, [["shop", "bank"]]]);
  assert.deepEqual(namespaces.get("bank"), { inject: undefined, onChange: undefined });
  assert.deepEqual([inject("shop"), namespaces.get("other")], ["enabled", undefined]);
  const before = seen.changes;
  put("other", "disabled");
  await pass(100);
  assert.equal(seen.changes, before, "other namespaces are no business of this node");
  for (let write = 0; write < 2; write += 1) {
    put("bank", "enabled");
    await pass(100);
    assert.deepEqual([inject("bank"), seen.changes], ["enabled", before + 1], "a write that changes neither is none");
  }
});

test("without pods, a node requests no namespace", async (t) => {
  const { pass, lists, seen, namespaces } = rig(t);
  namespaces.follow();
  await pass(100);
  assert.deepEqual([namespaces.synced, seen.changes, lists], [true, 1, []]);
});

test("when a pod arrives in a new namespace, a new watch includes it, and the old watch ends", async (t) => {
  const { pass, kube, put, lists, namespaces, arrive, inject } = rig(t, "shop");
  put("shop", "enabled");
  put("bank", "enabled");
  namespaces.follow();
  await pass(PAUSE_MS);
  arrive("bank");
  await pass(PAUSE_MS);
  assert.deepEqual([inject("shop"), inject("bank")], ["enabled", "enabled"]);
  put("bank", "disabled");
  await pass(100);
  assert.equal(inject("bank"), "disabled");
  assert.deepEqual([lists, kube.watched], [[["shop"], ["shop", "bank"]], [NAMESPACES]]);
  await namespaces.stop();
  assert.deepEqual(kube.watched, []);
});

test("while a new list is refused or gets no answer, known namespaces stay and are updated", async (t) => {
  const { pass, kube, put, namespaces, arrive, inject } = rig(t, "shop");
  put("shop", "enabled");
  namespaces.follow();
  await pass(PAUSE_MS);
  kube.onRead = (path) => {
    throw refusal(path, 503);
  };
  arrive("bank");
  await pass(PAUSE_MS);
  assert.equal(inject("shop"), "enabled");
  put("shop", "disabled");
  await pass(100);
  assert.equal(inject("shop"), "disabled");
  kube.onRead = () => {};
  const speak = kube.hold(NAMESPACES);
  await pass(PAUSE_MS);
  assert.deepEqual([namespaces.synced, inject("shop")], [true, "disabled"]);
  put("bank", "enabled");
  speak();
  await pass(100);
  assert.equal(inject("bank"), "enabled");
});

test("if pods keep arriving in new namespaces, one new watch per pause covers all of them", async (t) => {
  const { pass, lists, names, namespaces, arrive } = rig(t, "shop");
  namespaces.follow();
  await pass(100);
  for (let number = 0; number < 100; number += 1) {
    arrive(`job-${number}`);
    names.delete(`job-${number - 1}`);
    await pass(250, 250);
  }
  assert.ok(lists.length > 3 && lists.length <= 1 + 25_000 / PAUSE_MS, `${lists.length} lists in 25 s`);
  assert.ok(lists.every((list) => list.length <= 128));
});

test("a namespace without pods stays in the watch, until there are too many namespaces", async (t) => {
  const { pass, lists, names, namespaces, arrive } = rig(t, "shop", "job");
  namespaces.follow();
  await pass(PAUSE_MS);
  names.delete("job");
  arrive("bank");
  await pass(2 * PAUSE_MS);
  arrive("job");
  await pass(2 * PAUSE_MS);
  assert.deepEqual(lists.at(-1), ["shop", "job", "bank"]);
  names.clear();
  for (let number = 0; number < 126; number += 1) arrive(`new-${number}`);
  await pass(2 * PAUSE_MS);
  assert.deepEqual([lists.at(-1)?.length, lists.length], [126, 3]);
  for (let number = 126; number < 130; number += 1) arrive(`new-${number}`);
  await pass(2 * PAUSE_MS);
  assert.deepEqual([lists.at(-1)?.length, lists.length], [128, 4]);
  arrive("one-more");
  await pass(2 * PAUSE_MS);
  assert.equal(lists.length, 4, "it is left to be read by itself");
});

test("a stop before the first answer ends at once and reports nothing", async (t) => {
  const { pass, kube, seen, namespaces } = rig(t, "shop");
  kube.hold(NAMESPACES);
  namespaces.follow();
  await pass(100);
  await namespaces.stop();
  assert.deepEqual([namespaces.synced, seen.changes], [false, 0]);
});
