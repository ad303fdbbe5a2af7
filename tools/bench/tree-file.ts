import { existsSync } from "node:fs";
import { join } from "node:path";

/**
 * Where another checkout (`--beside`) has a file: under today's path, or under the path it had before the folders `lib/`, `extras/` and
 * `tools/` existed. Throws if it has neither.
 */
export function treeFile(tree: string, path: string, earlierPath: string): string {
  const found = [path, earlierPath].map((name) => join(tree, name)).find(existsSync);
  if (found === undefined) throw new Error(`${tree} has neither ${path} nor ${earlierPath}`);
  return found;
}
