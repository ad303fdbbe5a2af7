import { configJsonSchema } from "#lib/config/json-schema.ts";
import { formatJson } from "./format.ts";
import type { Generator } from "./generator.ts";

const FILE = "lib/config/plain-schema.json";

/** The configuration's JSON Schema for lib/config/plain.ts: without descriptions. */
export const plainSchemaFile: Generator = {
  name: "plain-schema",
  file: FILE,
  render: async () => {
    const text = JSON.stringify(configJsonSchema(), (key, value) => (key === "description" ? undefined : value));
    return formatJson(JSON.parse(text), FILE);
  },
};
