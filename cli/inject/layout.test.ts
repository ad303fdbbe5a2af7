import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { parse, parseAllDocuments, stringify } from "yaml";
import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { fc } from "#test/property.ts";
import { injectManifest } from "./manifest.ts";

const IP = "203.0.113.5";
const choosing = (...names: string[]) =>
  createSelector(publishedMapOf("r", new Map(names.map((name) => [name, [IP]]))), 500);
const CHOOSE = choosing("a.example.com");

function inject(text: string, choose = CHOOSE): string {
  const { output, outcomes } = injectManifest({ name: "f", text }, { choose, longLine: false, templatePaths: [] });
  assert.ok(outcomes.every(({ result }) => result === "injected" || result === "overlooked"));
  return output;
}

/** The lines of `after`, compared with those of `before`: added lines are marked with +, removed lines with -. */
function changes(before: string, after: string): string[] {
  const old = before.split("\n");
  const marked: string[] = [];
  for (const line of after.split("\n")) {
    const at = old.indexOf(line);
    if (at === -1) marked.push(`+${line.replace(/(revision"?: *).*/, "$1").replace(/(owned"?: *).*/, "$1")}`);
    else marked.push(...old.splice(0, at + 1).map((kept, index) => `${index < at ? "-" : " "}${kept}`));
  }
  return [...marked, ...old.map((line) => `-${line}`)];
}
const changed = (before: string, after = inject(before)) =>
  changes(before, after).filter((line) => !line.startsWith(" "));

const ANNOTATIONS = (indent: string) => [
  `+${indent}switchback.dev/injected: ${IP} a.example.com`,
  `+${indent}switchback.dev/revision: `,
  `+${indent}switchback.dev/owned: `,
];

describe("the text keeps its layout, and only lines are added:", () => {
  it("comments, blanks, quotes, separators, anchors, and the style of lists and of four columns", () => {
    const text = `# licence

---
kind: Deployment   # two spaces
metadata: {name: web,   namespace: "shop"}
spec:
    replicas:   010

    template:
        metadata:
            labels: &l {app: web}
        spec:
            containers:
            - name: 'c'
              args: [ a,
                 b ]
            # the end of the pod
    # the end of the spec
    selector: {matchLabels: *l}
...
---

kind: Service
metadata:    {}
---
`;
    assert.deepEqual(changed(text), [
      "+            annotations:",
      ...ANNOTATIONS("                "),
      "+            hostAliases:",
      `+            - ip: ${IP}`,
      "+              hostnames:",
      "+              - a.example.com",
    ]);
  });

  it("if a block text ends with the file, or if the last value is empty", () => {
    const added = [
      "+  hostAliases:",
      `+    - ip: ${IP}`,
      "+      hostnames:",
      "+        - a.example.com",
      "+metadata:",
      "+  annotations:",
      ...ANNOTATIONS("    "),
    ];
    for (const last of [
      "|+\n    text\n\n",
      "|\n    text",
      "# empty\n",
      "",
      "\n    - |-\n      text\n",
      "\n    -\n    # end\n",
    ]) {
      const text = `kind: Pod\nspec:\n  containers: []\n  last: ${last}`;
      assert.deepEqual(changed(text), added, JSON.stringify(last));
    }
  });

  it("new lines end in CRLF if the others do", () => {
    const text = "kind: Pod\r\nspec:\r\n  containers: []\r\n";
    const output = inject(text);
    assert.equal(output.replaceAll("\r\n", "\n"), inject(text.replaceAll("\r\n", "\n")));
    assert.equal(output.split("\n").length, output.split("\r\n").length);
  });

  it("nothing changes if nothing is injected", () => {
    for (const text of [
      "kind:   Service # x\n\n\n--- # y\na:   {b:1}",
      "kind: X\r\n",
      "%YAML 1.2\n---\nkind: X\n...\n",
    ]) {
      assert.equal(inject(text), text);
    }
  });

  it("the user's aliases and annotations stay in place; only those of an earlier pass are replaced", () => {
    const before = `kind: Pod
metadata:
  annotations: # ours and theirs
    switchback.dev/injected: "older" # a
    switchback.dev/owned: |
      older
    theirs:   yes
spec:
  hostAliases:
  # legacy
  - ip:   "192.0.2.1"
    hostnames: [own.example.com]
  containers: []
`;
    assert.deepEqual(changed(before), [
      `+    switchback.dev/injected: ${IP} a.example.com # a`,
      "+    switchback.dev/owned: ",
      '-    switchback.dev/injected: "older" # a',
      "-    switchback.dev/owned: |",
      "-      older",
      "+    switchback.dev/revision: ",
      `+  - ip: ${IP}`,
      "+    hostnames:",
      "+    - a.example.com",
    ]);
    const once = inject(before);
    assert.equal(inject(once), once);
    const other = inject(once, choosing("b.example.com"));
    assert.equal(inject(other), once);
    assert.deepEqual(
      changed(once, inject(once, choosing())).filter((line) => !line.includes("switchback.dev/")),
      [`-  - ip: ${IP}`, "-    hostnames:", "-    - a.example.com"],
    );
  });

  it("the key hostAliases is removed when no alias is left", () => {
    for (const text of ["kind: Pod\nmetadata: {}\nspec:\n  containers: []\n  x: 1\n", 'kind: Pod\nspec: {"x": 1}\n']) {
      assert.equal(parse(inject(inject(text), choosing())).spec.hostAliases, undefined);
      assert.doesNotMatch(inject(inject(text), choosing()), /hostAliases|example\.com/);
    }
  });

  it("an empty value is filled, whether it is null, a map or a list", () => {
    for (const empty of ["", " ~", " {}", "\n    {}", " # none"]) {
      const output = inject(`kind: Pod\nmetadata:\n  annotations:${empty}\nspec:\n  containers: []\n`);
      assert.equal(parse(output).metadata.annotations["switchback.dev/injected"], `${IP} a.example.com`, empty);
      assert.match(output, /^kind: Pod\nmetadata:\n {2}annotations:.*\n {4}switchback/);
    }
    assert.match(
      inject("kind: Pod\nspec:\n- hostAliases\n".replace("- hostAliases", "  hostAliases: []")),
      /hostAliases:\n/,
    );
    assert.match(inject("kind: Pod\nspec: {}\n"), /spec:\n {2}hostAliases:\n {4}- ip/);
  });
});

describe("JSON", () => {
  const object = { kind: "Pod", metadata: { name: "p" }, spec: { hostAliases: [], containers: [{ big: 1 }] } };

  for (const [what, text] of [
    ["on one line", JSON.stringify(object)],
    ["of people, on one line", '{ "kind": "Pod", "spec": { "containers": [ ] } }\n'],
    ["on lines", `${JSON.stringify(object, null, 2)}\n`],
    ["on lines with tabs", JSON.stringify(object, null, "\t")],
    ["with CRLF", JSON.stringify(object, null, 4).replaceAll("\n", "\r\n")],
    ["of a list", JSON.stringify({ kind: "List", items: [object, { kind: "Service" }, object] }, null, 1)],
  ] as const) {
    it(`${what} stays JSON in the same layout, with long numbers and control characters in strings`, () => {
      const output = inject(text.replace('"big":', '"n": 12345678901234567890, "\u202e":'));
      const read = JSON.parse(output);
      const pod = read.items?.[2] ?? read;
      assert.deepEqual(pod.spec.hostAliases, [{ ip: IP, hostnames: ["a.example.com"] }]);
      assert.equal(pod.metadata.annotations["switchback.dev/injected"], `${IP} a.example.com`);
      if (text.includes('"big":')) assert.match(output, /12345678901234567890, "\\u202e"/);
      if (!text.includes("\n") || text.startsWith("{ ")) assert.equal(output.trimEnd().split("\n").length, 1);
      else
        assert.equal(
          JSON.stringify(read, null, /\n([ \t]+)/.exec(text)?.[1]).length,
          JSON.stringify(read, null, /\n([ \t]+)/.exec(output)?.[1]).length,
        );
      assert.equal(inject(output), output);
      assert.doesNotMatch(inject(output, choosing()), /example\.com/);
      JSON.parse(inject(output, choosing()));
    });
  }
});

describe("if text edits cannot express the change, the document is printed anew, with the right content:", () => {
  for (const [what, text] of [
    ["a map that is written with tags", "kind: Pod\nspec: !!map\n  a: 1\nmetadata: !!map {}\n"],
    ["explicit keys", "? kind\n: Pod\n? spec\n:\n  ? a\n  : b\n"],
    ["controls in a comment", "kind: Pod # \u009b2J\nspec: { a: '\u202e' }\n"],
    ["a pair without a value", "kind: Pod\nspec: { a, b }\n"],
  ] as const) {
    it(what, () => {
      const output = inject(text);
      const { spec, metadata, ...rest } = parse(output);
      assert.deepEqual(spec.hostAliases, [{ ip: IP, hostnames: ["a.example.com"] }]);
      assert.equal(Object.keys(metadata.annotations).length, 3);
      assert.deepEqual(
        { ...rest, spec: { ...spec, hostAliases: undefined } },
        {
          kind: "Pod",
          spec: { ...parse(text).spec, hostAliases: undefined },
        },
      );
    });
  }
});

const key = fc.constantFrom("a", "b", "yes", "x y", "- z", "0", "#");
const { value } = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: "small" }, tie("leaf"), fc.array(tie("value"), { maxLength: 3 }), tie("map")),
  map: fc.dictionary(key, tie("value"), { maxKeys: 3 }),
  leaf: fc.oneof(
    fc.constantFrom(null, "", "text", "two\nlines\n", "two\nlines", "\n\n", "- a", "a: b # c", true, 1, 1.5, "0644"),
    fc.string({ maxLength: 6 }),
  ),
}));
const aliases = fc.array(fc.constant({ ip: "192.0.2.1", hostnames: ["own.example.com"] }), { maxLength: 2 });
const annotations = fc.dictionary(key, fc.constantFrom("", "v", "two\nlines\n"), { maxKeys: 2 });
const anyPod = fc
  .record(
    {
      metadata: fc.option(fc.record({ labels: value, annotations: fc.option(annotations) }, { requiredKeys: [] })),
      spec: fc.record({ containers: value, hostAliases: fc.option(aliases), volumes: value }, { requiredKeys: [] }),
      status: value,
    },
    { requiredKeys: ["spec"] },
  )
  .chain((pod) => fc.shuffledSubarray(Object.entries(pod), { minLength: Object.keys(pod).length }))
  .map((entries) => ({ kind: "Pod", ...Object.fromEntries(entries) }) as Record<string, unknown>);
const anyStyle = fc.record({
  indent: fc.constantFrom(2, 3, 4),
  indentSeq: fc.boolean(),
  collectionStyle: fc.constantFrom("any" as const, "block" as const, "flow" as const),
  lineWidth: fc.constantFrom(0, 20, 80),
  defaultStringType: fc.constantFrom("PLAIN" as const, "QUOTE_DOUBLE" as const, "BLOCK_LITERAL" as const),
});

test("property: for any pod and style, aliases and annotations are added, and no other line changes", () => {
  fc.assert(
    fc.property(fc.array(anyPod, { minLength: 1, maxLength: 3 }), anyStyle, (pods, style) => {
      const text = pods.map((pod) => stringify(pod, style)).join("---\n");
      // The YAML library prints some empty collections in a way that it cannot parse again.
      fc.pre(parseAllDocuments(text).every(({ errors }) => errors.length === 0));
      const output = inject(text);
      const read = parseAllDocuments(output).map((document) => document.toJS());
      assert.equal(read.length, pods.length);
      for (const [index, pod] of parseAllDocuments(text)
        .map((document) => document.toJS())
        .entries()) {
        const { metadata, spec, ...rest } = read[index];
        const { metadata: oldMetadata, spec: oldSpec, ...oldRest } = pod;
        assert.deepEqual(rest, oldRest);
        assert.deepEqual(spec, {
          ...oldSpec,
          hostAliases: [...(oldSpec.hostAliases ?? []), { ip: IP, hostnames: ["a.example.com"] }],
        });
        const {
          "switchback.dev/injected": injected,
          "switchback.dev/revision": _,
          "switchback.dev/owned": __,
          ...users
        } = metadata.annotations;
        assert.ok(injected.startsWith(IP));
        assert.deepEqual(
          { ...metadata, annotations: users },
          { ...oldMetadata, annotations: { ...oldMetadata?.annotations } },
        );
      }
      assert.equal(inject(output), output, "a second pass changes nothing");
      if (style.collectionStyle !== "block") return;
      const [before, after] = [text, output].map((lines) => lines.split("\n"));
      const count = (lines: string[] | undefined, line: string) => lines?.filter((other) => other === line).length ?? 0;
      const gone = before?.filter((line) => count(before, line) > count(after, line));
      // A null or an empty collection is replaced by the added value.
      const empty = /^ *("?(metadata|annotations|hostAliases|spec)"?:( null)?|\{\}|\[\])$/;
      assert.deepEqual(
        gone?.filter((line) => !empty.test(line)),
        [],
      );
    }),
    { numRuns: 100 },
  );
});

test("a text without a final line ending does not get one, and a second pass changes nothing", () => {
  for (const eol of ["\n", "\r\n"]) {
    const text = "kind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: c\n    image: x".replaceAll(
      "\n",
      eol,
    );
    const once = inject(text);
    assert.ok(once.endsWith("    - a.example.com"));
    assert.equal(inject(once), once);
    assert.equal(inject(`${text}${eol}`), `${once}${eol}`);
  }
});

// libyaml, and so kubectl, ignores the indentation inside quotes and brackets.
describe("inject accepts what kubectl accepts:", () => {
  const pod = (more: string) => `kind: Pod\nmetadata:\n  name: a\n${more}spec:\n  containers: [ { name: c } ]\n`;
  const added = (text: string) => {
    const after = inject(text);
    const lines = after.split("\n");
    for (const line of text.split("\n")) assert.ok(lines.includes(line), `${JSON.stringify(line)} in ${after}`);
    return after;
  };

  it("quotes that continue at the column of their key, or before it", () => {
    const text = pod("  annotations:\n    rule: 'self.all(p1,\n    it''s)'\n    other: \"a \\\"\n\n  b'\n c\"\n");
    const after = added(text);
    assert.match(after, /\n {4}rule: 'self\.all\(p1,\n {4}it''s\)'\n {4}other: "a \\"\n\n {2}b'\n c"\n {4}switchback/);
  });

  it("brackets with lines at the column of their key, and with quotes, comments and brackets in them", () => {
    const text = pod("  labels: {a: 'x}',\n  b: \"]\", # }\n  c: don't\n  }\n").replace(
      "[ { name: c } ]",
      "[ { name: c,\n  args: [\n  a\n  ] } ]",
    );
    const after = added(text);
    assert.match(after, /\n {2}labels: \{a: 'x\}',\n {2}b: "\]", # \}\n {2}c: don't\n {2}\}\n/);
    assert.match(after, /\n {2}containers: \[ \{ name: c,\n {2}args: \[\n {2}a\n {2}\] \} \]\n {2}hostAliases:\n/);
  });

  it("but nothing that is not closed", () => {
    for (const more of ["  labels: {a: b,\n  c: d\n", "  labels: { a: 'x\n  y }\n---\n"]) {
      const { outcomes } = injectManifest(
        { name: "f", text: pod(more) },
        { choose: CHOOSE, longLine: false, templatePaths: [] },
      );
      assert.equal(outcomes[0]?.reason.code, "yaml-invalid");
    }
  });
});
