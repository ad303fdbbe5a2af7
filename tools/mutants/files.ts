import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { kindOf } from "#test/files.ts";

export const ROOT = join(import.meta.dirname, "..", "..");
/** Folder with results that later runs reuse. */
export const CACHE = join(ROOT, "node_modules", ".cache", "mutants");

/** A file's content and mode at the time of reading. */
export interface Kept {
  content: Buffer;
  mode: number;
}

/**
 * All files that git tracks or would track, sorted by path from the root. Reads them at once, because a person may
 * continue to work in the tree.
 */
export function readTree(): Map<string, Kept> {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const listed = execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).split("\0");
  const files = [...new Set(listed)].filter((file) => file !== "" && existsSync(join(ROOT, file))).sort();
  return new Map(files.map((file) => [file, keep(join(ROOT, file))]));
}

function keep(path: string): Kept {
  return { content: readFileSync(path), mode: statSync(path).mode };
}

export function head(): string {
  return execFileSync("git", ["rev-parse", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim();
}

/** Path and text of every TypeScript file. */
export function sourcesOf(tree: ReadonlyMap<string, Kept>): Map<string, string> {
  const sources = [...tree].filter(([file]) => file.endsWith(".ts"));
  return new Map(sources.map(([file, { content }]) => [file, content.toString("utf8")]));
}

/** A hash of everything that a test may depend on, except TypeScript files. */
export function hashOfOthers(tree: ReadonlyMap<string, Kept>): string {
  const hash = createHash("sha256").update(process.version);
  for (const [file, { content }] of tree) if (!file.endsWith(".ts")) hash.update(`\0${file}\0`).update(content);
  return hash.digest("hex");
}

const AROUND = /^(test|tools\/release|examples|manifests)\/|\/(?:bench|conformance|integration|e2e)\//;

export function isProduction(file: string): boolean {
  return file.endsWith(".ts") && !file.endsWith(".test.ts") && !AROUND.test(file);
}

/**
 * Whether a file is a unit test for mutants. Tests in `test/` are about that folder, or need a cluster. Release tests
 * need packages in the tree itself, not behind a link.
 */
export function isUnitTest(file: string): boolean {
  return file.endsWith(".test.ts") && !/^(test|tools\/release)\//.test(file) && kindOf(file) === "unit";
}
