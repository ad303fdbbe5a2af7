import { globSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");

/** What a file of the extras exports, in each extra that has one: `integration/attacks.ts`. */
export async function extraModules<T>(file: string): Promise<T[]> {
  const paths = globSync(`extras/*/${file}`, { cwd: ROOT }).sort();
  return await Promise.all(paths.map(async (path) => (await import(join(ROOT, path))) as T));
}
