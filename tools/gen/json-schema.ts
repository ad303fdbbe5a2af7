import { type ConversionConfig, toJsonSchema } from "@valibot/to-json-schema";
import type { Schema } from "#lib/errors/validation.ts";
import type { JsonSchema } from "./tables.ts";

/** Checks that JSON Schema cannot express. */
const CHECKS = ["check", "raw_check", "finite"];

/** Keywords that come first, because people read them first. */
const FIRST = ["$schema", "description", "default", "type"];

/**
 * The JSON Schema of a document before its defaults are added. Draft 7, because Helm before 3.18 supports no later
 * one.
 */
export function jsonSchemaOf(schema: Schema): JsonSchema {
  const options: ConversionConfig = {
    target: "draft-07",
    typeMode: "input",
    ignoreActions: CHECKS,
    overrideSchema: ({ jsonSchema }) =>
      typeof jsonSchema.const === "string" ? { type: "string", ...jsonSchema } : undefined,
  };
  return inOrder(toJsonSchema(schema, options)) as JsonSchema;
}

function inOrder(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(inOrder);
  if (typeof node !== "object" || node === null) return node;
  const rank = ([key]: [string, unknown]) => (FIRST.includes(key) ? FIRST.indexOf(key) : FIRST.length);
  const entries = Object.entries(node)
    .filter(([key, value]) => !(key === "required" && Array.isArray(value) && value.length === 0))
    .toSorted((a, b) => rank(a) - rank(b));
  return Object.fromEntries(entries.map(([key, value]) => [key, inOrder(value)]));
}
