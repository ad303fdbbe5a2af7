import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonPath, jsonPathError } from "./json-path.ts";
import { checkConfig } from "./parse.ts";

const custom = (parts: object) => ({
  sources: {
    custom: [{ group: "example.com", version: "v1", resource: "widgets", hostnames: "$.spec.host", ...parts }],
  },
});

for (const [text, fault] of [
  ["$.spec.hosts[*]", undefined],
  ["$.metadata.annotations['example.com/hosts']", undefined],
  ["$.a[?@.b == 'c'].d", undefined],
  ["", /beyond start/],
  ["spec.hosts", /expected '\$'/],
  ["{.spec.host}", /expected '\$'/],
  ["$.spec.hosts[", /unclosed/],
  ["$.spec..", /descendant/],
  ["$.a[?(process.exit())]", /./],
] as const) {
  test(`${JSON.stringify(text)} is ${fault === undefined ? "a" : "no"} JSONPath`, () => {
    const found = jsonPathError(text);
    if (fault === undefined) assert.equal(found, undefined);
    else assert.match(found ?? "", fault);
  });
}

test("a path executes no code and reads only the value", () => {
  const values = ["$.constructor", "$.__proto__", "$.toString", "$['constructor']['constructor']"].flatMap((text) =>
    jsonPath(text)({}, 10),
  );
  assert.deepEqual(values, []);
  assert.match(jsonPathError("$.a[?constructor.constructor('return 1')()]") ?? "", /./);
});

test("no more values are returned than requested", () => {
  assert.deepEqual(jsonPath("$.a[*]")({ a: [1, 2, 3] }, 2), [1, 2]);
  assert.deepEqual(jsonPath("$.a[*]")({ a: [1, 2, 3] }, 0), []);
});

for (const [what, parts, place] of [
  ["hostnames", { hostnames: "spec.host" }, ["sources", "custom", 0, "hostnames"]],
  ["class", { class: "$.a[" }, ["sources", "custom", 0, "class"]],
  ["addresses", { addresses: "$$" }, ["sources", "custom", 0, "addresses"]],
  ["admitted", { admitted: "x" }, ["sources", "custom", 0, "admitted"]],
  ["a group that is a path", { group: "../v1" }, ["sources", "custom", 0, "group"]],
  ["a resource that is a path", { resource: "a/b" }, ["sources", "custom", 0, "resource"]],
  ["an unknown syntax", { syntax: "regex" }, ["sources", "custom", 0, "syntax"]],
] as const) {
  test(`an invalid custom source is refused with the path of the error: ${what}`, () => {
    const { flaws } = checkConfig(custom(parts));
    assert.deepEqual(
      flaws.map(({ path }) => path),
      [place],
    );
    if (place[3] in parts && !["group", "resource", "syntax"].includes(place[3])) {
      assert.match(flaws[0]?.message ?? "", /^is not a valid JSONPath \(RFC 9535\), such as `\$\.spec\.hosts\[\*\]`: /);
    }
  });
}
