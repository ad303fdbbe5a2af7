import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseIndex } from "./map-format.ts";

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
  ['{"revision":"r","targets":[],"shards":[null]}', "index-malformed"],
];
for (const [text, code] of BAD_INDEXES) {
  test(`an index ${JSON.stringify(text)} is ${code}`, () => {
    const index = parseIndex(text);
    assert.equal("code" in index && index.code, code);
  });
}

test("property: no text makes reading an index throw", () => {
  fc.assert(fc.property(fc.oneof(fc.json(), fc.string()), (text) => typeof parseIndex(text) === "object"));
});
