import assert from "node:assert/strict";
import { test } from "node:test";
import { graphOf, reachedFrom, reaching } from "./graph.ts";

const isTest = (file: string): boolean => file.endsWith(".test.ts");

function testsOf(file: string, files: Record<string, string>): string[] {
  return reaching(graphOf(new Map(Object.entries({ [file]: "", ...files }))), file, isTest);
}

test("the file's own test comes first, then the nearest ones", () => {
  const files = {
    "a/far.test.ts": 'import "../b/y.ts";',
    "a/near.test.ts": 'import { x } from "./x.ts";',
    "a/x.test.ts": 'import "./x.ts";',
    "b/y.ts": 'export * from "../a/x.ts";',
    "b/other.test.ts": 'import "./z.ts";',
    "b/z.ts": "",
  };
  assert.deepEqual(testsOf("a/x.ts", files), ["a/x.test.ts", "a/near.test.ts", "a/far.test.ts"]);
});

const WAYS: [how: string, source: string][] = [
  ["a dynamic import", 'await import("../a/x.ts");'],
  ["a URL", 'new URL("../a/x.ts", import.meta.url);'],
  ["a worker whose extension is not fixed", `new URL(\`../a/x\${extname(import.meta.url)}\`, import.meta.url);`],
  ["a path from the root", 'spawn("node", [join(ROOT, "a", "x.ts")]);'],
  ["a path from the root in one piece", 'spawn("node", [join(ROOT, "a/x.ts")]);'],
  ["a script in a text", `const script = \`import { x } from "../a/x.ts"; \${rest}\`;`],
];
for (const [how, source] of WAYS) {
  test(`a test reaches a file by ${how}`, () => {
    assert.deepEqual(testsOf("a/x.ts", { "b/y.test.ts": source }), ["b/y.test.ts"]);
  });
}

test("a test reaches a file by a name of package.json's imports", () => {
  const files = { "b/y.test.ts": 'import { x } from "#hostmap/x.ts";' };
  assert.deepEqual(testsOf("lib/hostmap/x.ts", files), ["b/y.test.ts"]);
});

test("a type-only import does not reach a file", () => {
  assert.deepEqual(testsOf("a/x.ts", { "b/y.test.ts": 'import type { X } from "../a/x.ts";' }), []);
});

test("a file reaches itself and everything that its imports lead to, even in cycles", () => {
  const files = {
    "a.ts": 'import "./b.ts";',
    "b.ts": 'import "./c.ts";',
    "c.ts": 'import "./a.ts";',
    "d.ts": 'import "./a.ts";',
  };
  assert.deepEqual(reachedFrom(graphOf(new Map(Object.entries(files))), "a.ts"), ["a.ts", "b.ts", "c.ts"]);
});
