import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import { watchGroup } from "./api-discovery.ts";
import { CONFIRM_MS, OptionalInformer } from "./optional-informer.ts";

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
  { removedMs = 60_000, resource = "routes", named = false } = {},
) {
  const log = new LineLog();
  const discovery = watchGroup({ client: api.client, group: GROUP, everyMs: EVERY_MS });
  const reported: string[] = [];
  let known = 0;
  const kind = new OptionalInformer<string>({
    client: api.client,
    discovery,
    group: GROUP,
    resource,
    named,
    versions: ["v2", "v1"],
    project: ({ metadata }, name) => `${name} ${(metadata as { name: string }).name}`,
    onChange: (key, value) => void reported.push(value === undefined ? `-${key}` : `+${value}`),
    onKnown: () => {
      known += 1;
    },
    removedMs,
    log,
  });
  t.after(() => Promise.all([kind.stop(), discovery.stop()]));
  return { kind, reported, log, known: () => known, problem: () => kind.state.problems[0]?.code };
}

test("a kind that is not installed counts as known and empty, and is followed once it is installed", async (t) => {
  const world = cluster(t, {}, ["a"]);
  const { kind, reported, known, problem } = follow(t, world);
  await settled();
  assert.deepEqual([known(), kind.state.synced, reported, problem()], [1, true, [], undefined]);
  assert.equal(kind.state.name, `routes.${GROUP}`);
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
  assert.equal(other.problem(), "version-not-served");
  assert.match(
    other.kind.state.problems[0]?.text ?? "",
    /serves gateway\.example\.com as v3, v4; supported are v2, v1$/,
  );
  assert.equal(other.kind.state.synced, true);
  world.serve({ v1: VERBS });
  await world.pass(EVERY_MS);
  assert.equal(other.problem(), undefined);

  const misspelt = follow(t, world, { resource: "route", named: true });
  await settled();
  assert.equal(misspelt.problem(), "resource-not-served");
  assert.match(misspelt.kind.state.problems[0]?.text ?? "", /has no "route"; it has routes$/);
  const unnamed = follow(t, world, { resource: "route" });
  await settled();
  assert.equal(unnamed.known(), 1);
  assert.equal(unnamed.problem(), undefined, "a kind of another channel may be missing");
});

test("while discovery fails, a kind is not known, and reported objects stay", async (t) => {
  const world = cluster(t, 500, ["a"]);
  const { kind, reported, known, problem } = follow(t, world);
  await settled();
  assert.deepEqual([problem(), kind.state.synced, known()], ["discovery-failed", false, 0]);
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
  assert.equal(reported.at(-1), "-shop/a");
  await world.pass(2 * CONFIRM_MS);
  assert.deepEqual(
    reported,
    ["+Route a", "+Route b", "+Route b", "-shop/a"],
    "an object that is made again was never gone",
  );
});

for (const [what, ending] of [
  ["is being removed", { v1: ENDING }],
  ["is gone", {}],
] as const) {
  test(`deletions of a kind that ${what} are not reported; the kind has a problem, and recovers`, async (t) => {
    const world = cluster(t, { v1: VERBS }, ["a", "b"]);
    const { kind, reported, problem, log } = follow(t, world);
    await world.watching();
    world.serve(ending);
    world.remove("a");
    world.remove("b");
    if (!("v1" in ending)) world.cut();
    await world.pass(EVERY_MS);
    assert.equal(problem(), "kind-removed");
    await world.pass(2 * CONFIRM_MS);
    assert.deepEqual(reported, ["+Route a", "+Route b"]);
    assert.match(
      kind.state.problems[0]?.text ?? "",
      /^no longer served; its 2 last known objects are kept for another 1 min/,
    );
    assert.ok(log.messages.includes("a kind is no longer served; its last known objects are kept"));
    // The kind is installed again, and one of its objects is recreated.
    world.serve({ v1: VERBS });
    await world.watching();
    world.add("b");
    await world.pass(CONFIRM_MS + EVERY_MS);
    assert.deepEqual(reported, ["+Route a", "+Route b", "+Route b", "-shop/a"]);
    assert.equal(problem(), undefined);
    assert.ok(log.messages.includes("a kind is served again"));
  });
}

test("objects of a removed kind leave after the configured time; a reinstalled kind is followed again", async (t) => {
  const world = cluster(t, { v1: VERBS }, ["a"]);
  const { reported, problem } = follow(t, world, { removedMs: 300 });
  await world.watching();
  world.serve({});
  world.cut();
  await world.pass(300);
  assert.deepEqual([reported, problem()], [["+Route a"], "kind-removed"]);
  await world.pass(2 * EVERY_MS);
  assert.deepEqual([reported, problem()], [["+Route a", "-shop/a"], undefined]);
  world.serve({ v1: VERBS });
  await world.pass(EVERY_MS);
  assert.deepEqual(reported, ["+Route a", "-shop/a", "+Route a"]);
});

test("the preferred version is read, and no object is lost if it changes", async (t) => {
  const world = cluster(t, { v1: VERBS }, ["a", "b"]);
  const { reported } = follow(t, world);
  await world.watching();
  world.add("b", "v2");
  world.serve({ v2: VERBS, v1: VERBS });
  await world.watching("v2");
  await world.pass(CONFIRM_MS + EVERY_MS);
  assert.deepEqual(reported, ["+Route a", "+Route b", "+Route b", "-shop/a"]);
  assert.deepEqual(world.api.watched, [routesOf("v2")]);
  const read = world.api.reads.filter((path) => path.endsWith("/routes")).map((path) => path.split("/")[3]);
  assert.deepEqual([...new Set(read)], ["v1", "v2"]);
});

test("a response that is not a discovery document counts as a failure, not as an empty group", async (t) => {
  const { api } = cluster(t, {});
  api.documents.set(`/apis/${GROUP}`, { kind: "Status" });
  const discovery = watchGroup({ client: api.client, group: GROUP, everyMs: EVERY_MS });
  t.after(() => discovery.stop());
  discovery.follow(["v1"], () => assert.fail("reported"));
  await settled();
  assert.match(discovery.problem?.text ?? "", /has no versions/);
});

test("stopping does not wait for a response that never arrives", async (t) => {
  const { api } = cluster(t, {});
  api.hold(`/apis/${GROUP}`);
  const discovery = watchGroup({ client: api.client, group: GROUP, everyMs: EVERY_MS });
  discovery.follow(["v1"], () => assert.fail("reported"));
  await settled();
  assert.deepEqual(api.reads, [`/apis/${GROUP}`]);
  assert.ok(await isSettled(discovery.stop()));
});
