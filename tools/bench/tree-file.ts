import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "#lib/config/schema.ts";

/**
 * Path of a file in another checkout (`--beside`), under its current path or an earlier one. Throws if no path
 * exists.
 */
export function treeFile(tree: string, path: string, ...earlierPaths: readonly string[]): string {
  const paths = [path, ...earlierPaths];
  const found = paths.map((name) => join(tree, name)).find(existsSync);
  if (found === undefined) throw new Error(`${tree} has none of ${paths.join(", ")}`);
  return found;
}

/**
 * Parses a configuration with another checkout's code. In earlier checkouts, the schema itself parses, or it has the
 * sections of extras.
 */
export async function parseConfigOf(tree: string, document: object): Promise<Config> {
  const file = treeFile(tree, "lib/config/parse.ts", "lib/config/schema.ts", "config/schema.ts");
  const { parseConfig, configSchema } = await import(file);
  if (parseConfig === undefined) return configSchema.parse(document);
  const parts = ["cli/extras.ts", "cli/added-by-extras.ts", "cli/extra-parts.ts", "cli/added.ts"]
    .map((name) => join(tree, name))
    .find(existsSync);
  return parseConfig(document, parts === undefined ? undefined : await (await import(parts)).configSections());
}
