import type * as v from "valibot";
import { parse, type Schema } from "#lib/errors/validation.ts";

/** A section that an extra adds to the configuration, or to the chart's values. */
export interface Section<S extends Schema = Schema> {
  readonly name: string;
  readonly schema: S;
  /** The section that follows this one on pages and in messages. */
  readonly before: string;
}

/** Returns the entries of a schema with the sections inserted at their places. */
export function withSections(
  entries: Readonly<Record<string, Schema>>,
  sections: readonly Section[],
): Record<string, Schema> {
  const places = new Set(Object.keys(entries));
  const lost = sections.find(({ before }) => !places.has(before));
  if (lost !== undefined) throw new Error(`there is no section ${lost.before} for ${lost.name} to stand before`);
  const all = Object.entries(entries).flatMap(([key, schema]) => [
    ...sections.filter(({ before }) => before === key).map((one) => [one.name, one.schema] as const),
    [key, schema] as const,
  ]);
  return Object.fromEntries(all);
}

/**
 * Returns the settings of a section from a configuration that was parsed with this section. Otherwise returns its
 * defaults.
 */
export function settingsOf<S extends Schema>(config: object, { name, schema }: Section<S>): v.InferOutput<S> {
  return parse(schema, (config as Readonly<Record<string, unknown>>)[name]);
}
