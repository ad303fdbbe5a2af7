import { formatJson } from "./format.ts";
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
