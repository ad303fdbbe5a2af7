import { dirname, normalize } from "node:path";
import type { AnyNode } from "acorn";
import { resolveImport } from "#test/import-names.ts";
import { parseSource, walk } from "./syntax.ts";

/** File -> the files that it imports or names. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Which file leads to which: static and dynamic imports, and any text that names a file of `sources`, from its
 * folder or from the root: scripts of child processes and worker threads. Imports of types alone lead nowhere: they
 * are gone when the code runs.
 */
export function graphOf(sources: ReadonlyMap<string, string>): Graph {
  return new Map([...sources].map(([file, source]) => [file, edgesOf(file, source, sources)]));
}

function edgesOf(file: string, source: string, sources: ReadonlyMap<string, string>): Set<string> {
  const edges = new Set<string>();
  for (const [node] of walk(parseSource(source).root)) {
    for (const named of namedBy(node)) {
      for (const path of [resolveImport(dirname(file), named), normalize(named).replace(/^(\.\.\/)+/, "")]) {
        if (sources.has(path) && path !== file) edges.add(path);
      }
    }
  }
  return edges;
}

const FILE_NAME = /#?[\w./-]+\.ts\b/g;

function namedBy(node: AnyNode): string[] {
  if (node.type === "Literal" && typeof node.value === "string") return node.value.match(FILE_NAME) ?? [];
  if (node.type === "TemplateLiteral") {
    const quasis = node.quasis.map(({ value }) => value.cooked ?? "");
    // An extension that is only known when the code runs is .ts here.
    return [
      ...quasis.flatMap((text) => text.match(FILE_NAME) ?? []),
      ...(quasis.length > 1 ? [`${quasis[0]}.ts`] : []),
    ];
  }
  if (node.type !== "CallExpression") return [];
  // join(ROOT, "cli", "main.ts")
  const parts = node.arguments.flatMap((part) =>
    part.type === "Literal" && typeof part.value === "string" ? [part.value] : [],
  );
  return parts.length > 1 && parts.at(-1)?.endsWith(".ts") ? [parts.join("/")] : [];
}

/** The tests that reach `file`: its own first, then the nearest, each level by name. */
export function reaching(graph: Graph, file: string, isTest: (path: string) => boolean): string[] {
  const importers = invert(graph);
  const seen = new Set([file]);
  const own = file.replace(/\.ts$/, ".test.ts");
  const tests: string[] = [];
  for (let level = [file]; level.length > 0; ) {
    const next = level.flatMap((path) => [...(importers.get(path) ?? [])]).filter((path) => !seen.has(path));
    for (const path of next) seen.add(path);
    level = [...new Set(next)].sort();
    tests.push(...level.filter(isTest));
  }
  return tests.includes(own) ? [own, ...tests.filter((test) => test !== own)] : tests;
}

/** All files that `file` leads to, itself included, by name. */
export function reachedFrom(graph: Graph, file: string): string[] {
  const seen = new Set([file]);
  // A set that grows is walked to its new end.
  for (const path of seen) for (const next of graph.get(path) ?? []) seen.add(next);
  return [...seen].sort();
}

const inverted = new WeakMap<Graph, Map<string, string[]>>();

function invert(graph: Graph): Map<string, string[]> {
  let importers = inverted.get(graph);
  if (importers === undefined) {
    importers = new Map();
    for (const [from, edges] of graph) for (const to of edges) importers.set(to, [...(importers.get(to) ?? []), from]);
    inverted.set(graph, importers);
  }
  return importers;
}
