import assert from "node:assert/strict";
import { test } from "node:test";
import { spreadHash } from "#hostmap/hash.ts";
import { parseHosts, renderHosts } from "#hostmap/hosts-text.ts";
import { crowd } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { MAX_SHARD_BYTES, MAX_SHARDS, mapRevisionOf, type RenderedShard, Shards } from "./shards.ts";

const IP = "198.51.100.9";

function name(index: number, length = 30): string {
  return `${String(index).padStart(length - ".example.com".length, "n")}.example.com`;
}

/** Returns all lines of the shards. Fails if a shard is too big, or if a name is duplicate or out of order. */
function read(rendered: readonly RenderedShard[]): Map<string, readonly string[]> {
  const all = new Map<string, readonly string[]>();
  assert.equal(Math.log2(rendered.length) % 1, 0, `${rendered.length} is a power of two`);
  for (const [index, shard] of rendered.entries()) {
    assert.equal(shard.index, index);
    assert.ok(Buffer.byteLength(shard.text) <= MAX_SHARD_BYTES);
    const entries = parseHosts(shard.text);
    assert.equal(renderHosts([...entries].map(([host, addresses]) => ({ name: host, addresses }))), shard.text);
    assert.deepEqual([...entries.keys()], [...entries.keys()].sort());
    for (const [host, addresses] of entries) {
      assert.ok(!all.has(host), `${host} stands in two shards`);
      all.set(host, addresses);
    }
  }
  return all;
}

function sorted<V>(map: ReadonlyMap<string, V>): Array<[string, V]> {
  return [...map].sort(([a], [b]) => (a < b ? -1 : 1));
}

test("without names there is one empty shard", () => {
  const rendered = new Shards().render();
  assert.deepEqual(
    rendered.map(({ index, text }) => ({ index, text })),
    [{ index: 0, text: "" }],
  );
});

test("a growing map splits, a shrinking one joins, and no line is lost", () => {
  const shards = new Shards();
  const model = new Map<string, readonly string[]>();
  const counts: number[] = [];
  for (const size of [100, 2_000, 10_000, 40_000, 9_000, 1_000, 50, 0]) {
    for (let index = model.size; index < size; index += 1) {
      shards.set(name(index), [IP]);
      model.set(name(index), [IP]);
    }
    for (let index = model.size - 1; index >= size; index -= 1) {
      shards.set(name(index), []);
      model.delete(name(index));
    }
    assert.deepEqual(sorted(read(shards.render())), sorted(model));
    counts.push(shards.count);
  }
  assert.deepEqual(counts, [1, 16, 64, 256, 128, 16, 1, 1]);
});

test("near the limit of a split, repeated small changes do not change the number of shards again and again", () => {
  const shards = new Shards();
  for (let index = 0; index < 184; index += 1) shards.set(name(index), [IP]);
  const seen = new Set<number>();
  for (let round = 0; round < 50; round += 1) {
    shards.set(name(184 + (round % 10)), round % 20 < 10 ? [IP] : []);
    shards.render();
    seen.add(shards.count);
  }
  assert.deepEqual([...seen], [1, 2]);
  assert.equal(shards.count, 2);
});

test("a change renders only the affected shards, and without a change the result is the same object", () => {
  const shards = new Shards();
  for (let index = 0; index < 10_000; index += 1) shards.set(name(index), [IP]);
  const before = shards.render();
  assert.equal(shards.render(), before);
  shards.set(name(7), [IP]);
  assert.equal(shards.render(), before, "set to what it was");
  shards.set(name(7), ["198.51.100.1"]);
  shards.set(name(20_000), [IP]);
  shards.set(name(9), []);
  const after = shards.render();
  const touched = new Set([7, 20_000, 9].map((index) => spreadHash(name(index)) % shards.count));
  assert.equal(after.length, before.length);
  for (const shard of after)
    assert.equal(shard !== before[shard.index], touched.has(shard.index), `shard ${shard.index}`);
  shards.set(name(7), [IP]);
  shards.set(name(20_000), []);
  shards.set(name(9), [IP]);
  assert.equal(mapRevisionOf(shards.render()), mapRevisionOf(before), "back to what it was");
});

test("property: after any changes in any batches, the shards hold exactly the lines that were set", () => {
  const change = fc.record({
    name: fc.nat(60),
    addresses: fc.constantFrom<string[]>([IP], ["2001:db8::9"], [IP, "2001:db8::9"], [], []),
    render: fc.constantFrom(true, false, false),
  });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 120 }), (changes) => {
      const shards = new Shards();
      const model = new Map<string, readonly string[]>();
      for (const { name: index, addresses, render } of changes) {
        shards.set(name(index), addresses);
        if (addresses.length === 0) model.delete(name(index));
        else model.set(name(index), addresses);
        if (render) assert.deepEqual(sorted(read(shards.render())), sorted(model));
      }
      assert.deepEqual(sorted(read(shards.render())), sorted(model));
    }),
    { numRuns: 200 },
  );
});

test("property: the order in which names arrive does not change the revision", () => {
  const size = 3_000;
  const inOrder = new Shards();
  for (let index = 0; index < size; index += 1) inOrder.set(name(index), [IP]);
  const revision = mapRevisionOf(inOrder.render());
  fc.assert(
    fc.property(
      fc.shuffledSubarray([...Array(size).keys()], { minLength: size }),
      fc.array(fc.nat(size)),
      (order, pauses) => {
        const shards = new Shards();
        for (const [position, index] of order.entries()) {
          shards.set(name(index), [IP]);
          if (pauses.includes(position)) shards.render();
        }
        assert.equal(mapRevisionOf(shards.render()), revision);
      },
    ),
    { numRuns: 20 },
  );
});

/** Ordinary names that share a shard with the crowd. */
function victims(count: number, residue: number): string[] {
  return Array.from({ length: count * MAX_SHARDS * 3 }, (_, index) => name(index))
    .filter((candidate) => spreadHash(candidate) % MAX_SHARDS === residue)
    .slice(0, count);
}

test("a shard that one tenant fills drops the tenant's long names, reports them, and adds them again later", () => {
  const shards = new Shards();
  const long = crowd(1_100, 5);
  const others = victims(50, 5);
  for (const host of [...long, ...others]) shards.set(host, [IP]);
  const held = read(shards.render());
  for (const host of others) assert.ok(held.has(host), host);
  assert.ok(shards.overflowing.size > 0);
  assert.equal(held.size + shards.overflowing.size, long.length + others.length, "each name is published or reported");
  const revision = mapRevisionOf(shards.render());

  const reversed = new Shards();
  for (const [index, host] of [...long, ...others].reverse().entries()) {
    reversed.set(host, [IP]);
    if (index % 400 === 0) reversed.render();
  }
  assert.equal(mapRevisionOf(reversed.render()), revision, "whatever the order");

  const published = long.filter((host) => held.has(host)).slice(0, 300);
  for (const host of published) shards.set(host, []);
  assert.equal(read(shards.render()).size, 800 + others.length);
  assert.equal(shards.overflowing.size, 0);
});

test("two crowded shards are not joined if they would have to be split again", () => {
  const shards = new Shards();
  for (const host of crowd(600, 5)) shards.set(host, [IP]);
  for (const host of crowd(600, 37)) shards.set(host, [IP]);
  const first = shards.render();
  for (let round = 0; round < 4; round += 1) {
    shards.set("a.example.com", round % 2 === 0 ? [IP] : []);
    const rendered = shards.render();
    assert.equal(rendered.length, first.length);
    assert.equal(rendered.filter((shard) => shard.text !== first[shard.index]?.text).length, round % 2 === 0 ? 1 : 0);
  }
});
