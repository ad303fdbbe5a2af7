import assert from "node:assert/strict";
import { test } from "node:test";
import { shortHash } from "#hostmap/hash.ts";
import { fc } from "#test/property.ts";
import {
  isNamedHash,
  isShardName,
  MAP_LABELS,
  MAP_SELECTOR,
  parseIndex,
  parseState,
  renderIndex,
  renderState,
  SHARD_NAME_COUNT,
  SHARD_NAMES,
  textOf,
} from "./map-format.ts";
import { MAX_SHARDS } from "./shards.ts";

const BAD_STATES: ReadonlyArray<readonly [text: string, code: string]> = [
  ["", "index-not-json"],
  ["{", "index-not-json"],
  ["null", "index-version"],
  ["[]", "index-version"],
  ['"text"', "index-version"],
  ["{}", "index-version"],
  ['{"version":2,"targets":[]}', "index-version"],
  ['{"version":"1","targets":[]}', "index-version"],
  ['{"version":null,"targets":[]}', "index-version"],
  ['{"version":1}', "index-malformed"],
  ['{"version":1,"targets":{}}', "index-malformed"],
  ['{"version":1,"targets":[null]}', "index-malformed"],
  ['{"version":1,"targets":[{"name":"a","clusterIPs":[1]}]}', "index-malformed"],
  ['{"version":1,"targets":[{"clusterIPs":[]}]}', "index-malformed"],
  ['{"version":1,"targets":[{"name":"a"}]}', "index-malformed"],
  ['{"version":1,"targets":[{"name":"a","clusterIPs":["b",1]}]}', "index-malformed"],
];
for (const [text, code] of BAD_STATES) {
  test(`a state ${JSON.stringify(text)} is ${code}`, () => {
    const state = parseState(text);
    assert.equal("code" in state && state.code, code);
  });
}

test("a state has version 1 and a line per target, and is parsed back; unknown fields are dropped", () => {
  const targets = [
    { name: "a", clusterIPs: ["198.51.100.9"] },
    { name: "b", clusterIPs: [] },
  ];
  const text = renderState({ targets });
  assert.equal(
    text,
    '{"version":1,"targets":[\n{"name":"a","clusterIPs":["198.51.100.9"]},\n{"name":"b","clusterIPs":[]}\n]}\n',
  );
  assert.deepEqual(parseState(text), { targets });
  assert.deepEqual(parseState(JSON.stringify({ version: 1, targets, more: 1 })), { targets });
  assert.deepEqual(parseState(renderState({ targets: [] })), { targets: [] });
});

test("an index has version 1 and names each shard with the first nine digits of its hash", () => {
  const shards = SHARD_NAMES.slice(MAX_SHARDS).map((name, at) => ({ name, revision: shortHash(`${at}`) }));
  const text = renderIndex({ revision: "5ffde9aacc88", shards });
  assert.equal(text.length, '{"version":1,"revision":"5ffde9aacc88","shards":""}\n'.length + 8 * MAX_SHARDS);
  const read = parseIndex(text);
  assert.ok(!("code" in read));
  assert.deepEqual(read, {
    revision: "5ffde9aacc88",
    shards: shards.map(({ name, revision }) => ({ name, revision: revision.slice(0, 9) })),
  });
  assert.ok(read.shards.every(({ revision }, at) => isNamedHash(shards[at]?.revision, revision)));
  const empty = '{"version":1,"revision":"5ffde9aacc88","shards":""}\n';
  assert.equal(renderIndex({ revision: "5ffde9aacc88", shards: [] }), empty);
});

test("an index with more shards than a leader writes is malformed, because it would leave no free names", () => {
  const shards = Array.from({ length: MAX_SHARDS + 1 }, () => ({
    name: "switchback-hosts-0",
    revision: shortHash(""),
  }));
  const index = parseIndex(renderIndex({ revision: "r", shards }));
  assert.equal("code" in index && index.code, "index-malformed");
});

test("a hash matches itself and its first nine digits, but nothing shorter", () => {
  const named = ["0df1b281272f", "0df1b2812", "0df1b281", "", "0df1b281272f0", "1df1b2812"];
  assert.deepEqual(
    named.map((revision) => isNamedHash("0df1b281272f", revision)),
    [true, true, false, false, false, false],
  );
  assert.equal(isNamedHash(undefined, "0df1b2812"), false);
});

const BAD_INDEXES: ReadonlyArray<readonly [text: string, code: string]> = [
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
for (const [text, code] of BAD_INDEXES) {
  test(`an index ${text} is ${code}`, () => {
    const index = parseIndex(text);
    assert.equal("code" in index && index.code, code);
  });
}

test("property: parsing an index never throws, whatever its text", () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string()), (text) =>
      [parseIndex, parseState].every((parse) => typeof parse(text) === "object"),
    ),
  );
});

test("each reason says what is wrong, and quotes at most 20 characters of another version", () => {
  const read = (text: string) => parseIndex(text);
  assert.match(JSON.stringify(read("{")), /"text":"index\.json is not JSON: Expected /);
  assert.deepEqual(read('{"version":1}'), {
    code: "index-malformed",
    text: "index.json has no valid revision or shards",
  });
  assert.deepEqual(parseState('{"version":1}'), { code: "index-malformed", text: "state.json has no valid targets" });
  assert.deepEqual(read("{}"), {
    code: "index-version",
    text: "index.json has version null; this release reads version 1",
  });
  assert.deepEqual(read(JSON.stringify({ version: "x".repeat(30) })), {
    code: "index-version",
    text: `index.json has version "${"x".repeat(19)}; this release reads version 1`,
  });
});

test("only 1,024 ConfigMaps can be shards", () => {
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
});

test("index, state and shards have their texts under their own keys; a shard without its key is empty", () => {
  const data = { "index.json": "i", "state.json": "s", hosts: "h" };
  const of = (name: string, more: object) => textOf({ metadata: { name }, ...more });
  const names = ["switchback-hosts-index", "switchback-hosts", "switchback-hosts-0"];
  assert.deepEqual(
    names.map((name) => of(name, { data })),
    ["i", "s", "h"],
  );
  for (const more of [{ data: {} }, {}]) {
    assert.deepEqual(
      names.map((name) => of(name, more)),
      [undefined, undefined, ""],
    );
  }
});
