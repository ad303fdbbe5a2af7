import type { AnyNode } from "acorn";
import { contains } from "./syntax.ts";

/** Calls with texts for people: of a log, a schema or a command. */
const PROSE_CALLS = /^(trace|debug|info|warn|error|fatal|log|describe|description|option|argument)$/;
/** Properties with such a text: a metric's help, an error's message. */
const PROSE_KEYS = /^(help|description|message)$/;

/** Whether a literal is a module name, a directive, or a name in an import or export. */
export function isSpecifier(node: AnyNode, [parent]: AnyNode[]): boolean {
  if (parent === undefined) return false;
  if ("source" in parent && parent.source === node) return true;
  if (parent.type === "ExpressionStatement" && "directive" in parent) return true;
  return "imported" in parent || "exported" in parent;
}

/** Three words in a row count as a sentence. */
const SENTENCE = /[a-z]{2,},? [a-z]+,? [a-z]+/i;

/**
 * Whether a literal is a text for people, which tests rightly do not repeat. Such a text has three words in a row, is
 * thrown, is an argument of `new SomeError()` or of a call in PROSE_CALLS, or is the value of a property in
 * PROSE_KEYS. The search goes outwards up to the next function.
 */
export function isProse(node: AnyNode, ancestors: AnyNode[]): boolean {
  if (SENTENCE.test(textOf(node))) return true;
  for (const around of ancestors) {
    if (/Function/.test(around.type)) return false;
    if (around.type === "ThrowStatement") return true;
    if (around.type === "Property" && PROSE_KEYS.test(nameOf(around.key)) && contains(around.value, node)) return true;
    if (around.type === "NewExpression" && /Error$/.test(nameOf(around.callee))) return true;
    if (around.type === "CallExpression" && PROSE_CALLS.test(nameOf(around.callee))) return true;
  }
  return false;
}

/** Name of the called function: `error` for `error()` and `log.error()`. */
function nameOf(node: AnyNode): string {
  if (node.type === "Identifier") return node.name;
  return node.type === "MemberExpression" ? nameOf(node.property) : "";
}

function textOf(node: AnyNode): string {
  if (node.type === "Literal") return String(node.value);
  return node.type === "TemplateLiteral" ? node.quasis.map(({ value }) => value.raw).join("0") : "";
}
