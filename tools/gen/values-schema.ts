import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import type { Generator } from "./generator.ts";
import { jsonSchemaOf } from "./json-schema.ts";
import { valuesSchema } from "./schemas.ts";

const FILE = "manifests/chart/values.schema.json";

/** The chart's values.schema.json. */
export const valuesSchemaFile: Generator = {
  name: "values-schema",
  file: FILE,
  render: async () => formatJson(jsonSchemaOf(valuesSchema), FILE),
};

/** JSON text as the repository's formatter writes it, so that a generated file passes the linter. */
function formatJson(value: unknown, file: string): string {
  const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
  const result = spawnSync(process.execPath, [biome, "format", `--stdin-file-path=${file}`], {
    input: JSON.stringify(value),
    encoding: "utf8",
  });
  if (result.status !== 0) throw new Error(`biome format ended with ${result.status}: ${result.stderr}`);
  return result.stdout;
}
