import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { apply, mutantsOf } from "./main.ts";

const CASES: readonly (readonly [operator: string, source: string, ...mutated: string[]])[] = [
  ["ConditionalExpression", "if (a) b();", "if (true) b();", "if (false) b();"],
  ["ConditionalExpression", "while (a) b();", "while (false) b();"],
  ["ConditionNegation", "if (a) b();", "if (!(a)) b();"],
  ["ConditionNegation", "for (;a;) b();"],
  ["EqualityOperator", "(a as A<B>) < b;", "(a as A<B>) <= b;", "(a as A<B>) >= b;"],
  ["LogicalOperator", "a && (b /* && */ && c);", "a || (b /* && */ && c);", "a && (b /* && */ || c);"],
  ["NullishCoalescing", "a ?? b;", "(a);", "(b);"],
  ["ArithmeticOperator", "a - b;", "a + b;"],
  ["ArithmeticOperator", 'a + "b";'],
  ["AssignmentOperator", "a += b;", "a -= b;"],
  ["UpdateOperator", "--a;", "++a;"],
  ["UnaryOperator", "-a;", "+a;"],
  ["BooleanLiteral", "f(!a, true);", "f((a), true);", "f(!a, false);"],
  ["NumericLiteral", "const a: 1 | 2 = 2n;", "const a: 1 | 2 = 3n;"],
  ["StringLiteral", 'f("", "a");', 'f("mutated", "a");', 'f("", "");'],
  ["StringLiteral", 'import a from "b"; export * from "c"; const d = { "e-f": 1 };'],
  ["StringLiteral", 'throw new Error("a"); log.info({ b }, "c"); const d = { help: "e" };'],
  ["StringLiteral", 'log.info({ b: f(() => g("c")) });', 'log.info({ b: f(() => g("")) });'],
  ["StringLiteral", `f("the pod is left alone", \`of \${a} and of others\`);`],
  ["Regex", "f(/^a$/u);", "f(/a$/u);", "f(/^a/u);"],
  ["BlockStatement", "class A { constructor() { a(); } b() { c(); } }", "class A { constructor() { a(); } b() {} }"],
  ["ArrowFunction", "f(() => ({}));", "f(() => undefined);"],
  ["ArrayDeclaration", "f([a]);", "f([]);"],
  ["ObjectLiteral", "f({ a });", "f({});"],
  ["MethodExpression", "a.some(b).trim();", "(a.some(b));", "a.every(b).trim();"],
  ["CallRemoval", "await a();", ";"],
  ["ReturnRemoval", "function f() { return a; }", "function f() { return; }"],
  ["ThrowRemoval", "throw a;", ";"],
  ["SpreadRemoval", "f({ ...a }, ...b);", "f({ ...{} }, ...b);", "f({ ...a }, ...[]);"],
];
for (const [operator, source, ...mutated] of CASES) {
  test(`${operator} of ${source}`, () => {
    const mutants = mutantsOf("a.ts", source).filter((mutant) => mutant.operator === operator);
    assert.deepEqual(
      mutants.map((mutant) => apply(source, mutant)),
      mutated,
    );
  });
}

const folder = mkdtempSync(join(tmpdir(), "mutants-test-"));
after(() => rmSync(folder, { recursive: true }));

test("a run kills, survives or does not cover each mutant, records all killers, and goes on where it ended", () => {
  const testOf = (body: string) =>
    `import { test } from "node:test"; import assert from "node:assert"; import { f } from "./x.ts";\n` +
    `test("of f", () => { ${body} });\n`;
  const files = {
    "lib/x.ts": "export const f = (a: number) => a < 3 ? 1 : 2;\nexport const g = () => { throw 7; };\n",
    "lib/x.test.ts": testOf("assert.equal(f(1), 1);"),
    "lib/y.test.ts": testOf("assert.equal(f(0), 1);"),
    "lib/z.test.ts": `import "node:test";\n`,
  };
  const tree = join(folder, "tree");
  mkdirSync(join(tree, "lib"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(tree, name), text);
  const git = (...args: string[]) => execFileSync("git", args, { cwd: tree, stdio: "pipe" });
  git("init", "--quiet");
  git("add", "--all");
  git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "x");
  const run = (...args: string[]) => {
    const { NODE_TEST_CONTEXT: _, ...rest } = process.env;
    const env = { ...rest, XDG_CACHE_HOME: folder };
    const command = ["--no-warnings", join(import.meta.dirname, "main.ts"), ...args];
    return execFileSync("sh", ["-c", '"$0" "$@" 2>&1', process.execPath, ...command], {
      cwd: tree,
      env,
      encoding: "utf8",
    });
  };
  assert.doesNotMatch(run("--all-killers", "--nearest", "1"), /killed: .*y\.test/);
  rmSync(join(folder, "switchback"), { recursive: true });
  const first = run("--all-killers");
  assert.match(
    first,
    /killed: lib\/x\.ts:1 EqualityOperator: < -> >= lib\/x\.test\.ts: not ok .*lib\/y\.test\.ts: not ok/,
  );
  assert.match(first, /^survived: lib\/x\.ts:1 EqualityOperator: < -> <= $/m);
  assert.match(first, /^not covered: lib\/x\.ts:2 NumericLiteral: 7 -> 8 $/m);
  const [, rate] = /^lib +(\d+\/\d+) /m.exec(first) ?? [];
  const again = run("--all-killers");
  assert.match(again, /mutants, 0 to judge/);
  assert.equal(/^lib +(\d+\/\d+) /m.exec(again)?.[1], rate);
});
