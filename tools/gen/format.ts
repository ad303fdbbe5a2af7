import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

/** JSON text as the repository's formatter writes it, so that a generated file passes the linter. */
export function formatJson(value: unknown, file: string): string {
  const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
  const result = spawnSync(process.execPath, [biome, "format", `--stdin-file-path=${file}`], {
    input: JSON.stringify(value),
    encoding: "utf8",
  });
  if (result.status !== 0) throw new Error(`biome format ended with ${result.status}: ${result.stderr}`);
  return result.stdout;
}
