import type { AnyNode, Expression, Node } from "acorn";
import { isProse, isSpecifier } from "./prose.ts";
import type { Tree } from "./syntax.ts";

/** A replacement of `source.slice(start, end)`. */
export interface Edit {
  start: number;
  end: number;
  text: string;
}

/** The view that an operator has of a node. */
interface Place {
  node: AnyNode;
  /** Ancestors of the node, nearest first. */
  ancestors: AnyNode[];
  tree: Tree;
}

export interface Operator {
  /** Stryker's name if Stryker has the mutator. */
  name: string;
  isStrykers: boolean;
  does: string;
  example: [original: string, mutated: string];
  edits: (place: Place) => Edit[];
}

/** All mutation operators. If two generate the same text of a file, the first one counts. */
export const OPERATORS: readonly Operator[] = [
  {
    name: "ConditionalExpression",
    isStrykers: true,
    does: "a condition becomes true or false (of a loop: false), a case loses its statements",
    example: ["if (a) b();", "if (false) b();"],
    edits: ({ node }) => {
      if (node.type === "SwitchCase" && node.consequent.length > 0) {
        return [{ start: node.consequent[0]!.start, end: node.consequent.at(-1)!.end, text: "" }];
      }
      const test = testOf(node);
      if (test === undefined) return [];
      return isLoop(node) ? [replace(test, "false")] : [replace(test, "true"), replace(test, "false")];
    },
  },
  {
    name: "ConditionNegation",
    isStrykers: false,
    does: "a condition is negated, not of a loop",
    example: ["if (a) b();", "if (!(a)) b();"],
    edits: ({ node, tree }) => {
      const test = isLoop(node) ? undefined : testOf(node);
      return test === undefined ? [] : [replace(test, `!(${textOf(tree, test)})`)];
    },
  },
  {
    name: "EqualityOperator",
    isStrykers: true,
    does: "a comparison is swapped for the one with or without equality, and for its opposite",
    example: ["a < b;", "a <= b;"],
    edits: (place) => swapOperator(place, "BinaryExpression", EQUALITY),
  },
  {
    name: "LogicalOperator",
    isStrykers: true,
    does: "&& and || are swapped",
    example: ["a && b;", "a || b;"],
    edits: (place) => swapOperator(place, "LogicalExpression", { "&&": ["||"], "||": ["&&"] }),
  },
  {
    name: "NullishCoalescing",
    isStrykers: false,
    does: "?? keeps its left or its right side only",
    example: ["a ?? b;", "(a);"],
    edits: ({ node, tree }) =>
      node.type === "LogicalExpression" && node.operator === "??"
        ? [node.left, node.right].map((side) => replace(node, `(${textOf(tree, side)})`))
        : [],
  },
  {
    name: "ArithmeticOperator",
    isStrykers: true,
    does: "+ and - are swapped, * and /, % becomes *; not where a string is put together",
    example: ["a + b;", "a - b;"],
    edits: (place) =>
      place.node.type === "BinaryExpression" && (isText(place.node.left) || isText(place.node.right))
        ? []
        : swapOperator(place, "BinaryExpression", ARITHMETIC),
  },
  {
    name: "AssignmentOperator",
    isStrykers: true,
    does: "an assignment that computes is swapped for its opposite",
    example: ["a += b;", "a -= b;"],
    edits: (place) => swapOperator(place, "AssignmentExpression", ASSIGNMENT),
  },
  {
    name: "UpdateOperator",
    isStrykers: true,
    does: "++ and -- are swapped",
    example: ["a++;", "a--;"],
    edits: (place) => swapOperator(place, "UpdateExpression", { "++": ["--"], "--": ["++"] }),
  },
  {
    name: "UnaryOperator",
    isStrykers: true,
    does: "the sign of an operand is swapped",
    example: ["-a;", "+a;"],
    edits: (place) => swapOperator(place, "UnaryExpression", { "-": ["+"], "+": ["-"] }),
  },
  {
    name: "BooleanLiteral",
    isStrykers: true,
    does: "true and false are swapped, a ! is dropped",
    example: ["f(true);", "f(false);"],
    edits: ({ node, tree }) => {
      if (node.type === "Literal" && typeof node.value === "boolean") return [replace(node, `${!node.value}`)];
      if (node.type !== "UnaryExpression" || node.operator !== "!") return [];
      return [replace(node, `(${textOf(tree, node.argument)})`)];
    },
  },
  {
    name: "NumericLiteral",
    isStrykers: false,
    does: "a number becomes the next one, so 0 becomes 1",
    example: ["f(59);", "f(60);"],
    edits: ({ node, ancestors }) => {
      if (node.type !== "Literal" || isKey(node, ancestors)) return [];
      if (typeof node.value === "number") return [replace(node, `${node.value + 1}`)];
      return typeof node.value === "bigint" ? [replace(node, `${node.value + 1n}n`)] : [];
    },
  },
  {
    name: "StringLiteral",
    isStrykers: true,
    does: "a text is emptied, an empty one filled; not module names, keys, directives and texts for people (prose.ts)",
    example: ['f("a");', 'f("");'],
    edits: ({ node, ancestors }) => {
      const isString = node.type === "Literal" && typeof node.value === "string";
      if (!isString && node.type !== "TemplateLiteral") return [];
      if (isKey(node, ancestors) || isSpecifier(node, ancestors) || isProse(node, ancestors)) return [];
      return [replace(node, isString && node.value === "" ? '"mutated"' : '""')];
    },
  },
  {
    name: "Regex",
    isStrykers: true,
    does: "a regular expression loses its ^ at the start or its $ at the end",
    example: ["f(/^a$/u);", "f(/^a/u);"],
    edits: ({ node }) => {
      if (node.type !== "Literal" || !node.regex) return [];
      const { pattern, flags } = node.regex;
      const looser = [
        ...(pattern.startsWith("^") && pattern !== "^" ? [pattern.slice(1)] : []),
        ...(/[^\\]\$$/.test(pattern) ? [pattern.slice(0, -1)] : []),
      ];
      return looser.map((text) => replace(node, `/${text}/${flags}`));
    },
  },
  {
    name: "BlockStatement",
    isStrykers: true,
    does: "a block is emptied",
    example: ["function f() { a(); }", "function f() {}"],
    edits: ({ node, ancestors }) =>
      node.type === "BlockStatement" && node.body.length > 0 && !isConstructor(ancestors) ? [replace(node, "{}")] : [],
  },
  {
    name: "ArrowFunction",
    isStrykers: true,
    does: "an arrow function's expression becomes undefined",
    example: ["f(() => a);", "f(() => undefined);"],
    edits: ({ node, tree }) =>
      node.type === "ArrowFunctionExpression" && node.expression && textOf(tree, node.body) !== "undefined"
        ? [{ start: openedBefore(tree, node.body), end: closedAfter(tree, node.body), text: "undefined" }]
        : [],
  },
  {
    name: "ArrayDeclaration",
    isStrykers: true,
    does: "an array literal is emptied",
    example: ["f([a]);", "f([]);"],
    edits: ({ node }) => (node.type === "ArrayExpression" && node.elements.length > 0 ? [replace(node, "[]")] : []),
  },
  {
    name: "ObjectLiteral",
    isStrykers: true,
    does: "an object literal is emptied",
    example: ["f({ a });", "f({});"],
    edits: ({ node }) => (node.type === "ObjectExpression" && node.properties.length > 0 ? [replace(node, "{}")] : []),
  },
  {
    name: "MethodExpression",
    isStrykers: true,
    does:
      "a method is swapped for its opposite (some, every; min, max; ...), or the call of one that only selects is " +
      "dropped",
    example: ["a.some(f);", "a.every(f);"],
    edits: ({ node, tree }) => {
      if (node.type !== "CallExpression" || node.callee.type !== "MemberExpression") return [];
      const { object, property, computed } = node.callee;
      if (computed || property.type !== "Identifier" || object.type === "Super") return [];
      const opposite = OPPOSITE_METHODS[property.name];
      if (opposite !== undefined) return [replace(property, opposite)];
      return DROPPED_METHODS.has(property.name) ? [replace(node, `(${textOf(tree, object)})`)] : [];
    },
  },
  {
    name: "CallRemoval",
    isStrykers: false,
    does: "a statement that is a call is removed",
    example: ["a();", ";"],
    edits: ({ node }) => {
      if (node.type !== "ExpressionStatement") return [];
      const { expression } = node;
      const call = expression.type === "AwaitExpression" ? expression.argument : expression;
      const isCall = call.type === "CallExpression" || call.type === "ChainExpression";
      return isCall ? [replace(node, ";")] : [];
    },
  },
  {
    name: "AwaitRemoval",
    isStrykers: false,
    does: "a statement no longer waits for its call",
    example: ["await a();", "a();"],
    edits: ({ node, tree }) =>
      node.type === "ExpressionStatement" && node.expression.type === "AwaitExpression"
        ? [replace(node.expression, textOf(tree, node.expression.argument))]
        : [],
  },
  {
    name: "ReturnRemoval",
    isStrykers: false,
    does: "return returns nothing",
    example: ["function f() { return a; }", "function f() { return; }"],
    edits: ({ node, tree }) =>
      node.type === "ReturnStatement" && node.argument && textOf(tree, node.argument) !== "undefined"
        ? [replace(node, "return;")]
        : [],
  },
  {
    name: "ThrowRemoval",
    isStrykers: false,
    does: "a throw is removed",
    example: ["throw a;", ";"],
    edits: ({ node }) => (node.type === "ThrowStatement" ? [replace(node, ";")] : []),
  },
  {
    name: "SpreadRemoval",
    isStrykers: false,
    does: "what is spread into a literal or a call is dropped",
    example: ["f([...a]);", "f([...[]]);"],
    edits: ({ node, ancestors: [parent] }) =>
      node.type === "SpreadElement" ? [replace(node, parent?.type === "ObjectExpression" ? "...{}" : "...[]")] : [],
  },
];

const EQUALITY: Record<string, string[]> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "===": ["!=="],
  "!==": ["==="],
  "==": ["!="],
  "!=": ["=="],
};
const ARITHMETIC: Record<string, string[]> = { "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"] };
const ASSIGNMENT: Record<string, string[]> = {
  "+=": ["-="],
  "-=": ["+="],
  "*=": ["/="],
  "/=": ["*="],
  "%=": ["*="],
  "<<=": [">>="],
  ">>=": ["<<="],
  "&=": ["|="],
  "|=": ["&="],
  "&&=": ["||="],
  "||=": ["&&="],
  "??=": ["&&="],
};
const OPPOSITE_METHODS: Partial<Record<string, string>> = {
  some: "every",
  every: "some",
  min: "max",
  max: "min",
  startsWith: "endsWith",
  endsWith: "startsWith",
  toLowerCase: "toUpperCase",
  toUpperCase: "toLowerCase",
  trimStart: "trimEnd",
  trimEnd: "trimStart",
};
const DROPPED_METHODS: ReadonlySet<string> = new Set([
  "charAt",
  "filter",
  "reverse",
  "toReversed",
  "slice",
  "sort",
  "toSorted",
  "substring",
  "trim",
]);

function replace({ start, end }: Node, text: string): Edit {
  return { start, end, text };
}

function textOf({ source }: Tree, { start, end }: Node): string {
  return source.slice(start, end);
}

function testOf(node: AnyNode): Expression | undefined {
  return "test" in node && node.type !== "SwitchCase" ? (node.test ?? undefined) : undefined;
}

function isLoop({ type }: AnyNode): boolean {
  return type === "ForStatement" || type === "WhileStatement" || type === "DoWhileStatement";
}

function isText(node: Node): boolean {
  return (
    node.type === "TemplateLiteral" || (node.type === "Literal" && "value" in node && typeof node.value === "string")
  );
}

function isKey(node: AnyNode, [parent]: AnyNode[]): boolean {
  return parent !== undefined && "key" in parent && parent.key === node && !("computed" in parent && parent.computed);
}

function isConstructor([fn, method]: AnyNode[]): boolean {
  return fn?.type === "FunctionExpression" && method?.type === "MethodDefinition" && method.kind === "constructor";
}

/** Replaces the node's operator: the first one after the left operand, or the one beside the only operand. */
function swapOperator({ node, tree }: Place, type: AnyNode["type"], swaps: Record<string, string[]>): Edit[] {
  if (node.type !== type || !("operator" in node)) return [];
  const from = "left" in node ? node.left.end : node.start;
  const { operator } = node;
  const token = tree.tokens.find(
    ({ start, end }) => start >= from && end <= node.end && tree.source.slice(start, end) === operator,
  );
  if (token === undefined) return [];
  return (swaps[operator] ?? []).map((text) => ({ start: token.start, end: token.end, text }));
}

/** Offset of the parenthesis that opens before a node, as in `() => ({})`; the node's start if there is none. */
function openedBefore({ source }: Tree, { start }: Node): number {
  return source.slice(0, start).trimEnd().endsWith("(") ? source.lastIndexOf("(", start) : start;
}

function closedAfter(tree: Tree, node: Node): number {
  return openedBefore(tree, node) === node.start ? node.end : tree.source.indexOf(")", node.end) + 1;
}
