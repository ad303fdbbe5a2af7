import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { PublishedMap, Reason } from "../hostmap/types.ts";
import { goodNames } from "../test/arbitraries.ts";
import type { MapIndex } from "./map-format.ts";
import { assembleMap, isMap, parseShard, publishedMapOf } from "./published-map.ts";
import { mapRevisionOf, Shards } from "./shards.ts";

const IP = "198.51.100.9";

/** What a publication of these names leaves in the store. */
function publish(names: readonly string[], ip = IP): { index: MapIndex; texts: Map<string, string> } {
  const shards = new Shards();
  for (const name of names) shards.set(name, [ip]);
  const rendered = shards.render();
  return {
    index: {
      revision: mapRevisionOf(rendered),
      targets: [],
      shards: rendered.map(({ index, shardHash }) => ({ name: `s-${index}`, revision: shardHash })),
    },
    texts: new Map(rendered.map(({ index, text }) => [`s-${index}`, text])),
  };
}

/** The map that an index and the texts of shards make. */
function assemble(index: MapIndex, textOf: (shard: string) => string | undefined, partial = false) {
  const shardOf = (name: string) => {
    const text = textOf(name);
    return text === undefined ? undefined : parseShard(text);
  };
  return assembleMap(index, shardOf, { partial });
}

function mapOf(value: PublishedMap | Reason): PublishedMap {
  // Not by a message with the map in it: its names would be made before their time.
  if (!isMap(value)) assert.fail(value.text);
  return value;
}

const MANY = Array.from({ length: 3_000 }, (_, index) => `app-${index}.team-${index % 7}.example.com`);
/** The same size, so the same number of shards; one name is another. */
const NEXT = [...MANY.slice(1), "zpp-0.team-0.example.com"];

test("what was published is read back: names in order, each with its addresses, wildcards aside", () => {
  const { index, texts } = publish([...MANY, "*.example.com"]);
  assert.ok(index.shards.length > 1);
  const map = mapOf(assemble(index, (name) => texts.get(name)));
  assert.deepEqual(map.names, [...MANY].sort());
  assert.equal(map.size, MANY.length);
  assert.equal(map.revision, index.revision);
  for (const name of MANY) assert.deepEqual(map.addressesOf(name), [IP]);
  assert.equal(map.addressesOf("other.example.com"), undefined);
});

test("a shard of another publication, or none, gives a reason and no map", () => {
  const { index, texts } = publish(MANY);
  const next = publish(NEXT);
  const changed = [...next.texts].filter(([name, text]) => texts.get(name) !== text);
  assert.ok(changed.length >= 1 && changed.length <= 2);
  const [[name, text] = ["", ""]] = changed;
  const code = (textOf: (shard: string) => string | undefined, of = index) => {
    const result = assemble(of, textOf);
    return isMap(result) ? "a map" : result.code;
  };
  assert.equal(
    code((shard) => (shard === name ? text : texts.get(shard))),
    "shard-other-revision",
  );
  assert.equal(
    code((shard) => texts.get(shard), next.index),
    "shard-other-revision",
  );
  assert.equal(
    code((shard) => (shard === name ? undefined : texts.get(shard))),
    "shard-missing",
  );
  assert.equal(
    code((shard) => (shard === name ? `${texts.get(shard)}\n` : texts.get(shard))),
    "shard-other-revision",
  );
  assert.equal(
    code((shard) => texts.get(shard)),
    "a map",
  );
});

test("told to, it takes what is there: every name once, and a revision that is no publication's", () => {
  const { index, texts } = publish(MANY);
  const next = publish(NEXT, "198.51.100.1");
  const [first, second] = index.shards;
  const textOf = (shard: string) =>
    shard === first?.name ? undefined : shard === second?.name ? next.texts.get(shard) : texts.get(shard);
  const map = mapOf(assemble(index, textOf, true));
  assert.equal(map.revision, `${index.revision}-partial`);
  assert.ok(map.size > 0 && map.size < MANY.length);
  assert.equal(map.names.length, map.size);
  assert.equal(new Set(map.names).size, map.size);
});

test("a name that stands in shards of two publications counts once", () => {
  const shards = [parseShard(`${IP} a.example.com\n${IP} b.example.com\n`), parseShard("198.51.100.1 b.example.com\n")];
  const index = {
    revision: "r",
    targets: [],
    shards: shards.map(({ shardHash }, at) => ({ name: `${at}`, revision: shardHash })),
  };
  const map = mapOf(assembleMap(index, (name) => shards[Number(name)], { partial: true }));
  assert.deepEqual(map.names, ["a.example.com", "b.example.com"]);
  assert.deepEqual(map.first(5), map.names);
  assert.equal(map.size, 2);
  assert.deepEqual(map.addressesOf("b.example.com"), [IP]);
});

test("property: first(n) is the first n of all names, before and after those were made", () => {
  fc.assert(
    fc.property(fc.uniqueArray(goodNames), fc.nat(40), fc.integer({ min: 1, max: 8 }), (names, count, parts) => {
      const shards = Array.from({ length: parts }, (_, part) =>
        parseShard(
          names
            .filter((_name, at) => at % parts === part)
            .map((name) => `${IP} ${name}\n`)
            .join(""),
        ),
      );
      const index = {
        revision: "r",
        targets: [],
        shards: shards.map(({ shardHash }, at) => ({ name: `${at}`, revision: shardHash })),
      };
      const map = mapOf(assembleMap(index, (name) => shards[Number(name)]));
      const expected = [...names].sort();
      assert.deepEqual(map.first(count), expected.slice(0, count));
      assert.deepEqual(map.names, expected);
      assert.deepEqual(map.first(count), expected.slice(0, count));
      assert.equal(map.size, names.length);
    }),
  );
});

test("an operator's entries make a map in name order", () => {
  const map = publishedMapOf(
    "r",
    new Map([
      ["b.example.com", [IP]],
      ["*.example.com", [IP]],
      ["a.example.com", [IP]],
    ]),
  );
  assert.deepEqual(map.names, ["a.example.com", "b.example.com"]);
  assert.deepEqual(map.first(1), ["a.example.com"]);
});
