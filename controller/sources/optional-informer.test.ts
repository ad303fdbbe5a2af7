import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { LineLog } from "../../test/fakes/clock.ts";
import { type FakeCall, fakeApi, json, object, page, refuse, until, watch } from "../../test/fakes/kube-api.ts";
import { watchGroup } from "./api-discovery.ts";
import { CONFIRM_MS, OptionalInformer } from "./optional-informer.ts";

const GROUP = "gateway.example.com";
const VERBS = ["list", "watch", "create", "delete"];
/** What a definition that is being removed still serves. */
const ENDING = ["list", "watch", "delete"];

interface World {
  /** Verbs by version; empty: not served. 500: discovery fails. */
  served: Readonly<Record<string, readonly string[]>> | 500;
  /** Names of the objects, as lists have them. */
  objects: string[];
}

/** A cluster whose discovery and objects change under a follower's feet. */
async function follow(t: TestContext, world: World, { removedMs = 60_000, resource = "routes", named = false } = {}) {
  const open = new Set<FakeCall>();
  let version = 1;
  const isServed = (path: string) => world.served !== 500 && Object.hasOwn(world.served, path.split("/")[3] ?? "");
  const api = await fakeApi((call) => {
    if (world.served === 500 && !call.path.endsWith("/routes")) return refuse(500, "InternalError")(call);
    if (call.path === `/apis/${GROUP}`) {
      const versions = Object.keys(world.served).map((each) => ({ version: each }));
      return versions.length === 0 ? refuse(404, "NotFound")(call) : json({ versions })(call);
    }
    if (!isServed(call.path) && world.served !== 500) return refuse(404, "NotFound")(call);
    if (!call.path.endsWith("/routes")) {
      const verbs = world.served === 500 ? [] : world.served[call.path.split("/")[3] ?? ""];
      return json({ resources: [{ name: "routes", kind: "Route", verbs }] })(call);
    }
    if (call.query.get("watch") !== "true") {
      return page(
        world.objects.map((name) => object(name, "1")),
        String(version),
      )(call);
    }
    open.add(call);
    call.response.on("close", () => open.delete(call));
    return watch([], () => {})(call);
  });
  const log = new LineLog();
  const discovery = watchGroup({ client: api.client, group: GROUP, everyMs: 50 });
  const told: string[] = [];
  let known = 0;
  const kind = new OptionalInformer<string>({
    client: api.client,
    discovery,
    group: GROUP,
    resource,
    named,
    versions: ["v2", "v1"],
    project: ({ metadata }, name) => `${name} ${(metadata as { name: string }).name}`,
    onChange: (key, value) => void told.push(value === undefined ? `-${key}` : `+${value}`),
    onKnown: () => {
      known += 1;
    },
    removedMs,
    log,
  });
  t.after(async () => {
    await Promise.all([kind.stop(), discovery.stop()]);
    await api.close();
  });
  const say = (type: string, name: string) => {
    version += 1;
    for (const { response } of open)
      response.write(`${JSON.stringify({ type, object: object(name, String(version)) })}\n`);
  };
  return {
    kind,
    told,
    log,
    api,
    known: () => known,
    problem: () => kind.state.problems[0]?.code,
    add: (name: string) => {
      world.objects.push(name);
      say("ADDED", name);
    },
    remove: (name: string) => {
      world.objects = world.objects.filter((each) => each !== name);
      say("DELETED", name);
    },
    /** Ends the watches, as the API server does with those of a definition that it removes. */
    cut: () => {
      for (const { response } of open) response.end();
    },
    watching: () => until(() => open.size === 1, "one watch"),
  };
}

test("a kind that is not there has no objects, and that is known; once installed it is followed", async (t) => {
  const world: World = { served: {}, objects: ["a"] };
  const { kind, told, known, problem, watching, add } = await follow(t, world);
  await until(() => known() === 1, "known");
  assert.deepEqual([kind.state.synced, told, problem()], [true, [], undefined]);
  assert.equal(kind.state.name, `routes.${GROUP}`);
  world.served = { v1: VERBS };
  await watching();
  add("b");
  await until(() => told.length === 2, "two objects");
  assert.deepEqual(told, ["+Route a", "+Route b"]);
  assert.equal(known(), 1);
});

test("a group that is there without a version that can be read is a problem, and so is a name that it does not have", async (t) => {
  const world: World = { served: { v3: VERBS, v4: VERBS }, objects: [] };
  const other = await follow(t, world);
  await until(() => other.problem() === "version-not-served", "the problem");
  assert.match(
    other.kind.state.problems[0]?.text ?? "",
    /serves gateway\.example\.com as v3, v4; what is read is v2, v1$/,
  );
  assert.equal(other.kind.state.synced, true);
  world.served = { v1: VERBS };
  await until(() => other.problem() === undefined, "no problem");

  const misspelt = await follow(t, world, { resource: "route", named: true });
  await until(() => misspelt.problem() === "resource-not-served", "the problem");
  assert.match(misspelt.kind.state.problems[0]?.text ?? "", /has no "route"; it has routes$/);
  const unnamed = await follow(t, world, { resource: "route" });
  await until(() => unnamed.known() === 1, "known");
  assert.equal(unnamed.problem(), undefined, "a kind of another channel may be missing");
});

test("while discovery fails nothing is known; what was told before stays", async (t) => {
  const world: World = { served: 500, objects: ["a"] };
  const { kind, told, known, problem } = await follow(t, world);
  await until(() => problem() === "discovery-failed", "the failure");
  assert.deepEqual([kind.state.synced, known()], [false, 0]);
  world.served = { v1: VERBS };
  await until(() => known() === 1, "known");
  world.served = 500;
  await until(() => problem() === "discovery-failed", "the failure again");
  assert.deepEqual(told, ["+Route a"]);
});

test("a deleted object is told as gone once its kind is seen to be there still", async (t) => {
  const { told, watching, remove, add } = await follow(t, { served: { v1: VERBS }, objects: ["a", "b"] });
  await watching();
  const begun = performance.now();
  remove("a");
  remove("b");
  add("b");
  await until(() => told.includes("-shop/a"), "a to be gone");
  assert.ok(performance.now() - begun >= CONFIRM_MS);
  await delay(100);
  assert.deepEqual(
    told,
    ["+Route a", "+Route b", "+Route b", "-shop/a"],
    "an object that is made again was never gone",
  );
});

for (const [what, ending] of [
  ["is being removed", { v1: ENDING }],
  ["is gone", {}],
] as const) {
  test(`the deletions of a kind that ${what} are not told; it says so, and comes back`, async (t) => {
    const world: World = { served: { v1: VERBS }, objects: ["a", "b"] };
    const { kind, told, watching, remove, cut, problem, log, add } = await follow(t, world);
    await watching();
    world.served = ending;
    remove("a");
    remove("b");
    if (!("v1" in ending)) cut();
    await until(() => problem() === "kind-removed", "the problem");
    await delay(CONFIRM_MS * 1.5);
    assert.deepEqual(told, ["+Route a", "+Route b"]);
    assert.match(
      kind.state.problems[0]?.text ?? "",
      /^no longer served; its 2 objects count as last seen for another 1 min/,
    );
    assert.ok(log.messages.includes("a kind is no longer served; what was known of it stays"));
    // It is installed again, and one of its objects made again.
    world.served = { v1: VERBS };
    await watching();
    add("b");
    await until(() => told.includes("-shop/a"), "what was not made again to be gone");
    assert.deepEqual(told, ["+Route a", "+Route b", "+Route b", "-shop/a"]);
    assert.equal(problem(), undefined);
    assert.ok(log.messages.includes("a kind is served again"));
  });
}

test("after the time that was set, the objects of a removed kind are gone; installed again it is followed as at first", async (t) => {
  const world: World = { served: { v1: VERBS }, objects: ["a"] };
  const { told, watching, cut, problem } = await follow(t, world, { removedMs: 300 });
  await watching();
  world.served = {};
  cut();
  await until(() => told.includes("-shop/a"), "the object to be gone");
  await until(() => problem() === undefined, "no problem");
  world.served = { v1: VERBS };
  await until(() => told.length === 3, "the object again");
  assert.deepEqual(told, ["+Route a", "-shop/a", "+Route a"]);
});

test("the preferred version is read, and a change of it loses nothing", async (t) => {
  const world: World = { served: { v1: VERBS }, objects: ["a", "b"] };
  const { told, api, watching } = await follow(t, world);
  await watching();
  world.objects = ["b"];
  world.served = { v2: VERBS, v1: VERBS };
  await until(() => told.includes("-shop/a"), "what the other version does not have to be gone");
  assert.deepEqual(told, ["+Route a", "+Route b", "+Route b", "-shop/a"]);
  await watching();
  const read = api.calls.filter(({ path }) => path.endsWith("/routes")).map(({ path }) => path.split("/")[3]);
  assert.deepEqual([...new Set(read)], ["v1", "v2"]);
});

test("an answer that is no discovery document is a failure, not the news that nothing is served", async (t) => {
  const api = await fakeApi(json({ kind: "Status" }));
  const discovery = watchGroup({ client: api.client, group: GROUP, everyMs: 50 });
  t.after(async () => {
    await discovery.stop();
    await api.close();
  });
  discovery.follow(["v1"], () => assert.fail("told"));
  await until(() => discovery.problem !== undefined, "a problem");
  assert.match(discovery.problem?.text ?? "", /has no versions/);
});

test("stopping does not wait for an answer that does not come", async (t) => {
  const api = await fakeApi(() => {});
  t.after(() => api.close());
  const discovery = watchGroup({ client: api.client, group: GROUP, everyMs: 50 });
  discovery.follow(["v1"], () => assert.fail("told"));
  await until(() => api.calls.length === 1, "a question");
  const begun = performance.now();
  await discovery.stop();
  assert.ok(performance.now() - begun < 5_000);
});
