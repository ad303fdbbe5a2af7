import { globSync } from "node:fs";
import { basename, join } from "node:path";

const ROOT = join(import.meta.dirname, "..");

export type TestKind = "unit" | "integration" | "e2e";

/**
 * The kind of the tests of a file, by its path. A file in a folder `integration` needs more than Node: Go, a browser,
 * Debian packages or root. A file in a folder `e2e` whose name begins with a number needs a whole node.
 */
export function kindOf(file: string): TestKind {
  if (/(?:^|\/)e2e\/\d[^/]*$/.test(file)) return "e2e";
  return /(?:^|\/)integration\//.test(file) ? "integration" : "unit";
}

/**
 * The test files of a kind whose path contains one of the filters; without filters, all of them. Files of `e2e` are
 * in the order of their numbers.
 */
export function testFiles(kind: TestKind, filters: readonly string[] = []): string[] {
  const files = globSync("**/*.test.ts", { cwd: ROOT, exclude: ["**/node_modules"] })
    .filter((file) => kindOf(file) === kind)
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
    .sort();
  if (kind !== "e2e") return files;
  return files.sort((one, other) => (basename(one) < basename(other) ? -1 : 1));
}

/** The exports of one file, such as `integration/attacks.ts`, in each extra that has this file. */
export async function extraModules<T>(file: string): Promise<T[]> {
  const paths = globSync(`extras/*/${file}`, { cwd: ROOT }).sort();
  return await Promise.all(paths.map(async (path) => (await import(join(ROOT, path))) as T));
}
