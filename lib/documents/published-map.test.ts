import assert from "node:assert/strict";
import { test } from "node:test";
import { renderHosts } from "#hostmap/hosts-text.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { goodNames } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import type { MapIndex } from "./map-format.ts";
import { assembleMap, isMap, mapOfParts, parseShard, publishedMapOf } from "./published-map.ts";
import { mapRevisionOf, Shards } from "./shards.ts";

const IP = "198.51.100.9";

/** Returns the content of the store after these names were published. */
function publish(names: readonly string[], ip = IP): { index: MapIndex; texts: Map<string, string> } {
  const shards = new Shards();
  for (const name of names) shards.set(name, [ip]);
  const rendered = shards.render();
  return {
    index: {
      revision: mapRevisionOf(rendered),
      shards: rendered.map(({ index, shardHash }) => ({ name: `s-${index}`, revision: shardHash })),
    },
    texts: new Map(rendered.map(({ index, text }) => [`s-${index}`, text])),
  };
}

/** Returns the map from an index and the texts of its shards. */
function assemble(index: MapIndex, textOf: (shard: string) => string | undefined) {
  const shardOf = (name: string) => {
    const text = textOf(name);
    return text === undefined ? undefined : parseShard(text);
  };
  return assembleMap(index, shardOf, mapOfParts);
}

function mapOf(value: PublishedMap | Reason): PublishedMap {
  // No message that contains the map: it would create the list of names too early.
  if (!isMap(value)) assert.fail(value.text);
  return value;
}

const MANY = Array.from({ length: 3_000 }, (_, index) => `app-${index}.team-${index % 7}.example.com`);
/** A change of one name. The size is the same, so the number of shards is too. */
const NEXT = [...MANY.slice(1), "zpp-0.team-0.example.com"];

test("a published map is read back: names in order, each with its addresses, without wildcards", () => {
  const { index, texts } = publish([...MANY, "*.example.com"]);
  assert.ok(index.shards.length > 1);
  const map = mapOf(assemble(index, (name) => texts.get(name)));
  assert.deepEqual(map.names, [...MANY].sort());
  assert.equal(map.size, MANY.length);
  assert.equal(map.revision, index.revision);
  for (const name of MANY) assert.deepEqual(map.addressesOf(name), [IP]);
  assert.equal(map.addressesOf("other.example.com"), undefined);
});

test("a shard of another publication, or a missing shard, gives a reason and no map", () => {
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

test("property: first(n) returns the first n of all names, before and after the list of all names exists", () => {
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
      const map = mapOf(assembleMap(index, (name) => shards[Number(name)], mapOfParts));
      const expected = [...names].sort();
      assert.deepEqual(map.first(count), expected.slice(0, count));
      assert.deepEqual(map.names, expected);
      assert.deepEqual(map.first(count), expected.slice(0, count));
      assert.equal(map.size, names.length);
    }),
  );
});

test("property: first(n) returns the n names with the lowest orders, in name order, whatever their shards", () => {
  const ordered = fc.uniqueArray(fc.record({ name: goodNames, order: fc.nat(5) }), { selector: ({ name }) => name });
  fc.assert(
    fc.property(ordered, fc.nat(40), fc.integer({ min: 1, max: 4 }), (names, count, parts) => {
      const lines = names.map(({ name, order }) => renderHosts([{ name, addresses: [IP], order }]));
      const shards = Array.from({ length: parts }, (_, part) =>
        parseShard(lines.filter((_line, at) => at % parts === part).join("")),
      );
      const index = {
        revision: "r",
        targets: [],
        shards: shards.map(({ shardHash }, at) => ({ name: `${at}`, revision: shardHash })),
      };
      const map = mapOf(assembleMap(index, (name) => shards[Number(name)], mapOfParts));
      const oldest = names.toSorted((a, b) => a.order - b.order || (a.name < b.name ? -1 : 1)).slice(0, count);
      assert.deepEqual(map.first(count), oldest.map(({ name }) => name).sort());
      for (const { name, order } of names) assert.equal(map.orderOf(name), order);
    }),
  );
});

test("the entries of an operator make a map in name order", () => {
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
