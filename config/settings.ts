import * as z from "zod";
import { configSchema } from "./schema.ts";

/** One setting of the configuration file, for documentation and overrides. */
export interface Setting {
  /** `proxy.maxConnections`; a list or map is one setting. */
  readonly path: string;
  /** `SWITCHBACK_PROXY_MAX_CONNECTIONS`. */
  readonly env: string;
  readonly type: string;
  readonly default: unknown;
  readonly description: string;
}

interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly default?: unknown;
  readonly description?: string;
}

/** Every setting, in the order of the schema. */
export function listSettings(): Setting[] {
  return [...walk(jsonSchema(), [])];
}

/** The keys that are accepted at a path of the file: `["targets", 0]` returns name, upstream, ... */
export function keysAt(path: readonly PropertyKey[]): string[] {
  let schema: JsonSchema | undefined = jsonSchema();
  for (const step of path) schema = typeof step === "number" ? schema?.items : schema?.properties?.[String(step)];
  return Object.keys(schema?.properties ?? {});
}

function jsonSchema(): JsonSchema {
  // `output` includes the defaults of nested sections; `any` is for checks that JSON Schema cannot express.
  return z.toJSONSchema(configSchema, { io: "output", unrepresentable: "any" }) as JsonSchema;
}

function* walk(schema: JsonSchema, path: readonly string[]): Generator<Setting> {
  for (const [key, child] of Object.entries(schema.properties ?? {})) {
    const place = [...path, key];
    if (child.properties !== undefined) yield* walk(child, place);
    else yield describe(child, place);
  }
}

function describe(schema: JsonSchema, path: readonly string[]): Setting {
  return {
    path: path.join("."),
    env: envName(path),
    type: schema.enum === undefined ? (schema.type ?? "any") : schema.enum.join(" | "),
    default: schema.default,
    description: schema.description ?? "",
  };
}

function envName(path: readonly string[]): string {
  return ["SWITCHBACK", ...path.map((key) => key.replace(/([a-z0-9])([A-Z])/g, "$1_$2"))].join("_").toUpperCase();
}
