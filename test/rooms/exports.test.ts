import assert from "node:assert/strict";
import { test } from "node:test";
import { type NeedlessExport, needlessExports, needlessExportsOfTree } from "./exports.ts";

const EXPORT = "export function one(): number {\n  return 1;\n}\n";
const UNUSED: NeedlessExport = { file: "kube/a.ts", name: "one", why: "unused" };
const TESTS_ONLY: NeedlessExport = { ...UNUSED, why: "tests-only" };

const templateImport = (folder: string) => `const { one } = await import(\`${folder}/\${name}.ts\`);\n`;

const CASES: ReadonlyArray<readonly [what: string, files: Record<string, string>, found: readonly NeedlessExport[]]> = [
  ["imported by nobody", {}, [UNUSED]],
  ["used in its own file alone", { "kube/a.ts": `${EXPORT}one();\n` }, [UNUSED]],
  ["mentioned without an import", { "kube/b.ts": 'import "./a.ts";\none();\n' }, [UNUSED]],
  ["imported from another file of that name", { "kube/b.ts": 'import { one } from "../certs/a.ts";\n' }, [UNUSED]],
  ["imported under another name only", { "kube/b.ts": 'import { two as one } from "./a.ts";\n' }, [UNUSED]],
  ["imported by a test", { "kube/a.test.ts": 'import { one } from "./a.ts";\n' }, [TESTS_ONLY]],
  ["imported by a fake", { "test/fakes/a.ts": 'import { one } from "../../kube/a.ts";\n' }, [TESTS_ONLY]],
  [
    "imported by a test, and used in its own file",
    { "kube/a.ts": `${EXPORT}one();\n`, "kube/a.test.ts": 'import { one } from "./a.ts";\n' },
    [],
  ],
  ["imported by name", { "certs/b.ts": 'import { two, one } from "../kube/a.ts";\n' }, []],
  ["imported on lines of their own", { "certs/b.ts": 'import {\n  two,\n  one,\n} from "../kube/a.ts";\n' }, []],
  ["imported as a type", { "certs/b.ts": 'import { two, type one } from "../kube/a.ts";\n' }, []],
  ["imported and renamed", { "certs/b.ts": 'import { one as two } from "../kube/a.ts";\n' }, []],
  ["exported further", { "certs/b.ts": 'export { one } from "../kube/a.ts";\n' }, []],
  ["used by `import * as`", { "certs/b.ts": 'import * as a from "../kube/a.ts";\na.one();\n' }, []],
  ["not used by `import * as`", { "certs/b.ts": 'import * as a from "../kube/a.ts";\na.two();\n' }, [UNUSED]],
  ["used by `import()`", { "certs/b.ts": 'const { one } = await import("../kube/a.ts");\n' }, []],
  ["not used by `import()`", { "certs/b.ts": 'const { ones } = await import("../kube/a.ts");\n' }, [UNUSED]],
  ["used by an import of a file that is chosen when the code runs", { "cli/b.ts": templateImport("../kube") }, []],
  ["not in the folder of the file that is chosen", { "cli/b.ts": templateImport("../certs") }, [UNUSED]],
  ["used by a child process", { "kube/b.ts": 'const path = resolve("./a.ts");\nrun(path, "one");\n' }, []],
  ["used by a generator", { "tools/gen/b.ts": 'import { one } from "../../kube/a.ts";\n' }, []],
  ["of a test", { "kube/a.ts": "", "kube/a.test.ts": EXPORT }, []],
];
for (const [what, files, found] of CASES) {
  test(`an export ${what}: ${found[0]?.why ?? "needed"}`, () => {
    assert.deepEqual(needlessExports(new Map(Object.entries({ "kube/a.ts": EXPORT, ...files }))), found);
  });
}

test("every way to export a declaration is known", () => {
  const source = [
    "export async function a() {}",
    "export function* b() {}",
    "export class C {}",
    "export abstract class D {}",
    "export interface E {}",
    "export type F = number;",
    "export const g = 1;",
    "export let h = 1;",
    "export function i(one: string): void;",
    "export function i(one: number): void;",
    "const j = 1;",
  ].join("\n");
  const names = needlessExports(new Map([["kube/a.ts", source]])).map(({ name }) => name);
  assert.deepEqual(names, ["a", "b", "C", "D", "E", "F", "g", "h", "i"]);
});

test("every export of the product is imported by another file of it", () =>
  assert.deepEqual(needlessExportsOfTree(), []));
