import type * as v from "valibot";
import type { Schema } from "#lib/errors/validation.ts";
import { configSchemaWith } from "./schema.ts";
import type { Section } from "./sections.ts";

/** One setting of the configuration file, for documentation and overrides. */
export interface Setting {
  /** For example `proxy.maxConnections`. A list or map is one setting. */
  readonly path: string;
  readonly type: string;
  readonly default: unknown;
  readonly description: string;
}

/** Returns every setting, including those of the extras' sections, in the order of the schema. */
export function listSettings(sections: readonly Section[] = []): Setting[] {
  return [...walk(configSchemaWith(sections), [])];
}

/** The parts of a valibot schema that are read. Which ones exist depends on its kind. */
interface Parts {
  readonly type: string;
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly wrapped?: Schema;
  readonly default?: unknown;
  readonly options?: readonly unknown[];
  readonly pipe?: ReadonlyArray<{ readonly type: string; readonly description?: string }>;
}

function* walk(schema: Schema, path: readonly string[]): Generator<Setting> {
  for (const [key, child] of Object.entries(unwrapped(schema).entries ?? {})) {
    const place = [...path, key];
    if (unwrapped(child).entries !== undefined) yield* walk(child, place);
    else yield describe(child, place);
  }
}

function unwrapped(schema: Schema): Parts {
  const parts = schema as Parts;
  return parts.wrapped === undefined ? parts : unwrapped(parts.wrapped);
}

function describe(schema: Schema, path: readonly string[]): Setting {
  const { default: value, pipe = [] } = schema as Parts;
  return {
    path: path.join("."),
    type: typeOf(unwrapped(schema)),
    default: value,
    description: pipe.find(({ type }) => type === "description")?.description ?? "",
  };
}

function typeOf({ type, options = [], pipe = [] }: Parts): string {
  if (type === "picklist") return options.join(" | ");
  if (type === "record") return "object";
  return pipe.some((action) => action.type === ("safe_integer" satisfies v.SafeIntegerIssue<number>["type"]))
    ? "integer"
    : type;
}
