import assert from "node:assert/strict";
import { test } from "node:test";
import { SnapshotBuilder } from "./map-builder.ts";
import { renderIndex, SHARD_NAMES } from "./map-format.ts";
import { isMap, parseShard } from "./published-map.ts";

const INDEX = "switchback-hosts-index";
const [SHARD_0, SHARD_1] = ["switchback-hosts-0", "switchback-hosts-1"];
const [ZERO, ONE] = ["198.51.100.9 a.example.com\n", "198.51.100.9 b.example.com\n"];

function indexOf(...texts: string[]): string {
  const shards = texts.map((text, index) => ({ name: SHARD_NAMES[index] ?? "", revision: parseShard(text).shardHash }));
  return renderIndex({ revision: "r", shards });
}

/** Returns the revision and names of the result, or the code of the Reason. */
function shown(result: ReturnType<SnapshotBuilder["build"]>): unknown {
  return isMap(result) ? [result.revision, ...result.names] : result.code;
}

/** A builder with these ConfigMaps. */
function built(parts: Readonly<Record<string, string>>): SnapshotBuilder {
  const builder = new SnapshotBuilder();
  for (const [name, text] of Object.entries(parts)) builder.put(name, text);
  return builder;
}

const ALL = { [SHARD_1]: ONE, [INDEX]: indexOf(ZERO, ONE), [SHARD_0]: ZERO };

test("a map exists when the index and each of its shards exist, in any order", () => {
  const builder = new SnapshotBuilder();
  const seen = Object.entries(ALL).map(([name, text]) => {
    builder.put(name, text);
    return shown(builder.build());
  });
  assert.deepEqual(seen, ["index-missing", "shard-missing", ["r", "a.example.com", "b.example.com"]]);
});

test("without an index the Reason names the ConfigMap", () => {
  const reason = { code: "index-missing", text: "ConfigMap switchback-hosts-index with key index.json not found" };
  const builder = new SnapshotBuilder();
  assert.deepEqual([builder.index, builder.build()], [reason, reason]);
  builder.put(INDEX, indexOf(ZERO));
  assert.ok(!("code" in builder.index));
  builder.put(INDEX, undefined);
  assert.deepEqual([builder.index, builder.build()], [reason, reason]);
});

test("a deleted shard is reported as missing, and a ConfigMap of somebody else is ignored", () => {
  const builder = built(ALL);
  for (const name of ["other", "switchback-hosts", "switchback-hosts-1024", "switchback-hosts-x"])
    builder.put(name, "198.51.100.9 c.example.com\n");
  assert.deepEqual(shown(builder.build()), ["r", "a.example.com", "b.example.com"]);
  builder.put(SHARD_1, undefined);
  assert.equal(shown(builder.build()), "shard-missing");
});

test("without an index, or with an index of another version, shards do not make a map", () => {
  const { [INDEX]: _, ...shards } = ALL;
  assert.equal(shown(built(shards).build()), "index-missing");
  assert.equal(shown(built({ ...ALL, [INDEX]: `{"version":2}` }).build()), "index-version");
});
