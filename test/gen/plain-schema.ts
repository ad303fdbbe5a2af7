import { configJsonSchema } from "../../config/json-schema.ts";
import { formatJson } from "./format.ts";
import type { Generator } from "./generator.ts";

const FILE = "config/plain-schema.json";

/** The configuration's JSON Schema for config/plain.ts: without descriptions. */
export const plainSchemaFile: Generator = {
  name: "plain-schema",
  file: FILE,
  render: async () => {
    const text = JSON.stringify(configJsonSchema(), (key, value) => (key === "description" ? undefined : value));
    return formatJson(JSON.parse(text), FILE);
  },
};
