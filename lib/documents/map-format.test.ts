import assert from "node:assert/strict";
import { test } from "node:test";
import { shortHash } from "#hostmap/hash.ts";
import { fc } from "#test/property.ts";
import {
  FOLLOWED_SELECTOR,
  isNamedHash,
  isShardName,
  MAP_LABELS,
  MAP_SELECTOR,
  parseCompactIndex,
  parseIndex,
  renderCompactIndex,
  renderIndex,
  SHARD_NAME_COUNT,
  SHARD_NAMES,
  textOf,
} from "./map-format.ts";

const BAD_INDEXES: ReadonlyArray<readonly [text: string, code: string]> = [
  ["", "index-not-json"],
  ["{", "index-not-json"],
  ["null", "index-malformed"],
  ["[]", "index-malformed"],
  ['"text"', "index-malformed"],
  ["{}", "index-malformed"],
  ['{"revision":1,"targets":[],"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":{},"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":[null],"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":[{"name":"a","clusterIPs":[1]}],"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":[],"shards":[{"name":"s"}]}', "index-malformed"],
  ['{"revision":"r","targets":[],"shards":[{"revision":"s"}]}', "index-malformed"],
  ['{"revision":"r","targets":[{"clusterIPs":[]}],"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":[{"name":"a"}],"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":[{"name":"a","clusterIPs":["b",1]}],"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":[],"shards":{}}', "index-malformed"],
  ['{"targets":[],"shards":[]}', "index-malformed"],
  ['{"revision":"r","targets":[],"shards":[null]}', "index-malformed"],
];
for (const [text, code] of BAD_INDEXES) {
  test(`an index ${JSON.stringify(text)} is ${code}`, () => {
    const index = parseIndex(text);
    assert.equal("code" in index && index.code, code);
  });
}

const INDEX = {
  revision: "5ffde9aacc88",
  targets: [{ name: "ingress-nginx", clusterIPs: ["198.51.100.9"] }],
  shards: [{ name: "switchback-hosts-0", revision: "0df1b281272f" }],
};

test("an index is written without a version, which is version 0, and read back", () => {
  const text = renderIndex(INDEX);
  assert.equal(JSON.parse(text).version, undefined);
  assert.deepEqual(parseIndex(text), INDEX);
  assert.deepEqual(parseIndex(JSON.stringify({ version: 0, ...INDEX })), INDEX);
});

test("a compact index is of version 1 and names each shard with the first nine digits of its hash", () => {
  const shards = SHARD_NAMES.map((name, at) => ({ name, revision: shortHash(`${at}`) }));
  const index = { revision: "5ffde9aacc88", targets: INDEX.targets, shards };
  const text = renderCompactIndex(index);
  assert.equal(text.length, '{"version":1,"revision":"5ffde9aacc88","shards":""}\n'.length + 8 * SHARD_NAME_COUNT);
  const read = parseCompactIndex(text);
  assert.ok(!("code" in read));
  assert.deepEqual(read, {
    revision: index.revision,
    targets: [],
    shards: shards.map(({ name, revision }) => ({ name, revision: revision.slice(0, 9) })),
  });
  assert.ok(read.shards.every(({ revision }, at) => isNamedHash(shards[at]?.revision, revision)));
  assert.equal(renderCompactIndex({ ...index, shards: [] }), '{"version":1,"revision":"5ffde9aacc88","shards":""}\n');
});

test("a hash is named by itself and by its first nine digits, and by nothing shorter", () => {
  const named = ["0df1b281272f", "0df1b2812", "0df1b281", "", "0df1b281272f0", "1df1b2812"];
  assert.deepEqual(
    named.map((revision) => isNamedHash("0df1b281272f", revision)),
    [true, true, false, false, false, false],
  );
  assert.equal(isNamedHash(undefined, "0df1b2812"), false);
});

const BAD_COMPACT: ReadonlyArray<readonly [text: string, code: string]> = [
  ["{", "index-not-json"],
  ["null", "index-version"],
  ["{}", "index-version"],
  ['{"version":2,"revision":"r","shards":""}', "index-version"],
  ['{"version":1}', "index-malformed"],
  ['{"version":1,"revision":"r","shards":[]}', "index-malformed"],
  ['{"version":1,"revision":1,"shards":""}', "index-malformed"],
  ['{"version":1,"revision":"r","shards":"AAAAAAA"}', "index-malformed"],
  ['{"version":1,"revision":"r","shards":"AAAA/AAA"}', "index-malformed"],
  ['{"version":1,"revision":"r","shards":"QAAAAAAA"}', "index-malformed"],
];
for (const [text, code] of BAD_COMPACT) {
  test(`a compact index ${text} is ${code}`, () => {
    const index = parseCompactIndex(text);
    assert.equal("code" in index && index.code, code);
  });
}

for (const version of [1, 2, "0", null]) {
  test(`an index of version ${JSON.stringify(version)} is index-version, whatever else it holds`, () => {
    for (const rest of [INDEX, {}]) {
      const index = parseIndex(JSON.stringify({ version, ...rest }));
      assert.equal("code" in index && index.code, "index-version");
    }
  });
}

test("property: no text makes reading an index throw", () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string()), (text) =>
      [parseIndex, parseCompactIndex].every((parse) => typeof parse(text) === "object"),
    ),
  );
});

test("each reason says what is wrong, and at most 20 characters of another version", () => {
  const read = (text: string) => parseIndex(text);
  assert.match(JSON.stringify(read("{")), /"text":"index\.json does not parse: SyntaxError/);
  assert.deepEqual(read("{}"), { code: "index-malformed", text: "index.json lacks revision, targets or shards" });
  assert.deepEqual(read(JSON.stringify({ version: "x".repeat(30) })), {
    code: "index-version",
    text: `index.json has version "${"x".repeat(19)}; this release reads version 0`,
  });
});

test("the text has a line per shard and ends with a line break; a field that is no index's is left out", () => {
  const text = `{"revision":"r","targets":[],"shards":[\n{"name":"a","revision":"b"},\n{"name":"c","revision":"d"}\n]}\n`;
  const shards = [
    { name: "a", revision: "b" },
    { name: "c", revision: "d" },
  ];
  const index = { revision: "r", targets: [], shards };
  assert.equal(renderIndex(index), text);
  assert.deepEqual(parseIndex(JSON.stringify({ ...index, more: 1 })), index);
});

test("1,024 ConfigMaps can be shards, and no other", () => {
  assert.deepEqual(
    [SHARD_NAMES[0], SHARD_NAMES.at(-1), SHARD_NAMES.length],
    ["switchback-hosts-0", "switchback-hosts-1023", SHARD_NAME_COUNT],
  );
  assert.equal(SHARD_NAME_COUNT, 1_024);
  assert.ok(SHARD_NAMES.every(isShardName));
  for (const other of ["", "-1024", "-00", "-", "-index"]) assert.equal(isShardName(`switchback-hosts${other}`), false);
});

test("the labels and the selector of the map's ConfigMaps", () => {
  assert.deepEqual([MAP_LABELS, MAP_SELECTOR], [{ "switchback.dev/map": "hosts" }, "switchback.dev/map=hosts"]);
  assert.equal(FOLLOWED_SELECTOR, "switchback.dev/map=hosts,switchback.dev/format!=0");
});

test("the text of a ConfigMap: of the index by its key, of a shard by its own, empty without it", () => {
  const data = { "index.json": "i", hosts: "h" };
  const of = (name: string, more: object) => textOf({ metadata: { name }, ...more });
  assert.deepEqual([of("switchback-hosts", { data }), of("switchback-hosts-0", { data })], ["i", "h"]);
  assert.equal(of("switchback-hosts-index", { data }), "i");
  assert.deepEqual([of("switchback-hosts", { data: {} }), of("switchback-hosts", {})], [undefined, undefined]);
  assert.deepEqual([of("switchback-hosts-0", { data: {} }), of("switchback-hosts-0", {})], ["", ""]);
});
