import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { PodMemory } from "./pod-memory.ts";
import { MAX_NAMESPACES, PodWatches } from "./pod-watches.ts";

const ALL = "/api/v1/pods";
const INJECTED = { "switchback.dev/injected": "true" };
const OWN = { "switchback.dev/inject": "enabled" };
const pods = (namespace: string) => `/api/v1/namespaces/${namespace}/pods`;
const OPEN_EVERY_MS = 100;

/** Records the reported changes of the annotation `revision` of pods. */
function rig(t: TestContext, memory?: PodMemory) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const kube = new MemoryKube();
  const log = new LineLog();
  const changes: string[] = [];
  const synced = { count: 0 };
  const watches = new PodWatches({
    client: kube.client,
    log,
    withNodes: true,
    ...(memory && { memory }),
    onChange: ({ key, before, after }) => void changes.push(`${key} ${before?.revision}>${after?.revision}`),
    onSynced: () => void synced.count++,
  });
  t.after(() => watches.stop());
  const put = (key: string, revision: string, labels: Record<string, string> = {}) => {
    const [namespace = "", name] = key.split("/");
    const annotations = { "switchback.dev/revision": revision };
    kube.put(`${pods(namespace)}/${name}`, { metadata: { labels, annotations }, spec: { nodeName: "node-1" } });
  };
  /** Returns what was reported since the last call. */
  const reported = async () => {
    await settled();
    return changes.splice(0);
  };
  const namespaces = () => kube.watched.filter((path) => path !== ALL).sort();
  return { kube, log, watches, synced, put, reported, namespaces };
}

test("pods are found by the webhook's label, by their own label, or in namespaces that opted in", async (t) => {
  const { kube, watches, put, reported, namespaces } = rig(t);
  put("a/injected", "1", INJECTED);
  put("b/own", "2", OWN);
  put("b/both", "3", { ...OWN, ...INJECTED });
  put("shop/early", "4");
  put("a/other", "5");
  watches.begin(["shop"]);
  assert.deepEqual((await reported()).sort(), [
    "a/injected undefined>1",
    "b/both undefined>3",
    "b/own undefined>2",
    "shop/early undefined>4",
  ]);
  assert.deepEqual([...watches.objects().keys()].sort(), ["a/injected", "b/both", "b/own", "shop/early"]);
  assert.equal(watches.objects().get("a/injected")?.node, "node-1");
  assert.deepEqual([kube.watched.filter((path) => path === ALL).length, namespaces()], [2, [pods("shop")]]);
});

test("it is complete once both labels and all initial namespaces are listed, and reports that once", async (t) => {
  const { kube, watches, synced } = rig(t);
  kube.silent.add(ALL);
  kube.silent.add(pods("bank"));
  await settled();
  assert.equal(watches.unknown?.code, "pods-not-listed");
  watches.begin(["shop", "bank"]);
  await settled();
  kube.speak(ALL);
  await settled();
  assert.deepEqual([watches.unknown?.code, synced.count], ["pods-not-listed", 0]);
  kube.speak(pods("bank"));
  await settled();
  assert.deepEqual([watches.unknown, synced.count], [undefined, 1]);
  kube.silent.add(pods("late"));
  watches.follow("late");
  await settled();
  assert.deepEqual([watches.unknown, synced.count], [undefined, 1]);
});

test("it needs no namespace, and does not wait for one that opts out before it is listed", async (t) => {
  const { kube, watches, synced } = rig(t);
  kube.silent.add(pods("shop"));
  await settled();
  assert.equal(synced.count, 0, "which namespaces opted in is not known");
  watches.begin(["shop"]);
  await settled();
  assert.equal(synced.count, 0);
  watches.unfollow("shop");
  assert.equal(synced.count, 1);
});

test("the reason why pods are unknown contains the API server's answer", async (t) => {
  const { kube, watches } = rig(t);
  kube.onRead = (path) => {
    if (path === ALL) throw refusal(path, 500);
  };
  watches.begin([]);
  await settled();
  assert.match(watches.unknown?.text ?? "", /^the pods of the cluster are not known yet: .*refused by the test/);
});

test("a pod whose label is removed or added is one pod all the time", async (t) => {
  const { watches, put, reported } = rig(t);
  watches.begin(["shop"]);
  put("shop/web", "1", INJECTED);
  assert.deepEqual(await reported(), ["shop/web undefined>1"]);
  for (const [labels, revision] of [
    [{}, "2"],
    [OWN, "3"],
    [{ ...OWN, ...INJECTED }, "4"],
    [{}, "5"],
  ] as const) {
    put("shop/web", revision, labels);
    const moved = await reported();
    assert.ok(moved.at(-1)?.endsWith(`>${revision}`), moved.join());
    assert.equal(watches.objects().size, 1);
    assert.equal(watches.objects().get("shop/web")?.revision, revision);
  }
});

test("a change of no fact is not reported, whichever watch reports it", async (t) => {
  const { watches, put, reported } = rig(t);
  watches.begin(["shop"]);
  put("shop/web", "1", INJECTED);
  await reported();
  put("shop/web", "1", { ...INJECTED, more: "x" });
  assert.deepEqual(await reported(), []);
});

test("a namespace is watched while it is opted in; afterwards only its pods with labels stay", async (t) => {
  const { watches, put, reported, namespaces } = rig(t);
  watches.begin([]);
  put("shop/early", "1");
  put("shop/injected", "2", INJECTED);
  assert.deepEqual(await reported(), ["shop/injected undefined>2"]);
  watches.follow("shop");
  watches.follow("shop");
  assert.deepEqual(await reported(), ["shop/early undefined>1"]);
  assert.deepEqual(namespaces(), [pods("shop")]);
  watches.unfollow("shop");
  watches.unfollow("other");
  assert.deepEqual([await reported(), namespaces()], [["shop/early 1>undefined"], []]);
  assert.deepEqual([...watches.objects().keys()], ["shop/injected"]);
});

test("at most sixteen watches are opened at a time", async (t) => {
  const { watches, synced, namespaces } = rig(t);
  watches.begin(Array.from({ length: 40 }, (_, index) => `n${index}`));
  const open: number[] = [];
  for (let step = 0; step < 4; step++) {
    await settled();
    open.push(namespaces().length);
    t.mock.timers.tick(OPEN_EVERY_MS);
  }
  assert.deepEqual([open, synced.count], [[16, 32, 40, 40], 1]);
});

test("above the limit, one watch of the cluster replaces those of namespaces, and no pod is gone", async (t) => {
  const { kube, log, watches, synced, put, reported, namespaces } = rig(t);
  const many = Array.from({ length: MAX_NAMESPACES }, (_, index) => `n${index}`);
  put("n1/web", "1");
  put("other/web", "2");
  put("last/web", "3");
  put("n2/injected", "4", INJECTED);
  watches.begin(many.slice(0, 16));
  assert.deepEqual(await reported(), ["n2/injected undefined>4", "n1/web undefined>1"]);
  assert.deepEqual([namespaces().length, watches.notice, synced.count], [16, undefined, 1]);
  kube.silent.add(ALL);
  for (const namespace of [...many, "last"]) watches.follow(namespace);
  t.mock.timers.tick(OPEN_EVERY_MS);
  await settled();
  kube.speak(ALL);
  assert.deepEqual(await reported(), ["last/web undefined>3"]);
  assert.deepEqual([...watches.objects().keys()].sort(), ["last/web", "n1/web", "n2/injected"]);
  assert.equal(kube.watched.filter((path) => path === ALL).length, 3);
  assert.equal(watches.notice?.code, "many-namespaces");
  assert.equal(log.lines.filter(({ fields }) => "code" in fields && fields.code === "many-namespaces").length, 1);
  put("n1/web", "5");
  assert.deepEqual(await reported(), ["n1/web 1>5"], "the watch of the cluster has it now");
  watches.unfollow("n1");
  watches.follow("n1");
  watches.follow("other");
  assert.deepEqual(await reported(), ["other/web undefined>2"], "what opts in later is watched by itself");
  assert.deepEqual(namespaces(), [pods("other")]);
});

test("a later watch of the cluster replaces the earlier one, and keeps the namespaces of both", async (t) => {
  const { kube, watches, put, reported, namespaces } = rig(t);
  const many = (letter: string) => Array.from({ length: MAX_NAMESPACES + 1 }, (_, index) => `${letter}${index}`);
  put("a1/web", "1");
  put("b1/web", "2");
  watches.begin(many("a"));
  assert.deepEqual(await reported(), ["a1/web undefined>1"]);
  assert.equal(watches.unknown, undefined);
  for (const namespace of many("b")) watches.follow(namespace);
  t.mock.timers.tick(OPEN_EVERY_MS);
  assert.deepEqual(await reported(), ["b1/web undefined>2"]);
  assert.deepEqual([kube.watched.filter((path) => path === ALL).length, namespaces()], [3, []]);
  put("a1/web", "3");
  assert.deepEqual(await reported(), ["a1/web 1>3"]);
});

test("no pod matches two of the selections", async (t) => {
  const { kube, watches } = rig(t);
  const selectors = new Set<unknown>();
  const { get } = kube.client;
  kube.client.get = async (path, query, options) => {
    selectors.add(query?.labelSelector);
    return await get(path, query, options);
  };
  watches.begin(["shop"]);
  await settled();
  const [injected, own] = ["switchback.dev/injected", "switchback.dev/inject"];
  assert.deepEqual([...selectors].sort(), [`!${own},!${injected}`, `${own},!${injected}`, injected].sort());
});

test("after stop, nothing is watched or reported", async (t) => {
  const { kube, watches, put, reported } = rig(t);
  watches.begin(Array.from({ length: 20 }, (_, index) => `n${index}`));
  put("n1/web", "1");
  await reported();
  watches.unfollow("n1");
  await watches.stop();
  t.mock.timers.tick(OPEN_EVERY_MS);
  assert.deepEqual([await reported(), kube.watched], [[], []]);
});

test("pods above the memory limit are left out, with a reason, until others are gone", async (t) => {
  const log = new LineLog();
  const { kube, watches, put, reported } = rig(t, new PodMemory({ log, limit: 3_000 }));
  watches.begin([]);
  for (const name of ["1", "2", "3", "4", "5", "6", "7", "8"]) put(`a/${name}`, "r", INJECTED);
  await reported();
  const kept = [...watches.objects().keys()];
  assert.ok(kept.length > 1 && kept.length < 8, `${kept}`);
  assert.deepEqual([watches.notice?.code, watches.shedPods], ["pods-shed", 8 - kept.length]);
  for (const key of kept) kube.remove(`${pods("a")}/${key.slice(2)}`);
  put("a/8", "s", INJECTED);
  await reported();
  assert.deepEqual([...watches.objects().keys()], ["a/8"]);
});
