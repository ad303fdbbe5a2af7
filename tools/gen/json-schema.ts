import { isDeepStrictEqual } from "node:util";
import { type ConversionConfig, toJsonSchema } from "@valibot/to-json-schema";
import type { Schema } from "#lib/errors/validation.ts";
import type { JsonSchema } from "./tables.ts";

/** Checks that JSON Schema cannot express. */
const CHECKS = ["check", "raw_check", "finite"];

/** Values of keywords that allow everything. */
const NO_LIMIT: Readonly<Record<string, unknown>> = { required: [], propertyNames: { type: "string" } };

/** Keywords that come first, because people read them first. */
const FIRST = ["$schema", "description", "default", "type"];

/**
 * The JSON Schema of a document before its defaults are added. Draft 7, because Helm before 3.18 supports no later
 * one. `definitions` are schemas that several places share: the text has each of them once.
 */
export function jsonSchemaOf(schema: Schema, definitions: ConversionConfig["definitions"] = {}): JsonSchema {
  const options: ConversionConfig = {
    target: "draft-07",
    definitions,
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
    .filter(([key, value]) => !isDeepStrictEqual(value, NO_LIMIT[key]))
    .toSorted((a, b) => rank(a) - rank(b));
  const written = (key: string, value: unknown) =>
    key === "additionalProperties" && value === false ? unknownKey(node) : inOrder(value);
  return Object.fromEntries(entries.map(([key, value]) => [key, written(key, value)]));
}

/**
 * The schema of a key that an object does not have. With `false`, Helm would not say which keys are known. It prints a
 * constant, but for `propertyNames` it prints a wrong place.
 */
function unknownKey({ properties = {} }: { readonly properties?: object }): object {
  return { const: `absent: known keys are ${Object.keys(properties).join(", ")}` };
}
