import * as z from "zod";
import { valuesSchema } from "#manifests/values.ts";
import { formatJson } from "./format.ts";
import type { Generator } from "./generator.ts";

const FILE = "manifests/chart/values.schema.json";

/** The chart's values.schema.json. Draft 7, because Helm before 3.18 knows no later one. */
export const valuesSchemaFile: Generator = {
  name: "values-schema",
  file: FILE,
  render: async () => formatJson(z.toJSONSchema(valuesSchema, { target: "draft-7", io: "input" }), FILE),
};
