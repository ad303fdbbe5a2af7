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
  const place = input.file ?? "configuration";
  const isLenient = input.unknown === "warn" && document.strict !== true;
  const warnings: string[] = [];
  for (;;) {
    const { config, flaws } = checkConfig(document, input.sections);
    if (config !== undefined) return { config, warnings };
    // A check finds one unknown setting of each map.
    const unknown = flaws.filter(({ isUnknownKey }) => isUnknownKey);
    if (!isLenient || unknown.length === 0) throw invalid(flaws, place, set);
    for (const { path } of unknown) {
      const section = path.slice(0, -1).reduce<unknown>((value, step) => (value as Document)[step], document);
      delete (section as Document)[path.at(-1) ?? ""];
      warnings.push(`${place}: ${renderPath(path)} is not a setting of this release; it is ignored`);
    }
  }
}

function invalid(flaws: readonly Flaw[], place: string, set: ReadonlySet<string>): SwitchbackError {
  const lines = flaws.map(({ path, message }) => {
    const text = renderPath(path);
    const flag = [...set].find((setting) => text.startsWith(setting) && /^([.[]|$)/.test(text.slice(setting.length)));
    return `${flag === undefined ? place : `--set ${flag}`}: ${text || "(top)"}: ${message}`;
  });
  return new SwitchbackError("config-invalid", lines.join("\n"));
}
