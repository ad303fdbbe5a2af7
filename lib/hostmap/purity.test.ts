import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";

const FOLDER = import.meta.dirname;
const FILES = globSync("**/*.ts", { cwd: FOLDER }).filter((file) => !file.endsWith(".test.ts"));

/** Matches everything after `from`, and dynamic imports and `require`. */
const IMPORT = /\bfrom\s*["']([^"']+)["']|\bimport\s*\(?\s*["']([^"']+)["']|\brequire\s*\(/g;
/** Matches code whose result depends on time, environment or earlier calls. */
const IMPURE =
  /\b(Date|performance|process|console|setTimeout|setInterval|setImmediate|queueMicrotask|fetch|globalThis|localStorage|crypto|Math\.random|import\.meta|Intl|toLocale\w*|localeCompare)\b/;

/** Returns code without comments and strings. A comment may contain "process". */
function withoutComments(source: string): string {
  return source
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/^\s*\/\/.*$/gm, "")
    .replace(/"(?:[^"\\\n]|\\.)*"/g, '""');
}

test("the list of files is not empty", () => {
  assert.ok(FILES.includes("plan.ts") && FILES.length > 10, FILES.join());
});

for (const file of FILES) {
  const source = readFileSync(`${FOLDER}/${file}`, "utf8");

  test(`hostmap/${file} imports only files of its folder`, () => {
    for (const [statement, from, direct] of source.matchAll(IMPORT)) {
      const specifier = from ?? direct;
      if (file === "hash.ts" && specifier === "node:crypto") continue;
      assert.match(specifier ?? "", /^\.\/[a-z-]+\.ts$/, statement);
    }
  });

  test(`hostmap/${file} uses no clock, randomness, environment or output`, () => {
    assert.doesNotMatch(withoutComments(source), IMPURE);
  });
}
