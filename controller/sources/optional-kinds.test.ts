import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { ObjectRef } from "#hostmap/types.ts";
import { silentLogger as log } from "#lib/telemetry/log.ts";
import { ample } from "#test/fakes/claim-budget.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import { CONFIRM_MS, OptionalKinds } from "./optional-kinds.ts";
import { originOf } from "./raw-object.ts";

const GROUP = "gateway.example.com";
const VERBS = ["list", "watch", "create", "delete"];
/** The verbs that a definition still serves while it is being removed. */
const ENDING = ["list", "watch", "delete"];

/** Interval of discovery, in milliseconds. */
const EVERY_MS = 50;

/** Served verbs by version; an empty map: nothing is served. 500: discovery fails. */
type Served = Readonly<Record<string, readonly string[]>> | 500;

const routesOf = (version: string) => `/apis/${GROUP}/${version}/routes`;

/** A cluster whose discovery and objects change while a kind is followed. Its first objects have version v1. */
function cluster(t: TestContext, served: Served, objects: readonly string[] = []) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  const serve = (next: Served) => {
    api.refuse(`/apis/${GROUP}`, next === 500 ? 500 : undefined);
    if (next === 500) return;
    api.documents.clear();
    const versions = Object.keys(next).map((version) => ({ version }));
    if (versions.length > 0) api.documents.set(`/apis/${GROUP}`, { versions });
    for (const [version, verbs] of Object.entries(next)) {
      api.documents.set(`/apis/${GROUP}/${version}`, { resources: [{ name: "routes", kind: "Route", verbs }] });
    }
    for (const version of ["v1", "v2"]) api.refuse(routesOf(version), version in next ? undefined : 404);
  };
  serve(served);
  const add = (name: string, version = "v1") =>
    api.set(routesOf(version), { metadata: { namespace: "shop", name, uid: `uid-${name}` } });
  for (const name of objects) add(name);
  return {
    api,
    pass,
    serve,
    add,
    remove: (name: string) => api.unset(routesOf("v1"), `shop/${name}`),
    /** Ends the watches, as the API server does when it removes a definition. */
    cut: () => api.cut(routesOf("v1")),
    /** Lets time pass until the routes of a version are watched. */
    watching: async (version = "v1") => {
      for (let waited = 0; !api.watched.includes(routesOf(version)); waited += 10) {
        assert.ok(waited < 60_000, "no watch");
        await pass(10);
      }
    },
  };
}

/** Follows the routes of a cluster. */
function follow(
  t: TestContext,
  { api }: Pick<ReturnType<typeof cluster>, "api">,
  { removedKindSeconds = 60, resource = "routes", named = false } = {},
) {
  const config = { discoverySeconds: EVERY_MS / 1_000, removedKindSeconds };
  const reported: string[] = [];
  let known = 0;
  const kinds = new OptionalKinds<{ ref: ObjectRef; created: string; shown: string }>(
    { client: api.client, config, budget: ample(), log },
    [
      {
        prefix: "Route ",
        group: GROUP,
        resource,
        named,
        versions: ["v2", "v1"],
        project: (raw, kind) => ({ ...originOf(kind, raw), shown: `${kind} ${originOf(kind, raw).ref.name}` }),
      },
    ],
  );
  kinds.start({
    sink: () => {},
    onChange: (object, value) => void reported.push(value === undefined ? `-${object}` : `+${value.shown}`),
    onKnown: () => {
      known += 1;
    },
  });
  t.after(() => kinds.stop());
  const state = () => kinds.state()[0] ?? assert.fail("no state");
  return { kinds, reported, known: () => known, state, problem: () => state().problems[0]?.code };
}

test("a kind that is not installed counts as known and empty, and is followed once it is installed", async (t) => {
  const world = cluster(t, {}, ["a"]);
  const { state, reported, known, problem } = follow(t, world);
  await settled();
  assert.deepEqual([known(), state().synced, reported, problem()], [1, true, [], undefined]);
  assert.equal(state().name, `routes.${GROUP}`);
  world.serve({ v1: VERBS });
  await world.watching();
  world.add("b");
  assert.deepEqual(reported, ["+Route a", "+Route b"]);
  assert.equal(known(), 1);
});

test("a group without a supported version is a problem, and so is a missing configured resource", async (t) => {
  const world = cluster(t, { v3: VERBS, v4: VERBS });
  const other = follow(t, world);
  await settled();
  assert.equal(other.problem(), "resource-not-served");
  assert.match(
    other.state().problems[0]?.text ?? "",
    /gateway\.example\.com has no "routes" of version v2 or v1; it has v3, v4$/,
  );
  assert.equal(other.state().synced, true);
  world.serve({ v1: VERBS });
  await world.pass(EVERY_MS);
  assert.equal(other.problem(), undefined);

  const misspelt = follow(t, world, { resource: "route", named: true });
  const unnamed = follow(t, world, { resource: "route" });
  await settled();
  assert.equal(misspelt.problem(), "resource-not-served");
  assert.equal(unnamed.known(), 1);
  assert.equal(unnamed.problem(), undefined, "a kind of another channel may be missing");
});

test("while discovery fails, a kind is not known, and reported objects stay", async (t) => {
  const world = cluster(t, 500, ["a"]);
  const { state, reported, known, problem } = follow(t, world);
  await settled();
  assert.deepEqual([problem(), state().synced, known()], ["discovery-failed", false, 0]);
  world.serve({ v1: VERBS });
  await world.pass(EVERY_MS);
  assert.deepEqual([problem(), known()], [undefined, 1]);
  world.serve(500);
  await world.pass(EVERY_MS);
  assert.equal(problem(), "discovery-failed");
  assert.deepEqual(reported, ["+Route a"]);
});

test("a deletion is reported once the kind is confirmed to be still served", async (t) => {
  const world = cluster(t, { v1: VERBS }, ["a", "b"]);
  const { reported } = follow(t, world);
  await world.watching();
  world.remove("a");
  world.remove("b");
  world.add("b");
  await world.pass(CONFIRM_MS - 10);
  assert.deepEqual(reported, ["+Route a", "+Route b", "+Route b"]);
  await world.pass(10 + EVERY_MS);
  assert.equal(reported.at(-1), "-Route shop/a");
  await world.pass(2 * CONFIRM_MS);
  assert.deepEqual(
    reported,
    ["+Route a", "+Route b", "+Route b", "-Route shop/a"],
    "an object that is made again was never gone",
  );
});

for (const [what, ending] of [
  ["is being removed", { v1: ENDING }],
  ["is gone", {}],
] as const) {
  test(`deletions of a kind that ${what} are not reported; the kind has a problem, and recovers`, async (t) => {
    const world = cluster(t, { v1: VERBS }, ["a", "b"]);
    const { state, reported, problem } = follow(t, world);
    await world.watching();
    world.serve(ending);
    world.remove("a");
    world.remove("b");
    if (!("v1" in ending)) world.cut();
    await world.pass(EVERY_MS);
    assert.equal(problem(), "kind-removed");
    await world.pass(2 * CONFIRM_MS);
    assert.deepEqual(reported, ["+Route a", "+Route b"]);
    assert.match(state().problems[0]?.text ?? "", /^no longer served; its 2 last known objects are kept for 1 min/);
    // The kind is installed again, and one of its objects is recreated.
    world.serve({ v1: VERBS });
    await world.watching();
    world.add("b");
    await world.pass(CONFIRM_MS + EVERY_MS);
    assert.deepEqual(reported, ["+Route a", "+Route b", "+Route b", "-Route shop/a"]);
    assert.equal(problem(), undefined);
  });
}

test("objects of a removed kind leave after the configured time; a reinstalled kind is followed again", async (t) => {
  const world = cluster(t, { v1: VERBS }, ["a"]);
  const { reported, problem } = follow(t, world, { removedKindSeconds: 0.3 });
  await world.watching();
  world.serve({});
  world.cut();
  await world.pass(300);
  assert.deepEqual([reported, problem()], [["+Route a"], "kind-removed"]);
  await world.pass(2 * EVERY_MS);
  assert.deepEqual([reported, problem()], [["+Route a", "-Route shop/a"], undefined]);
  world.serve({ v1: VERBS });
  await world.pass(EVERY_MS);
  assert.deepEqual(reported, ["+Route a", "-Route shop/a", "+Route a"]);
});

test("the preferred version is read, and no object is lost if it changes", async (t) => {
  const world = cluster(t, { v1: VERBS }, ["a", "b"]);
  const { reported } = follow(t, world);
  await world.watching();
  world.add("b", "v2");
  world.serve({ v2: VERBS, v1: VERBS });
  await world.watching("v2");
  await world.pass(CONFIRM_MS + EVERY_MS);
  assert.deepEqual(reported, ["+Route a", "+Route b", "+Route b", "-Route shop/a"]);
  assert.deepEqual(world.api.watched, [routesOf("v2")]);
  const read = world.api.reads.filter((path) => path.endsWith("/routes")).map((path) => path.split("/")[3]);
  assert.deepEqual([...new Set(read)], ["v1", "v2"]);
});

test("a response that is not a discovery document counts as a failure, not as an empty group", async (t) => {
  const world = cluster(t, {});
  world.api.documents.set(`/apis/${GROUP}`, { kind: "Status" });
  const { problem, known } = follow(t, world);
  await settled();
  assert.deepEqual([problem(), known()], ["discovery-failed", 0]);
});

test("a group is asked once for all its kinds, and again at an interval, until it is stopped", async (t) => {
  const world = cluster(t, {});
  const { kinds } = follow(t, world);
  await settled();
  await world.pass(3 * EVERY_MS);
  assert.equal(world.api.reads.length, 4);
  await kinds.stop();
  await world.pass(3 * EVERY_MS);
  assert.equal(world.api.reads.length, 4);
});

test("stopping does not wait for a response that never arrives", async (t) => {
  const world = cluster(t, {});
  world.api.hold(`/apis/${GROUP}`);
  const { kinds, known } = follow(t, world);
  await settled();
  assert.deepEqual(world.api.reads, [`/apis/${GROUP}`]);
  assert.ok(await isSettled(kinds.stop()));
  assert.equal(known(), 0);
});
