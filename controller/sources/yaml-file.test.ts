import assert from "node:assert/strict";
import { test } from "node:test";
import { anyText, fc } from "#test/property.ts";
import { parseYamlFile } from "./yaml-file.ts";

function titles(text: string): string[] {
  return parseYamlFile("a.yaml", text).objects.map(({ raw }) => `${raw.kind} ${raw.metadata.name}`);
}

test("a file may have several documents, and empty ones are skipped", () => {
  const text = "---\nkind: A\nmetadata: {name: one}\n---\n# nothing\n---\nkind: B\nmetadata: {name: two}\n---\n";
  assert.deepEqual(parseYamlFile("a.yaml", text).problems, []);
  assert.deepEqual(titles(text), ["A one", "B two"]);
  assert.deepEqual(titles(""), []);
});

test("a List is unfolded, and an invalid item affects only itself", () => {
  const text = `apiVersion: v1
kind: List
items:
  - kind: A
    metadata: {name: one}
  - just text
  - kind: B
    metadata: {name: two}
`;
  assert.deepEqual(titles(text), ["A one", "B two"]);
  assert.deepEqual(parseYamlFile("a.yaml", text).problems, [
    { place: "a.yaml:6", code: "not-an-object", text: "document 1 is not a Kubernetes object: it has no kind" },
  ]);
});

test("JSON is YAML", () => assert.deepEqual(titles('{"kind": "A", "metadata": {"name": "one"}}'), ["A one"]));

const GOOD = "kind: Good\nmetadata: {name: good}\n";
const BAD: ReadonlyArray<readonly [what: string, text: string, place: string, code: string, reason: RegExp]> = [
  ["no YAML", "kind: A\n  metadata: x: y\n", "a.yaml:1", "yaml-invalid", /^Nested mappings/],
  ["a key twice", "kind: A\nkind: B\n", "a.yaml:2", "yaml-invalid", /^Map keys must be unique/],
  ["an open bracket", "a: [", "a.yaml:2", "yaml-invalid", /^Flow sequence/],
  ["an anchor that is not there", "a: *b", "a.yaml:1", "yaml-invalid", /b/],
  ["text", "just text", "a.yaml:1", "not-an-object", /^document \d is not a Kubernetes object: it has no kind$/],
  ["a list", "\n\n- a", "a.yaml:3", "not-an-object", /no kind/],
  ["a kind that is not a string", "kind: 5", "a.yaml:1", "not-an-object", /no kind/],
  ["no metadata", "kind: Pod", "a.yaml:1", "no-name", /^this "Pod" has no metadata.name$/],
  ["metadata that is null", "kind: Pod\nmetadata:", "a.yaml:1", "no-name", /metadata.name/],
  ["metadata that is text", "kind: Pod\nmetadata: x", "a.yaml:1", "no-name", /metadata.name/],
  ["a name that is a number", "kind: Pod\nmetadata: {name: 5}", "a.yaml:1", "no-name", /metadata.name/],
  [
    "a namespace that is a number",
    "kind: Pod\nmetadata: {name: a, namespace: 5}",
    "a.yaml:1",
    "wrong-type",
    /metadata.namespace of "Pod" "a"/,
  ],
];
for (const [what, text, place, code, reason] of BAD) {
  test(`${what}: ${code} at ${place}, and the document after it is used`, () => {
    const { objects, problems } = parseYamlFile("a.yaml", `${text}\n---\n${GOOD}`);
    assert.deepEqual(
      problems.map((problem) => [problem.place, problem.code]),
      [[place, code]],
    );
    assert.match(problems[0]?.text ?? "", reason);
    assert.deepEqual(
      objects.map(({ raw }) => raw.kind),
      ["Good"],
    );
  });
}

test("a document after a valid one is reported with its own line", () => {
  const { problems } = parseYamlFile("a.yaml", `${GOOD}---\nkind: Pod\n`);
  assert.deepEqual(
    problems.map(({ place }) => place),
    ["a.yaml:4"],
  );
});

test("a small file with exponential aliases is rejected, not expanded", () => {
  const level = (n: number) =>
    `l${n}: &l${n} [${Array(10)
      .fill(`*l${n - 1}`)
      .join(", ")}]\n`;
  const bomb = `kind: A\nmetadata: {name: a}\nl0: &l0 [x]\n${[1, 2, 3, 4, 5, 6, 7, 8, 9].map(level).join("")}`;
  const before = process.memoryUsage().heapUsed;
  const { objects, problems } = parseYamlFile("a.yaml", bomb);
  assert.deepEqual(objects, []);
  assert.deepEqual(
    problems.map(({ place, code }) => ({ place, code })),
    [{ place: "a.yaml:1", code: "yaml-invalid" }],
  );
  assert.match(problems[0]?.text ?? "", /alias/i);
  assert.ok(process.memoryUsage().heapUsed - before < 50 * 1024 * 1024);
});

test("a few anchors are accepted, and a recursive one affects only its document", () => {
  assert.deepEqual(titles("kind: A\nmetadata: &m {name: a}\nspec: {template: {metadata: *m}}\n"), ["A a"]);
  const { objects } = parseYamlFile("a.yaml", `kind: A\nmetadata: {name: a}\nloop: &l [*l]\n---\n${GOOD}`);
  assert.ok(objects.some(({ raw }) => raw.kind === "Good"));
});

test("keys with a meaning in JavaScript are treated as ordinary keys", () => {
  const [object] = parseYamlFile("a.yaml", "kind: A\nmetadata: {name: a}\n__proto__: {kind: B}\n").objects;
  assert.equal(object?.raw.kind, "A");
  assert.equal(Object.getPrototypeOf(object?.raw), Object.prototype);
  assert.equal(({} as { kind?: string }).kind, undefined);
});

test("a place names the file, the line, the object and the path", () => {
  const text = `# a comment
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations:
    switchback.dev/ignore: "yes"
spec:
  rules:
    - {}
    - host: a.example.com
`;
  const [object] = parseYamlFile("web.yaml", text).objects;
  const places: ReadonlyArray<readonly [path: ReadonlyArray<string | number>, place: string]> = [
    [["spec", "rules", 1, "host"], "web.yaml:11: Ingress shop/web: spec.rules[1].host"],
    [
      ["metadata", "annotations", "switchback.dev/ignore"],
      'web.yaml:7: Ingress shop/web: metadata.annotations["switchback.dev/ignore"]',
    ],
    [["metadata", "labels", "missing"], "web.yaml:4: Ingress shop/web: metadata.labels.missing"],
    [["spec", "rules", 7, "host"], "web.yaml:10: Ingress shop/web: spec.rules[7].host"],
  ];
  for (const [path, place] of places) assert.equal(object?.place(path), place);
});

test("an item of a List is reported with its own line", () => {
  const text = "kind: List\nitems:\n  - kind: A\n    metadata: {name: a}\n  - kind: B\n    metadata:\n      name: b\n";
  const [, second] = parseYamlFile("l.yaml", text).objects;
  assert.equal(second?.place(["metadata", "name"]), "l.yaml:7: B b: metadata.name");
});

test("property: no text makes the reader throw, and every problem has a line", () => {
  const lines = fc.constantFrom(
    "kind: A",
    "metadata: {name: a}",
    "metadata:",
    "  name: b",
    "---",
    "- x",
    "a: &x [*x]",
    "b: *x",
    "}",
    "? [a]",
    "!!map",
    "%YAML 9",
    "...",
    "\t",
    "kind: List",
    "items:",
    "  - kind: A",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.array(lines).map((all) => all.join("\n")),
        anyText(),
      ),
      (text) => {
        for (const { place } of parseYamlFile("a.yaml", text).problems) assert.match(place, /^a\.yaml:[1-9]\d*$/);
      },
    ),
    { numRuns: 1_000 },
  );
});
