import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { object } from "#test/fakes/kube-api.ts";
import { ObjectCache } from "./cache.ts";
import type { ApiObject } from "./types.ts";

const versionOf = ({ metadata }: ApiObject) => `${metadata?.uid}@${metadata?.resourceVersion}`;

function cacheOf(...objects: ApiObject[]) {
  const bad: string[] = [];
  const cache = new ObjectCache(versionOf, (key) => bad.push(key));
  for (const each of objects) cache.put(each);
  return { cache, bad };
}

describe("the cache of a watch", () => {
  it("keeps projections by namespace and name", () => {
    const { cache } = cacheOf(object("web", "1"), { metadata: { name: "node", resourceVersion: "2" } });
    assert.deepEqual(
      [...cache.values],
      [
        ["shop/web", "uid-web@1"],
        ["node", "undefined@2"],
      ],
    );
  });

  it("reports only what changed", () => {
    const { cache } = cacheOf();
    assert.deepEqual(cache.put(object("web", "1")), { key: "shop/web", after: "uid-web@1" });
    assert.equal(cache.put(object("web", "1")), undefined);
    assert.deepEqual(cache.put(object("web", "2")), { key: "shop/web", before: "uid-web@1", after: "uid-web@2" });
    assert.deepEqual(cache.remove("shop/web"), { key: "shop/web", before: "uid-web@2" });
    assert.equal(cache.remove("shop/web"), undefined);
    assert.equal(cache.values.size, 0);
  });

  it("detects a version that went back, and an object that was recreated with the old version", () => {
    const { cache } = cacheOf(object("web", "9"));
    assert.deepEqual(cache.put(object("web", "5"))?.after, "uid-web@5");
    const anew = object("web", "5", { uid: "other" });
    assert.deepEqual(cache.put(anew), { key: "shop/web", before: "uid-web@5", after: "other@5" });
    assert.notEqual(cache.put(object("web", "1", { uid: "u1" })), undefined);
    assert.notEqual(cache.put(object("web", "11", { uid: "u" })), undefined, "a uid does not run into a version");
  });

  it("projects each version of an object once", () => {
    let projected = 0;
    const cache = new ObjectCache(
      () => {
        projected += 1;
        return "kept";
      },
      () => assert.fail(),
    );
    cache.put(object("web", "1"));
    assert.equal(cache.put(object("web", "1")), undefined);
    assert.equal(projected, 1);
  });

  it("does not keep an object without a projection, and removes one that loses it", () => {
    const cache = new ObjectCache(
      ({ metadata }) => metadata?.labels?.kept,
      () => assert.fail(),
    );
    assert.equal(cache.put(object("web", "1")), undefined);
    assert.deepEqual(cache.put(object("web", "2", { labels: { kept: "yes" } })), { key: "shop/web", after: "yes" });
    assert.deepEqual(cache.put(object("web", "3")), { key: "shop/web", before: "yes" });
    assert.equal(cache.values.size, 0);
  });

  it("projects an unchanged object again if only a part of it is kept", () => {
    const partial = new Set<string>();
    const cache = new ObjectCache(
      versionOf,
      () => assert.fail(),
      (key) => partial.has(key),
    );
    cache.put(object("web", "1"));
    assert.equal(cache.put(object("web", "1")), undefined);
    partial.add("shop/web");
    const again = { key: "shop/web", before: "uid-web@1", after: "uid-web@1" };
    assert.deepEqual(cache.put(object("web", "1")), again);
  });

  it("keeps the value of an object that cannot be projected, and tries again the next time", () => {
    const bad: string[] = [];
    let broken = false;
    const cache = new ObjectCache(
      (object) => {
        if (broken) throw new Error("odd");
        return versionOf(object);
      },
      (key) => bad.push(key),
    );
    cache.put(object("web", "1"));
    broken = true;
    assert.equal(cache.put(object("web", "2")), undefined);
    assert.equal(cache.put(object("odd", "2")), undefined);
    assert.deepEqual([...cache.values], [["shop/web", "uid-web@1"]]);
    assert.deepEqual(bad, ["shop/web", "shop/odd"]);
    broken = false;
    const healed = { key: "shop/web", before: "uid-web@1", after: "uid-web@2" };
    assert.deepEqual(cache.put(object("web", "2")), healed);
  });

  it("rejects what is not an API object", () => {
    const { cache } = cacheOf();
    assert.throws(() => cache.put({}), { code: "data-corrupt" });
    assert.throws(() => cache.put({ metadata: { resourceVersion: "1" } }), { code: "data-corrupt" });
    assert.throws(() => cache.put({ metadata: { name: "web" } }), { code: "data-corrupt" });
  });
});
