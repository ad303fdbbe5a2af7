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
 * source (file or flag), the path of the setting, and the accepted values.
 */
export async function loadConfig(input: ConfigInput): Promise<LoadedConfig> {
  const { document, set } = await gatherDocument(input);
  const { config, flaws } = checkConfig(document, input.sections);
  if (config !== undefined) return { config, warnings: [] };
  const unknown = flaws.filter(({ isUnknownKey }) => isUnknownKey);
  const isLenient = input.unknown === "warn" && document.strict !== true && unknown.length > 0;
  const read = isLenient ? checkConfig(without(unknown, document), input.sections) : { flaws };
  const place = input.file ?? "configuration";
  if (read.config === undefined) throw invalid(read.flaws, place, set);
  const ignored = unknown.map(
    ({ path }) => `${place}: ${renderPath(path)} is not a setting of this release; it is ignored`,
  );
  return { config: read.config, warnings: ignored };
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

function invalid(flaws: readonly Flaw[], place: string, set: ReadonlySet<string>): SwitchbackError {
  const lines = flaws.map(({ path, message }) => {
    const text = renderPath(path);
    return `${flagsOf(text, set) ?? place}: ${text || "(top)"}: ${message}`;
  });
  return new SwitchbackError("config-invalid", lines.join("\n"));
}

/** Returns the flags that set the invalid value or a parent of it. Without such flags: those that set a part of it. */
function flagsOf(path: string, set: ReadonlySet<string>): string | undefined {
  const parents = [...set].filter((setting) => isWithin(path, setting));
  const children = [...set].filter((setting) => isWithin(setting, path));
  const found = parents.length > 0 ? parents : children;
  return found.length === 0 ? undefined : found.map((setting) => `--set ${setting}`).join(", ");
}

function isWithin(path: string, parent: string): boolean {
  return path === parent || path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`);
}
