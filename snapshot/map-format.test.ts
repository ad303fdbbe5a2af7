import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseIndex, renderIndex } from "./map-format.ts";

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

const INDEX = {
  revision: "5ffde9aacc88",
  targets: [{ name: "ingress-nginx", clusterIPs: ["198.51.100.9"] }],
  shards: [{ name: "switchback-hosts-0", revision: "0df1b281272f" }],
};

test("an index is written with version 1 and read back", () => {
  const text = renderIndex(INDEX);
  assert.equal(JSON.parse(text).version, 1);
  assert.deepEqual(parseIndex(text), INDEX);
});

test("an index without a version, as earlier releases write it, is of version 1", () => {
  assert.deepEqual(parseIndex(`${JSON.stringify(INDEX, null, 1)}\n`), INDEX);
});

for (const version of [0, 2, "1", null]) {
  test(`an index of version ${JSON.stringify(version)} is index-version, whatever else it holds`, () => {
    for (const rest of [INDEX, {}]) {
      const index = parseIndex(JSON.stringify({ version, ...rest }));
      assert.equal("code" in index && index.code, "index-version");
    }
  });
}

test("property: no text makes reading an index throw", () => {
  fc.assert(fc.property(fc.oneof(fc.json(), fc.string()), (text) => typeof parseIndex(text) === "object"));
});
