import { dirname, normalize } from "node:path";
import type { AnyNode } from "acorn";
import { resolveImport } from "#test/import-names.ts";
import { parseSource, walk } from "./syntax.ts";

/** For each file, the files that it imports or names. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Builds the graph. A file leads to the files that it imports, statically or dynamically. It also leads to each file
 * of `sources` that a text names, relative to its folder or the root, such as scripts of child processes and worker
 * threads. Type-only imports do not count: they do not exist at run time.
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
    // Assumes .ts if the extension is known only at run time.
    return [
      ...quasis.flatMap((text) => text.match(FILE_NAME) ?? []),
      ...(quasis.length > 1 ? [`${quasis[0]}.ts`] : []),
    ];
  }
  if (node.type !== "CallExpression") return [];
  // Example: join(ROOT, "cli", "main.ts")
  const parts = node.arguments.flatMap((part) =>
    part.type === "Literal" && typeof part.value === "string" ? [part.value] : [],
  );
  return parts.length > 1 && parts.at(-1)?.endsWith(".ts") ? [parts.join("/")] : [];
}

/** The tests that reach `file`: its own test first, then the nearest ones. Each level is sorted by name. */
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

/** All files that `file` leads to, including itself, sorted by name. */
export function reachedFrom(graph: Graph, file: string): string[] {
  const seen = new Set([file]);
  // The loop also visits the files that it adds to the set.
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
