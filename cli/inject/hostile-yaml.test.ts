import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { injectManifest } from "./manifest.ts";

const choose = createSelector(publishedMapOf("r", parseHosts("203.0.113.5 a.example.com\n")), 500);
const inject = (text: string) => injectManifest({ name: "f", text }, { choose, longLine: false, templatePaths: [] });

describe("an unresolvable alias is refused with a reason:", () => {
  for (const [what, yaml, reason] of [
    [
      "in the aliases",
      "kind: Pod\nspec: { hostAliases: &a [*a] }",
      /\*a refers to a value that contains the alias itself/,
    ],
    ["in one alias", "kind: Pod\nspec: { hostAliases: [&a { ip: 192.0.2.1, hostnames: *a }] }", /\*a refers/],
    ["in the annotations", "kind: Pod\nmetadata: { annotations: &a { b: *a } }\nspec: {}", /\*a refers/],
    ["in one annotation", "kind: Pod\nmetadata: { annotations: { b: &a [[*a]] } }\nspec: {}", /\*a refers/],
    ["as a key", "kind: Pod\nspec: { x: &a { *a : 1 } }", /\*a refers/],
    ["in all of the object", "&a { kind: Pod, spec: { x: *a } }", /\*a refers/],
    ["through an anchor that is used twice", "kind: Pod\nspec: { x: &a [&a [*a]] }", /\*a refers/],
    ["in a list", "kind: List\nitems: &a [*a]", /\*a refers/],
    ["in another kind", "kind: &a [*a]", /\*a refers/],
    ["without an anchor", "kind: Pod\nspec: { x: *b }", /\*b has no anchor before it/],
    ["without an anchor, in the aliases", "kind: Pod\nspec: { hostAliases: [*b] }", /\*b has no anchor before it/],
    ["before its anchor", "kind: Pod\nspec: { x: *b, y: &b 1 }", /\*b has no anchor before it/],
  ] as const) {
    it(what, () => {
      const { output, outcomes } = inject(`${yaml}\n---\nkind: Pod\nmetadata: { name: fine }\nspec: {}\n`);
      assert.equal(output, "");
      assert.deepEqual(
        [outcomes[0]?.result, outcomes[0]?.reason.code, outcomes[1]?.result],
        ["failed", "yaml-invalid", "injected"],
      );
      assert.match(outcomes[0]?.reason.text ?? "", reason);
    });
  }

  it("but a resolvable one is kept", () => {
    const { output, outcomes } = inject("kind: Pod\nmetadata: { name: &n p, labels: { app: *n } }\nspec: {}\n");
    assert.deepEqual([outcomes[0]?.result, /app: \*n/.test(output)], ["injected", true]);
  });
});
