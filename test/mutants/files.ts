import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..", "..");

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

const AROUND = /^(test|bench|examples|manifests)\/|\/conformance\//;

export function isProduction(file: string): boolean {
  return file.endsWith(".ts") && !file.endsWith(".test.ts") && !AROUND.test(file);
}

/** Those of `test/` are about the folder itself, or need a cluster. */
export function isUnitTest(file: string): boolean {
  return file.endsWith(".test.ts") && !file.startsWith("test/");
}
