import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { ObjectRef } from "#hostmap/types.ts";
import { ample, NOBODY } from "#test/fakes/claim-budget.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import { ClaimBudget } from "./claim-budget.ts";
import type { Kind } from "./kinds-source.ts";
import { KindsSource } from "./kinds-source.ts";
import { viewer } from "./raw-object.ts";

// How objects of kinds that a cluster may lack become claims: each Route claims its name at its Hub, if that exists.

const GROUP = "example.com";
const HUBS = `/apis/${GROUP}/v1/hubs`;
const ROUTES = `/apis/${GROUP}/v1/routes`;
const NEWER = `/apis/${GROUP}/v2/routes`;
const PARTS = "/apis/built.in/v1/parts";
/** How often kinds are looked for, and when a change of a hub is evaluated, milliseconds. */
const EVERY_MS = 15_000;
const SOON_MS = 100;

const view = viewer("", { spec: { name: "text", hub: "text" } }, (origin, { spec }) => ({
  ...origin,
  name: spec?.name,
  hub: spec?.hub,
}));
type Viewed = ReturnType<typeof view>;
const route: Kind<Viewed> = {
  prefix: "Route ",
  group: GROUP,
  resource: "routes",
  versions: ["v2", "v1"],
  project: view,
};
const hub: Kind<Viewed> = { ...route, prefix: "Hub ", resource: "hubs", versions: ["v1"], isShared: true };
const part: Kind<Viewed> = { ...route, prefix: "Part ", group: "built.in", resource: "parts", versions: ["v1"] };
const KINDS = [hub, route, { ...part, builtIn: "Part" }];

interface Options {
  readonly kinds?: readonly Kind<Viewed>[];
  readonly budget?: ClaimBudget;
  /** Called before an object is evaluated. */
  readonly onEvaluate?: (ref: ObjectRef) => void;
}

/** A cluster, and a source that has begun to read it. `reported` has `object: names` for each report. */
async function begin(t: TestContext, prepare: (world: ReturnType<typeof cluster>) => void, options: Options = {}) {
  const world = cluster(t);
  prepare(world);
  const reported: string[] = [];
  const calls = { synced: 0 };
  const log = new LineLog();
  const deps = {
    client: world.api.client,
    budget: options.budget ?? ample(),
    log,
  };
  const source = new KindsSource<Viewed>(deps, {
    kinds: options.kinds ?? KINDS,
    prepare: (objects) => (one) => {
      options.onEvaluate?.(one.ref);
      if (one.name === "odd") throw new Error("odd");
      const { name: hostname, ref: from, created } = one;
      if (hostname === undefined) return [];
      const isThere = one.hub === undefined || objects.has(`Hub shop/${one.hub}`);
      const hints = isThere ? { className: one.hub, addresses: [], admitted: true } : { code: "no-hub", text: "" };
      return hostname.split(",").map((name) => ({ hostname: name, from, created, hints }));
    },
  });
  t.after(() => source.stop());
  source.start(
    (object, views) => {
      const shown = views.map(({ hostname, hints }) => ("code" in hints ? `${hostname} ${hints.code}` : hostname));
      reported.push(`${object}: ${shown.join()}`);
    },
    () => {
      calls.synced += 1;
    },
  );
  await settled();
  const take = () => reported.splice(0).sort();
  const problems = () => source.state().flatMap((state) => state.problems.map(({ place, code }) => `${place} ${code}`));
  return { ...world, source, calls, log, take, problems };
}

function cluster(t: TestContext) {
  const pass = stopTime(t, 50);
  const api = new MemoryKube();
  const versions = new Set<string>();
  const refuse = (path: string, isServed: boolean) => api.refuse(path, isServed ? undefined : 404);
  /** Serves versions of the group, without those that are not given. */
  const serve = (...served: readonly string[]) => {
    versions.clear();
    for (const version of served) versions.add(version);
    const resources = [
      { name: "hubs", kind: "Hub" },
      { name: "routes", kind: "Route" },
    ];
    api.documents.clear();
    if (served.length > 0) api.documents.set(`/apis/${GROUP}`, { versions: served.map((version) => ({ version })) });
    for (const version of served) api.documents.set(`/apis/${GROUP}/${version}`, { resources });
    for (const path of [HUBS, ROUTES, NEWER]) refuse(path, versions.has(path.split("/")[3] ?? ""));
  };
  const set = (path: string, name: string, spec: object = {}) =>
    api.set(path, { metadata: { namespace: "shop", name }, spec });
  return {
    api,
    pass,
    serve,
    set,
    /** Ends the watches, as the API server does when it removes a definition. */
    cut: () => [HUBS, ROUTES].forEach((path) => void api.cut(path)),
  };
}
type World = ReturnType<typeof cluster>;
const installed = ({ serve, set }: Pick<World, "serve" | "set">) => {
  serve("v1");
  set(HUBS, "h");
  set(ROUTES, "a", { name: "a.com", hub: "h" });
};

for (const [last, before] of [
  [HUBS, []],
  [ROUTES, ["Part shop/p: p.com"]],
  [PARTS, ["Route shop/a: a.com"]],
] as const) {
  test(`claims wait for kinds that decide about them, the source for every kind: ${last} is last`, async (t) => {
    let release = () => {};
    const { take, calls, source, api, pass } = await begin(t, (world) => {
      installed(world);
      world.set(PARTS, "p", { name: "p.com" });
      release = world.api.hold(last);
    });
    assert.deepEqual([take(), calls.synced], [before, 0]);
    assert.deepEqual(
      source.state().flatMap(({ name, synced }) => (synced ? [] : name.split(".")[0])),
      [last.split("/")[4]],
    );
    release();
    await pass(SOON_MS);
    const all = ["Part shop/p: p.com", "Route shop/a: a.com"];
    assert.deepEqual([take(), calls.synced], [all.filter((each) => !before.some((one) => one === each)), 1]);
    assert.deepEqual(api.watched, [PARTS, HUBS, ROUTES].sort());
  });
}

test("a kind that is not installed has no objects and no problem, and is followed once it is installed", async (t) => {
  const { take, calls, source, problems, pass, ...world } = await begin(t, () => {});
  assert.deepEqual([take(), calls.synced, problems()], [[], 1, []]);
  assert.ok(source.state().every(({ synced }) => synced));
  installed(world);
  await pass(EVERY_MS + SOON_MS);
  assert.deepEqual([take(), calls.synced], [["Route shop/a: a.com"], 1]);
});

test("an object without an effect on others counts at once; a change without effect is not reported", async (t) => {
  const { take, set, api } = await begin(t, installed);
  take();
  set(ROUTES, "b", { name: "b.com", hub: "h" });
  set(ROUTES, "a", { name: "a.com", hub: "h", other: 1 });
  assert.deepEqual(take(), ["Route shop/b: b.com"]);
  api.unset(ROUTES, "shop/a");
  assert.deepEqual(take(), ["Route shop/a: "]);
});

test("after changes of objects that decide about others, all are evaluated once; only news are reported", async (t) => {
  const { take, set, api, pass } = await begin(t, installed);
  set(ROUTES, "b", { name: "b.com" });
  take();
  set(HUBS, "other");
  api.unset(HUBS, "shop/h");
  await pass(SOON_MS);
  assert.deepEqual(take(), ["Route shop/a: a.com no-hub"]);
  set(HUBS, "h");
  set(ROUTES, "a", { name: "new.com", hub: "h" });
  await pass(SOON_MS);
  assert.deepEqual(take(), ["Route shop/a: new.com"]);
});

test("a change while all objects are evaluated is not overwritten by an older result", async (t) => {
  const changes: (() => void)[] = [];
  const onEvaluate = ({ name }: ObjectRef) => name === "b" && changes.pop()?.();
  const { take, set, pass, api } = await begin(t, installed, { onEvaluate });
  set(ROUTES, "b", { name: "b.com" });
  take();
  changes.push(() => set(ROUTES, "a", { name: "new.com" }));
  api.unset(HUBS, "shop/h");
  await pass(SOON_MS);
  assert.deepEqual(take(), ["Route shop/a: new.com"]);
});

/** A route has all its claims beyond its own names. Of 50 claims that fit, `a` takes 30, so 20 of `b` remain. */
async function beginFull(t: TestContext) {
  const budget = new ClaimBudget({ maxNamesPerNamespace: 1, plan: NOBODY });
  const nameless: Kind<Viewed> = { ...route, pick: (one) => one };
  const world = await begin(t, ({ serve }) => serve("v1"), { kinds: [hub, nameless], budget });
  t.after(() => budget.stop());
  const names = (name: string, count: number) => Array.from({ length: count }, (_, at) => `${name}${at}.com`).join();
  const setThirty = (name: string, spec: object = {}) => world.set(ROUTES, name, { name: names(name, 30), ...spec });
  const assertTwentyRemain = () => {
    world.take();
    setThirty("b");
    assert.deepEqual(world.take(), [`Route shop/b: ${names("b", 20)},b20.com too-many-claims`]);
  };
  return { ...world, setThirty, assertTwentyRemain };
}

test("claims beyond an object's names take room once, however often it is evaluated", async (t) => {
  const { set, setThirty, assertTwentyRemain, pass, api } = await beginFull(t);
  setThirty("a", { hub: "h" });
  for (let round = 0; round < 3; round += 1) {
    set(HUBS, "h");
    await pass(SOON_MS);
    api.unset(HUBS, "shop/h");
    await pass(SOON_MS);
  }
  assertTwentyRemain();
});

test("an object that cannot be evaluated affects only itself: its claims stay, and it is logged once", async (t) => {
  const { take, set, pass, log } = await begin(t, installed);
  take();
  set(ROUTES, "a", { name: "odd", hub: "h" });
  set(ROUTES, "b", { name: "b.com", hub: "h" });
  for (const other of ["one", "two"]) {
    set(HUBS, other);
    await pass(SOON_MS);
  }
  assert.deepEqual(take(), ["Route shop/b: b.com"]);
  const lines = log.lines.filter(({ fields }) => "object" in fields).map(({ fields }) => fields);
  assert.deepEqual(lines, [{ code: "internal-error", object: '"Route shop/a"' }]);
});

for (const [what, fail] of [
  ["fails", ({ api }) => api.refuse(`/apis/${GROUP}`, 500)],
  ["is no discovery document", ({ api }) => api.documents.set(`/apis/${GROUP}`, { kind: "Status" })],
] satisfies [string, (world: World) => unknown][]) {
  test(`while the answer ${what}, a kind is not known; then it is followed`, async (t) => {
    const { take, calls, problems, pass, ...world } = await begin(t, (one) => void fail(one));
    assert.deepEqual(problems(), ["hubs.example.com discovery-failed", "routes.example.com discovery-failed"]);
    assert.equal(calls.synced, 0);
    world.api.refuse(`/apis/${GROUP}`, undefined);
    installed(world);
    await pass(EVERY_MS + SOON_MS);
    assert.deepEqual([take(), calls.synced, problems()], [["Route shop/a: a.com"], 1, []]);
  });
}

test("a configured kind whose group serves something else is a problem, an optional one is none", async (t) => {
  const kinds = [hub, { ...route, resource: "rotues", named: true as const }, { ...route, resource: "optional" }];
  const { source, calls, problems } = await begin(t, installed, { kinds });
  assert.deepEqual([calls.synced, problems()], [1, ["rotues.example.com resource-not-served"]]);
  const text = 'example.com has no "rotues" of version v2 or v1; it has v1';
  assert.equal(source.state()[1]?.problems[0]?.text, text);
});

test("the objects of a removed definition are deleted; an installed one is followed again", async (t) => {
  const { take, api, pass, serve, set, cut, problems } = await begin(t, installed);
  take();
  for (const path of [ROUTES, HUBS]) api.unset(path, path === ROUTES ? "shop/a" : "shop/h");
  serve();
  cut();
  await pass(EVERY_MS + SOON_MS);
  assert.deepEqual([take(), problems()], [["Route shop/a: "], []]);
  serve("v1");
  set(ROUTES, "b", { name: "b.com" });
  await pass(2 * EVERY_MS);
  assert.deepEqual(take(), ["Route shop/b: b.com"]);
});

test("what is no longer served stays, and is a problem, until the cluster serves it in any version", async (t) => {
  const { take, api, pass, serve, set, cut, problems } = await begin(t, installed);
  set(ROUTES, "b", { name: "b.com" });
  take();
  serve();
  cut();
  await pass(3 * EVERY_MS);
  assert.deepEqual([take(), problems()], [[], ["hubs.example.com kind-removed", "routes.example.com kind-removed"]]);
  serve("v2");
  set(NEWER, "b", { name: "b.com" });
  await pass(2 * EVERY_MS);
  assert.deepEqual(
    [take(), problems()],
    [["Route shop/a: ", "Route shop/b: b.com"], ["hubs.example.com kind-removed"]],
  );
  assert.ok(api.watched.includes(NEWER), "the preferred version");
  serve("v1", "v2");
  await pass(4 * EVERY_MS);
  assert.deepEqual(problems(), []);
});

test("stopping ends every watch and the search for kinds, and waits for the watches", async (t) => {
  const { api, source, pass, set, take } = await begin(t, installed);
  take();
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = source.stop();
  assert.equal(await isSettled(stopped), false);
  set(ROUTES, "b", { name: "b.com" });
  linger.resolve();
  await stopped;
  const asked = api.reads.length;
  await pass(2 * EVERY_MS);
  assert.deepEqual([api.watched, api.reads.length, take()], [[], asked, []]);
});

test("stopping does not wait for an answer that never comes", async (t) => {
  const { source } = await begin(t, (world) => void world.api.hold(`/apis/${GROUP}`));
  assert.ok(await isSettled(source.stop()));
});

test("a kind that may not be read is a problem, and keeps no claim of the others away", async (t) => {
  const { take, set, problems } = await begin(t, (world) => {
    installed(world);
    world.api.refuse(PARTS, 403);
  });
  set(ROUTES, "b", { name: "b.com" });
  assert.deepEqual([take(), problems()], [["Route shop/a: a.com", "Route shop/b: b.com"], ["parts forbidden"]]);
});

test("claims beyond an object's names count also if the object changes while a shared change waits", async (t) => {
  const { set, setThirty, assertTwentyRemain, pass } = await beginFull(t);
  setThirty("a");
  set(HUBS, "h");
  setThirty("a", { other: 1 });
  await pass(SOON_MS);
  assertTwentyRemain();
});
