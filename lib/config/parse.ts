import { SwitchbackError } from "#lib/errors/errors.ts";
import { type Flaw, renderFlaw, validate } from "#lib/errors/validation.ts";
import { crossErrors } from "./cross-checks.ts";
import { type Config, configSchemaWith } from "./schema.ts";
import type { Section } from "./sections.ts";

/**
 * Checks a document with the sections of a configuration file, including those of extras. If the document is invalid,
 * returns the flaws and no `config`.
 */
export function checkConfig(
  document: unknown,
  sections: readonly Section[] = [],
): { readonly config?: Config; readonly flaws: readonly Flaw[] } {
  const { output, flaws } = validate(configSchemaWith(sections), document);
  if (output === undefined) return { flaws };
  const all = [...flaws, ...crossErrors(output)];
  return all.length > 0 ? { flaws: all } : { config: output, flaws: [] };
}

/**
 * Parses a document with the sections of a configuration file, including those of extras. Throws `config-invalid`,
 * with one line per flaw.
 */
export function parseConfig(document: unknown, sections: readonly Section[] = []): Config {
  const { config, flaws } = checkConfig(document, sections);
  if (config !== undefined) return config;
  throw new SwitchbackError("config-invalid", flaws.map(renderFlaw).join("\n"));
}
