import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { OptInRules } from "#hostmap/opt-in.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { IDLE_MS, PodObserver } from "./pod-observer.ts";

const ALL = "/api/v1/pods";
const NAMESPACES = "/api/v1/namespaces";
const pods = (namespace: string) => `${NAMESPACES}/${namespace}/pods`;
const OPTED_IN = { metadata: { labels: { "switchback.dev/inject": "enabled" } } };

/** A cluster in which `shop` and the excluded `own` opted in. Each has a pod. */
function rig(t: TestContext, options: { always?: boolean; withNodes?: boolean; optIn?: OptInRules } = {}) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const kube = new MemoryKube();
  const reported: string[] = [];
  const note = (what: string) => (change: { key: string; before?: unknown; after?: unknown }) =>
    void reported.push(
      `${change.after === undefined ? "-" : change.before === undefined ? "+" : "~"}${what} ${change.key}`,
    );
  for (const name of ["shop", "own"]) {
    kube.put(`${NAMESPACES}/${name}`, OPTED_IN);
    kube.put(`${pods(name)}/web`, { metadata: {}, spec: { nodeName: "node-1" } });
  }
  const observer = new PodObserver({
    client: kube.client,
    log: new LineLog(),
    always: false,
    withNodes: false,
    optIn: { excluded: new Set(["own"]), listed: new Set() },
    ...options,
  });
  observer.start({
    onPod: note("pod"),
    onNamespace: note("namespace"),
    onSynced: () => void reported.push("synced"),
  });
  t.after(() => observer.stop());
  /** Returns what was reported since the last call. */
  const news = async () => {
    await settled();
    return reported.splice(0);
  };
  return { kube, observer, news };
}

test("if something follows pods, the pods of opted-in namespaces are observed from the start", async (t) => {
  const { kube, observer, news } = rig(t, { always: true });
  assert.equal(observer.unknown?.code, "namespaces-not-listed");
  const first = await news();
  assert.deepEqual(first.filter((each) => each !== "synced").sort(), [
    "+namespace own",
    "+namespace shop",
    "+pod shop/web",
  ]);
  assert.equal(first.at(-1), "synced");
  assert.equal(observer.unknown, undefined);
  assert.deepEqual([...observer.pods().keys(), ...observer.namespaces().keys()], ["shop/web", "shop", "own"]);
  assert.deepEqual(kube.watched.toSorted(), [NAMESPACES, pods("shop"), ALL, ALL]);
  t.mock.timers.tick(10 * IDLE_MS);
  await settled();
  assert.equal(observer.unknown, undefined);
});

test("pods have nodes only if nodes matter", async (t) => {
  const nodes = [];
  for (const withNodes of [false, true]) {
    const { observer } = rig(t, { always: true, withNodes });
    await settled();
    nodes.push(observer.pods().get("shop/web")?.node);
    t.mock.timers.reset();
  }
  assert.deepEqual(nodes, [undefined, "node-1"]);
});

test("a namespace that opts in later adds its pods; one that opts out or is deleted removes them", async (t) => {
  const { kube, news } = rig(t, { always: true });
  kube.put(`${pods("bank")}/web`, { metadata: {} });
  await news();
  kube.put(`${NAMESPACES}/bank`, OPTED_IN);
  assert.deepEqual(await news(), ["+namespace bank", "+pod bank/web"]);
  kube.put(`${NAMESPACES}/bank`, { metadata: {} });
  assert.deepEqual(await news(), ["~namespace bank", "-pod bank/web"]);
  kube.remove(`${NAMESPACES}/shop`);
  assert.deepEqual(await news(), ["-namespace shop", "-pod shop/web"]);
});

test("if nothing follows pods, nothing is watched, and the state is unknown", async (t) => {
  const { kube, observer, news } = rig(t);
  assert.deepEqual([await news(), kube.watched, kube.reads], [[], [], []]);
  assert.equal(observer.unknown?.code, "not-observed");
  assert.deepEqual([observer.pods().size, observer.namespaces().size, observer.inactiveMs], [0, 0, 0]);
});

test("a request starts the observation, which ends five minutes after the last request", async (t) => {
  const { kube, observer, news } = rig(t);
  observer.request();
  assert.equal(observer.unknown?.code, "namespaces-not-listed", "not `not-observed`: somebody may wait for it");
  await news();
  assert.deepEqual([observer.unknown, observer.pods().size], [undefined, 1]);
  t.mock.timers.tick(IDLE_MS - 1);
  observer.request();
  t.mock.timers.tick(IDLE_MS - 1);
  assert.deepEqual([await news(), observer.unknown], [[], undefined]);
  t.mock.timers.tick(1);
  assert.equal(observer.unknown?.code, "not-observed");
  assert.deepEqual(await news(), ["synced", "-pod shop/web", "-namespace shop", "-namespace own"]);
  assert.deepEqual([kube.watched, observer.pods().size], [[], 0]);
});

test("a request while the end is still being reported opens the observation again afterwards", async (t) => {
  const { kube, observer, news } = rig(t);
  observer.request();
  await news();
  t.mock.timers.tick(IDLE_MS);
  observer.request();
  assert.equal(observer.unknown?.code, "namespaces-not-listed");
  const all = await news();
  assert.ok(all.indexOf("-namespace own") < all.indexOf("+namespace own"), all.join());
  assert.deepEqual([observer.unknown, observer.pods().size], [undefined, 1]);
  assert.equal(kube.watched.length, 4);
});

test("a listed namespace is observed, even one that is created later, unless its label is disabled", async (t) => {
  const optIn = { excluded: new Set<string>(), listed: new Set(["listed"]) };
  const { kube, observer, news } = rig(t, { always: true, optIn });
  kube.put(`${pods("listed")}/web`, { metadata: {} });
  await news();
  assert.ok(observer.pods().has("listed/web"), "before its Namespace is known");
  kube.put(`${NAMESPACES}/listed`, { metadata: { labels: { "switchback.dev/inject": "disabled" } } });
  assert.deepEqual(await news(), ["+namespace listed", "-pod listed/web"]);
  kube.put(`${NAMESPACES}/listed`, { metadata: {} });
  assert.ok((await news()).includes("+pod listed/web"));
});

test("if a handler fails, only its change is lost, also while the end is reported", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const kube = new MemoryKube();
  const log = new LineLog();
  const handled: string[] = [];
  kube.put(`${NAMESPACES}/shop`, OPTED_IN);
  for (const name of ["odd", "web"]) kube.put(`${pods("shop")}/${name}`, { metadata: {} });
  const observer = new PodObserver({
    client: kube.client,
    log,
    always: false,
    withNodes: false,
    optIn: { excluded: new Set(), listed: new Set() },
  });
  observer.start({
    onPod: ({ key }) => {
      handled.push(key);
      if (key === "shop/odd") throw new Error("odd");
    },
    onNamespace: () => {},
    onSynced: () => {},
  });
  t.after(() => observer.stop());
  observer.request();
  await settled();
  t.mock.timers.tick(IDLE_MS);
  await settled();
  assert.deepEqual(handled, ["shop/odd", "shop/web", "shop/odd", "shop/web"]);
  assert.deepEqual(log.messages, Array(2).fill("a change could not be handled: odd"));
  observer.request();
  await settled();
  assert.equal(observer.pods().size, 2, "it can be observed again");
});

test("the reason for an unknown state is the first missing list, with the API server's answer", async (t) => {
  const { kube, observer } = rig(t, { always: true });
  kube.onRead = (path) => {
    if (path === NAMESPACES) throw new Error("refused by the test");
  };
  await settled();
  assert.deepEqual(observer.unknown, {
    code: "namespaces-not-listed",
    text: "the namespaces of the cluster are not known yet: refused by the test",
  });
});

test("after stop, nothing is watched, reported or opened", async (t) => {
  const { kube, observer, news } = rig(t);
  observer.request();
  await news();
  await observer.stop();
  observer.request();
  t.mock.timers.tick(2 * IDLE_MS);
  assert.deepEqual([await news(), kube.watched], [[], []]);
});
