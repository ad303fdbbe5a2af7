import { SwitchbackError } from "#lib/errors/errors.ts";
import { type Flaw, renderPath } from "#lib/errors/validation.ts";
import { type ConfigInput, gatherDocument } from "./document.ts";
import { checkConfig } from "./parse.ts";
import type { Config } from "./schema.ts";

/** A valid configuration, with warnings. */
interface LoadedConfig {
  readonly config: Config;
  readonly warnings: readonly string[];
}

type Document = Record<string, unknown>;

/**
 * Reads, overrides and validates a configuration. Throws `config-invalid`, whose message has one line per error: the
 * source (file, variable or flag), the path of the setting, and the accepted values.
 */
export async function loadConfig(input: ConfigInput): Promise<LoadedConfig> {
  const { document, sources, warnings } = await gatherDocument(input);
  const { config, flaws } = checkConfig(document, input.sections);
  if (config !== undefined) return { config, warnings };
  const unknown = flaws.filter(({ isUnknownKey }) => isUnknownKey);
  const isLenient = input.unknown === "warn" && document.strict !== true && unknown.length > 0;
  const read = isLenient ? checkConfig(without(unknown, document), input.sections) : { flaws };
  const place = input.file ?? "configuration";
  if (read.config === undefined) throw invalid(read.flaws, place, sources);
  const ignored = unknown.map(
    ({ path }) => `${place}: ${renderPath(path)} is not a setting of this release; it is ignored`,
  );
  return { config: read.config, warnings: [...warnings, ...ignored] };
}

/** Returns a copy of the document without the settings that the schema does not know. */
function without(unknown: readonly Flaw[], document: Document): Document {
  const known = structuredClone(document);
  for (const { path } of unknown) {
    const section = path.slice(0, -1).reduce<unknown>((value, step) => (value as Document)[step], known);
    delete (section as Document)[path.at(-1) ?? ""];
  }
  return known;
}

function invalid(flaws: readonly Flaw[], place: string, sources: ReadonlyMap<string, string>): SwitchbackError {
  const lines = flaws.map(({ path, message }) => {
    const text = renderPath(path);
    return `${sourceOf(text, sources) ?? place}: ${text || "(top)"}: ${message}`;
  });
  return new SwitchbackError("config-invalid", lines.join("\n"));
}

/**
 * Returns the variables or flags that set the invalid value or a parent of it. If there are none, returns those that
 * set a part of it.
 */
function sourceOf(path: string, sources: ReadonlyMap<string, string>): string | undefined {
  const parents = [...sources].filter(([setting]) => isWithin(path, setting));
  const children = [...sources].filter(([setting]) => isWithin(setting, path));
  const found = (parents.length > 0 ? parents : children).map(([, source]) => source);
  return found.length === 0 ? undefined : found.join(", ");
}

function isWithin(path: string, parent: string): boolean {
  return path === parent || path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`);
}
