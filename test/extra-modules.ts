import { globSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");

/** The exports of one file, such as `integration/attacks.ts`, in each extra that has this file. */
export async function extraModules<T>(file: string): Promise<T[]> {
  const paths = globSync(`extras/*/${file}`, { cwd: ROOT }).sort();
  return await Promise.all(paths.map(async (path) => (await import(join(ROOT, path))) as T));
}
