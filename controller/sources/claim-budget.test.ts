import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { ObjectRef } from "#hostmap/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { ClaimBudget } from "./claim-budget.ts";
import { ingressSource } from "./ingress-hosts.ts";
import type { View } from "./types.ts";

const INGRESSES = "/apis/networking.k8s.io/v1/ingresses";
const CLASSES = "/apis/networking.k8s.io/v1/ingressclasses";
/** Four times the quota of the tests. */
const LIMIT = 100;
const AGAIN_MS = 30_000;

interface Setting {
  readonly total?: number;
  /** The object that has each name now. */
  readonly holders?: ReadonlyMap<string, ObjectRef>;
  /** The name that an earlier leader published, and its namespace. */
  readonly published?: readonly [name: string, holder: string | undefined];
}

/** A source of Ingresses with a budget. `add` creates or changes an Ingress. */
function rig(t: TestContext, { total = 10_000, holders = new Map(), published }: Setting = {}) {
  const pass = stopTime(t, 1_000);
  const api = new MemoryKube();
  const planned = new Map([...holders].map(([name, from]) => [name, { name, target: "edge", from, holder: "" }]));
  const lineOf = (name: string) =>
    name === published?.[0] ? { name, addresses: [], order: 0, holder: published[1], target: "edge" } : undefined;
  const budget = new ClaimBudget({ maxNamesPerNamespace: LIMIT / 4, total, plan: { planned, lineOf } });
  const source = ingressSource({ client: api.client, budget, log: silentLogger });
  const reported = new Map<string, readonly View[]>();
  api.set(CLASSES, { metadata: { name: "nginx" } });
  t.after(() => Promise.all([source.stop(), budget.stop()]));
  const start = async () => {
    source.start(
      (object, claims) => {
        const key = object.replace(/^Ingress /, "");
        if (claims.length === 0) reported.delete(key);
        else reported.set(key, claims);
      },
      () => {},
    );
    await settled();
  };
  const isRefused = ({ hints }: View) => "code" in hints && hints.code === "too-many-claims";
  return {
    api,
    budget,
    pass,
    start,
    add: (key: string, hosts: readonly string[]) => api.set(INGRESSES, ingress(key, hosts)),
    remove: (key: string) => api.unset(INGRESSES, key),
    /** The number of kept claims by object. */
    kept: (): Record<string, number> =>
      Object.fromEntries(
        [...reported.entries()]
          .map(([object, claims]) => [object, claims.filter((claim) => !isRefused(claim)).length] as const)
          .filter(([, count]) => count > 0)
          .sort(),
      ),
    names: (object: string) =>
      (reported.get(object) ?? []).filter((claim) => !isRefused(claim)).map(({ hostname }) => hostname),
    /** The claims that report left-out ones. */
    refused: () => [...reported.values()].flat().filter(isRefused),
    /** The number of lists since the last call. */
    listed: () => api.reads.splice(0).filter((path) => path === INGRESSES).length,
  };
}

type Rig = ReturnType<typeof rig>;

function ingress(key: string, hosts: readonly string[]) {
  const [namespace = "", name = ""] = key.split("/");
  return { metadata: { namespace, name }, spec: { rules: hosts.map((host) => ({ host })) } };
}

const hosts = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${index}.${prefix}.example.com`);
const ref = (namespace: string, name: string) => ({ kind: "Ingress", namespace, name });

test("a tenant creates more Ingresses than fit: the first ones keep their claims, a neighbour all", async (t) => {
  const { start, add, kept, names, refused, budget } = rig(t);
  for (const name of ["a", "b"]) add(`tenant/${name}`, hosts(name, 40));
  await start();
  for (const name of ["d", "c"]) add(`tenant/${name}`, hosts(name, 40));
  add("shop/web", ["shop.example.com"]);
  assert.deepEqual(kept(), { "shop/web": 1, "tenant/a": 40, "tenant/b": 40, "tenant/d": 20 });
  assert.deepEqual(names("tenant/d"), hosts("d", 20), "the first ones");
  assert.deepEqual(
    refused().map(({ hostname, from }) => [hostname, from.namespace]),
    [[hosts("d", 40)[20], "tenant"]],
  );
  assert.equal(budget.leftOut, 60);
});

for (const [how, free] of [
  ["deletes", ({ remove }) => remove("tenant/a")],
  ["shrinks", ({ add }) => add("tenant/a", hosts("a", 10))],
] satisfies [string, (here: Pick<Rig, "add" | "remove">) => void][]) {
  test(`when a tenant ${how} an Ingress, the Ingresses are listed again, and the next ones get in`, async (t) => {
    const here = rig(t);
    for (const name of ["a", "b", "c"]) here.add(`tenant/${name}`, hosts(name, 60));
    here.add("shop/web", ["shop.example.com"]);
    await here.start();
    here.listed();
    await here.pass(3 * AGAIN_MS);
    assert.equal(here.listed(), 0, "nothing is listed without room");
    free(here);
    await here.pass(AGAIN_MS);
    assert.equal(here.listed(), 1);
    const { "shop/web": _, "tenant/a": a = 0, ...others } = here.kept();
    assert.deepEqual(others, { "tenant/b": 60, "tenant/c": 40 - a });
    here.remove("tenant/b");
    await here.pass(AGAIN_MS);
    assert.deepEqual([here.kept()["tenant/c"], here.refused()], [60, []]);
    here.listed();
    await here.pass(3 * AGAIN_MS);
    assert.equal(here.listed(), 0, "nothing is listed if nothing is left out");
  });
}

test("a mapped name fits, however much its namespace has", async (t) => {
  const mapped = "5.young.example.com";
  const { start, add, kept, names } = rig(t, { holders: new Map([[mapped, ref("tenant", "young")]]) });
  add("tenant/old", hosts("old", 100));
  add("tenant/young", hosts("young", 60));
  await start();
  assert.deepEqual(kept(), { "tenant/old": 100, "tenant/young": 1 });
  assert.deepEqual(names("tenant/young"), [mapped]);
});

test("a tenant that claims the mapped names of others gets no room for them", async (t) => {
  const theirs = hosts("shop", 90);
  const { start, add, kept } = rig(t, { holders: new Map(theirs.map((name) => [name, ref("shop", "web")])) });
  add("shop/web", theirs);
  for (const name of ["a", "b", "c"]) add(`tenant/${name}`, theirs);
  await start();
  assert.deepEqual(kept(), { "shop/web": 90, "tenant/a": 90, "tenant/b": 10 });
});

for (const holder of ["tenant", undefined]) {
  test(`a name that an earlier leader published fits, for one object; its holder is ${holder}`, async (t) => {
    const { start, add, kept } = rig(t, { published: ["first.example.com", holder] });
    add("tenant/old", hosts("old", 100));
    for (const name of ["young", "younger"]) add(`tenant/${name}`, ["first.example.com", "other.example.com"]);
    await start();
    assert.deepEqual(kept(), { "tenant/old": 100, "tenant/young": 1 });
  });
}

test("when the object is deleted that reports what was left out, another one reports it, until all fits", async (t) => {
  const { start, add, remove, kept, pass, refused } = rig(t);
  for (const name of ["a", "b", "c"]) add(`tenant/${name}`, hosts(name, name === "a" ? 100 : 10));
  await start();
  const reporters = () => refused().map(({ from }) => from.name);
  assert.deepEqual(reporters(), ["b"]);
  remove("tenant/b");
  assert.deepEqual(reporters(), []);
  await pass(AGAIN_MS);
  assert.deepEqual([reporters(), kept()], [["c"], { "tenant/a": 100 }]);
  remove("tenant/c");
  await pass(AGAIN_MS);
  assert.deepEqual([reporters(), kept()], [[], { "tenant/a": 100 }]);
});

test("when the total is used up, each namespace still gets 50 claims, and more once there is room", async (t) => {
  const { start, add, remove, kept, pass, refused } = rig(t, { total: 100 });
  for (const namespace of ["a", "b", "c"]) add(`${namespace}/web`, hosts(namespace, 80));
  await start();
  assert.deepEqual(kept(), { "a/web": 80, "b/web": 50, "c/web": 50 });
  assert.deepEqual(
    refused()
      .map(({ from }) => from.namespace)
      .sort(),
    ["b", "c"],
  );
  remove("a/web");
  await pass(AGAIN_MS);
  assert.deepEqual(kept(), { "b/web": 50, "c/web": 50 });
  remove("b/web");
  await pass(AGAIN_MS);
  assert.deepEqual([kept(), refused()], [{ "c/web": 80 }, []]);
});

test("an Ingress without names takes no room", async (t) => {
  const { start, add, kept, refused } = rig(t);
  for (let index = 0; index < 200; index += 1) add(`tenant/${index}`, []);
  add("tenant/web", hosts("web", 100));
  await start();
  assert.deepEqual([kept(), refused()], [{ "tenant/web": 100 }, []]);
});

test("whatever a tenant does, its claims stay within the limit, and all that fits is kept in the end", async (t) => {
  const { start, add, remove, kept, pass } = rig(t);
  await start();
  const there = new Map<string, number>();
  let seed = 7;
  const below = (end: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * end);
  };
  const used = () => Object.values(kept()).reduce((sum, count) => sum + count, 0);
  for (let round = 0; round < 2_000; round += 1) {
    const key = `tenant/${below(12)}`;
    if (there.delete(key) && below(2) === 0) remove(key);
    else {
      there.set(key, 1 + below(60));
      add(key, hosts(key.slice(7), there.get(key) ?? 0));
    }
    assert.ok(used() <= LIMIT, `${used()} claims in round ${round}`);
    if (round % 100 === 99) await pass(AGAIN_MS);
  }
  await pass(2 * AGAIN_MS);
  const wanted = [...there.values()].reduce((sum, count) => sum + count, 0);
  assert.equal(used(), Math.min(LIMIT, wanted));
});
