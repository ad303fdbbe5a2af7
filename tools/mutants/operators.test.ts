import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, isValid, mutantsOf } from "./mutant.ts";
import { OPERATORS } from "./operators.ts";

function textsOf(source: string, operator?: string): string[] {
  return mutantsOf("a.ts", source)
    .filter((mutant) => operator === undefined || mutant.operator === operator)
    .map((mutant) => apply(source, mutant));
}

for (const { name, example } of OPERATORS) {
  test(`${name} changes its example as documented`, () => {
    const [original, mutated] = example;
    assert.ok(textsOf(original, name).includes(mutated), textsOf(original, name).join("\n"));
  });
}

const CASES: [operator: string, source: string, mutated: string[]][] = [
  ["ConditionalExpression", "while (a) b();", ["while (false) b();"]],
  ["ConditionNegation", "for (;a;) b();", []],
  ["EqualityOperator", "(a as A<B>) < b;", ["(a as A<B>) <= b;", "(a as A<B>) >= b;"]],
  ["LogicalOperator", "a && (b /* && */ && c);", ["a || (b /* && */ && c);", "a && (b /* && */ || c);"]],
  ["ArithmeticOperator", 'a + "b";', []],
  ["ArrowFunction", "f(() => ({}));", ["f(() => undefined);"]],
  ["BlockStatement", "class A { constructor() { a(); } }", []],
  ["StringLiteral", 'import a from "b"; export * from "c"; const d = { "e-f": 1 };', []],
  ["StringLiteral", 'throw new Error("a"); log.info({ b }, "c"); const d = { help: "e" };', []],
  ["StringLiteral", 'log.info({ b: f(() => g("c")) });', ['log.info({ b: f(() => g("")) });']],
  ["StringLiteral", `f("the pod is left alone", \`of \${a} and of others\`);`, []],
  ["StringLiteral", `f(\`\${ip} \${name} b\`);`, ['f("");']],
  ["SpreadRemoval", "f({ ...a });", ["f({ ...{} });"]],
  ["NumericLiteral", "const a: 1 | 2 = 2n;", ["const a: 1 | 2 = 3n;"]],
];
for (const [operator, source, mutated] of CASES) {
  test(`${operator} of ${source}`, () => assert.deepEqual(textsOf(source, operator), mutated));
}

const SWAPS: [operator: string, original: string, ...mutated: string[]][] = [
  ["EqualityOperator", "a < b", "a <= b", "a >= b"],
  ["EqualityOperator", "a <= b", "a < b", "a > b"],
  ["EqualityOperator", "a > b", "a >= b", "a <= b"],
  ["EqualityOperator", "a >= b", "a > b", "a < b"],
  ["EqualityOperator", "a === b", "a !== b"],
  ["EqualityOperator", "a !== b", "a === b"],
  ["EqualityOperator", "a == b", "a != b"],
  ["EqualityOperator", "a != b", "a == b"],
  ["LogicalOperator", "a || b", "a && b"],
  ["LogicalOperator", "a ?? b"],
  ["NullishCoalescing", "a ?? b", "(a)", "(b)"],
  ["ArithmeticOperator", "a - b", "a + b"],
  ["ArithmeticOperator", "a * b", "a / b"],
  ["ArithmeticOperator", "a / b", "a * b"],
  ["ArithmeticOperator", "a % b", "a * b"],
  ["AssignmentOperator", "a -= b", "a += b"],
  ["AssignmentOperator", "a *= b", "a /= b"],
  ["AssignmentOperator", "a /= b", "a *= b"],
  ["AssignmentOperator", "a %= b", "a *= b"],
  ["AssignmentOperator", "a <<= b", "a >>= b"],
  ["AssignmentOperator", "a >>= b", "a <<= b"],
  ["AssignmentOperator", "a &= b", "a |= b"],
  ["AssignmentOperator", "a |= b", "a &= b"],
  ["AssignmentOperator", "a &&= b", "a ||= b"],
  ["AssignmentOperator", "a ||= b", "a &&= b"],
  ["AssignmentOperator", "a ??= b", "a &&= b"],
  ["AssignmentOperator", "a = b"],
  ["UpdateOperator", "--a", "++a"],
  ["UnaryOperator", "+a", "-a"],
  ["UnaryOperator", "~a"],
  ["BooleanLiteral", "!a", "(a)"],
  ["BooleanLiteral", "f(false)", "f(true)"],
  ["StringLiteral", 'f("")', 'f("mutated")'],
  ["Regex", "f(/a^b$c/, /^/, /\\$/)"],
  ["Regex", "f(/^a$/)", "f(/a$/)", "f(/^a/)"],
  ...["some every", "min max", "startsWith endsWith", "toLowerCase toUpperCase", "trimStart trimEnd"].flatMap(
    (pair) => {
      const [one, other] = pair.split(" ");
      return [
        ["MethodExpression", `a.${one}(b)`, `a.${other}(b)`],
        ["MethodExpression", `a.${other}(b)`, `a.${one}(b)`],
      ] as [string, string, string][];
    },
  ),
  ...["charAt", "filter", "reverse", "toReversed", "slice", "sort", "toSorted", "substring", "trim"].map(
    (name): [string, string, string] => ["MethodExpression", `a.${name}(b)`, "(a)"],
  ),
  ["MethodExpression", "a.map(b); super.slice(b); a[slice](b)"],
];
for (const [operator, original, ...mutated] of SWAPS) {
  test(`${operator} of ${original}`, () => {
    const [open, close] = original.includes("super") ? ["class A { static { ", "; } }"] : ["", ";"];
    const texts = mutated.map((text) => `${open}${text}${close}`);
    assert.deepEqual(textsOf(`${open}${original}${close}`, operator), texts);
  });
}

test("a text that two operators generate counts once", () => {
  const texts = textsOf("if (!a) b();");
  assert.equal(new Set(texts).size, texts.length);
});

test("a mutant that does not parse is not valid", () => {
  const source = "const a = b;";
  assert.equal(isValid(source, { start: 10, end: 11, text: "c" }), true);
  assert.equal(isValid(source, { start: 10, end: 11, text: "" }), false);
});
