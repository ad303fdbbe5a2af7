import * as z from "zod";
import { configSchema } from "./schema.ts";
import { type JsonSchema, type Setting, settingsOf } from "./settings.ts";

/** Every setting, in the order of the schema. */
export function listSettings(): Setting[] {
  return settingsOf(configJsonSchema());
}

/** The keys that are accepted at a path of the file: `["targets", 0]` returns name, upstream, ... */
export function keysAt(path: readonly PropertyKey[]): string[] {
  let schema: JsonSchema | undefined = configJsonSchema();
  for (const step of path) schema = typeof step === "number" ? schema?.items : schema?.properties?.[String(step)];
  return Object.keys(schema?.properties ?? {});
}

/**
 * The configuration as JSON Schema, defaults included. `judged` marks what has a check that JSON Schema cannot express: only the schema
 * itself can accept it.
 */
export function configJsonSchema(): JsonSchema {
  // `output` includes the defaults of nested sections.
  return z.toJSONSchema(configSchema, {
    io: "output",
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      const checks = zodSchema === configSchema ? [] : (zodSchema._zod.def.checks ?? []);
      if (checks.some((check) => check._zod.def.check === "custom")) jsonSchema.judged = true;
    },
  }) as JsonSchema;
}
