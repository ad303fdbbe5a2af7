import { stripTypeScriptTypes } from "node:module";
import { type AnyNode, type Node, parse, type Token } from "acorn";

/**
 * The syntax tree of a TypeScript file. Types are replaced by blanks of the same length, so every offset is also an
 * offset into `source`.
 */
export interface Tree {
  source: string;
  root: AnyNode;
  tokens: Token[];
}

/** Parses a file. Throws SyntaxError if `source` is not TypeScript that Node can run. */
export function parseSource(source: string): Tree {
  const tokens: Token[] = [];
  const stripped = stripTypeScriptTypes(source);
  if (stripped.length !== source.length) throw new Error("stripping the types moved the code");
  const root = parse(stripped, { ecmaVersion: "latest", sourceType: "module", allowHashBang: true, onToken: tokens });
  return { source, root, tokens };
}

/** Every node with its ancestors, nearest first; parents come before their children. */
export function* walk(node: AnyNode, ancestors: AnyNode[] = []): Generator<[node: AnyNode, ancestors: AnyNode[]]> {
  yield [node, ancestors];
  const below = [node, ...ancestors];
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) yield* walk(child, below);
  }
}

/** The line number of an offset, starting at 1. */
export function lineOf(source: string, offset: number): number {
  return source.slice(0, offset).split("\n").length;
}

export function contains(outer: Node | null | undefined, inner: Node): boolean {
  return outer !== null && outer !== undefined && outer.start <= inner.start && inner.end <= outer.end;
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}
