import type * as v from "valibot";
import { parse, type Schema } from "#lib/errors/validation.ts";

/** A section that an extra adds to the configuration, or to the chart's values. */
export interface Section<S extends Schema = Schema> {
  readonly name: string;
  readonly schema: S;
}

/** Returns the entries of a schema, and after them the sections. */
export function withSections(
  entries: Readonly<Record<string, Schema>>,
  sections: readonly Section[],
): Record<string, Schema> {
  return { ...entries, ...Object.fromEntries(sections.map(({ name, schema }) => [name, schema])) };
}

/**
 * Returns the settings of a section from a configuration that was parsed with this section. Otherwise returns its
 * defaults.
 */
export function settingsOf<S extends Schema>(config: object, { name, schema }: Section<S>): v.InferOutput<S> {
  return parse(schema, (config as Readonly<Record<string, unknown>>)[name]);
}
