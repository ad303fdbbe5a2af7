import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { resolveImport } from "../import-names.ts";

// docs/architecture.md assigns each room to a floor. A room imports only from rooms on lower floors.

const ROOT = join(import.meta.dirname, "..", "..");
const PAGE = readFileSync(join(ROOT, "docs", "architecture.md"), "utf8");
const FLOORS = new Map(
  [...PAGE.matchAll(/^\| (\d+) \| `([a-z/-]+)\/` \|/gm)].map(([, floor, room = ""]) => [room, Number(floor)]),
);

type Import = readonly [from: string, to: string];

/** Production code: neither a test nor a helper of tests, nor a tool that only writes or changes code. */
const isProduction = (file: string) =>
  !/\.test\.ts$|^test\/|^tools\/(?:gen|mutants|checks)\/|\/(?:conformance|fakes|integration|e2e)\//.test(file);
const FILES = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "--deduplicate", "*.ts", "*.tsx"], {
  cwd: ROOT,
  encoding: "utf8",
})
  .trim()
  .split("\n")
  .filter(isProduction);

function importsOf(file: string, source: string): Import[] {
  const specifiers = [...source.matchAll(/(?:\bfrom |^import |\bimport\(\s*)"(?<to>[.#][^"]+)"/gm)];
  return specifiers.map(({ groups }) => [file, resolveImport(dirname(file), groups?.to ?? "")]);
}

/**
 * The innermost room of a file. With `outer`, the outermost room that contains the file. A folder that no table names
 * is its own room, without a floor.
 */
function roomOf(file: string, outer = false): string {
  const rooms = [...FLOORS.keys()].filter((room) => file.startsWith(`${room}/`)).sort();
  return rooms.at(outer ? 0 : -1) ?? dirname(file);
}

function faultsOf(imports: readonly Import[]): string[] {
  return imports.filter((one) => !isAllowed(one)).map(([from, to]) => `${from} -> ${to}`);
}

function isAllowed([from, to]: Import): boolean {
  // The benches start the clusters and fakes of the tests. The image has neither.
  if (to.startsWith("test/")) return from.startsWith("tools/");
  if (roomOf(from) === roomOf(to)) return FLOORS.has(roomOf(from));
  const isInside = roomOf(from, true) === roomOf(to, true);
  const [mine, theirs] = [from, to].map((file) => FLOORS.get(roomOf(file, !isInside))) as [number?, number?];
  return mine !== undefined && theirs !== undefined && mine > theirs;
}

/** Folders that import each other in a circle, and those between circles. A folder and its subfolders count as one. */
function foldersInCircles(imports: readonly Import[]): string[] {
  const targets = new Map<string, Set<string>>();
  for (const [from, to] of imports.map((files) => files.map((file) => `${dirname(file)}/`) as [string, string])) {
    if (from.startsWith(to) || to.startsWith(from)) continue;
    targets.set(from, (targets.get(from) ?? new Set()).add(to));
  }
  // Repeatedly removes folders that import no remaining folder, until only circles are left.
  for (let size = -1; size !== targets.size; ) {
    size = targets.size;
    for (const [folder, others] of targets)
      if (!others.values().some((other) => targets.has(other))) targets.delete(folder);
  }
  return [...targets.keys()].sort();
}

const IMPORTS = FILES.flatMap((file) => importsOf(file, readFileSync(join(ROOT, file), "utf8")));

test("every folder with production code is in a table, and every folder in the tables has code", () => {
  assert.deepEqual([...new Set(FILES.map((file) => roomOf(file)))].sort(), [...FLOORS.keys()].sort());
});

test("every import between rooms goes to a lower floor", () => {
  assert.ok(IMPORTS.length > 1000, `${IMPORTS.length} imports`);
  assert.deepEqual(faultsOf(IMPORTS), []);
});

test("no folders import each other in a circle", () => assert.deepEqual(foldersInCircles(IMPORTS), []));

for (const [from, specifier] of [
  ["lib/kube/a.ts", "../../certs/b.ts"],
  ["webhook/a.ts", "#controller/sources/b.ts"],
  ["extras/agent/a.ts", "../../attic/b.ts"],
  ["lib/kube/a.ts", "#test/b.ts"],
  ["controller/rollout/a.ts", "../b.ts"],
] as const) {
  test(`${from} may not import ${specifier}`, () => {
    for (const text of [`import type { B } from "${specifier}";`, `const { b } = await import("${specifier}");`])
      assert.equal(faultsOf(importsOf(from, text)).length, 1, text);
  });
}

test("a circle of folders is found; a folder and its subfolders are no circle", () => {
  const away: Import = ["a/y/3.ts", "a/z/4.ts"];
  assert.deepEqual(foldersInCircles([["a/x/1.ts", "a/y/2.ts"], ["a/y/3.ts", "a/x/4.ts"], away]), ["a/x/", "a/y/"]);
  assert.deepEqual(foldersInCircles([["a/1.ts", "a/y/2.ts"], ["a/y/3.ts", "a/4.ts"], away]), []);
});
