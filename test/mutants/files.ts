import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..", "..");
/** What runs leave for later ones. */
export const CACHE = join(ROOT, "node_modules", ".cache", "mutants");

/** The working tree's files that git tracks or would track, from the root. */
export function treeFiles(): string[] {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const listed = execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).split("\0");
  return [...new Set(listed)].filter((file) => file !== "" && existsSync(join(ROOT, file))).sort();
}

export function head(): string {
  return execFileSync("git", ["rev-parse", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim();
}

/** Path -> text of every TypeScript file. */
export function readSources(files: string[]): Map<string, string> {
  return new Map(
    files.filter((file) => file.endsWith(".ts")).map((file) => [file, readFileSync(join(ROOT, file), "utf8")]),
  );
}

/** Stands for everything but TypeScript that a test may depend on. */
export function hashOfOthers(files: string[]): string {
  const hash = createHash("sha256").update(process.version);
  for (const file of files.filter((one) => !one.endsWith(".ts"))) {
    hash.update(`\0${file}\0`).update(readFileSync(join(ROOT, file)));
  }
  return hash.digest("hex");
}

const AROUND = /^(test|bench|examples|manifests)\/|\/conformance\//;

export function isProduction(file: string): boolean {
  return file.endsWith(".ts") && !file.endsWith(".test.ts") && !AROUND.test(file);
}

/** Those of `test/` are about the folder itself, or need a cluster. */
export function isUnitTest(file: string): boolean {
  return file.endsWith(".test.ts") && !file.startsWith("test/");
}
