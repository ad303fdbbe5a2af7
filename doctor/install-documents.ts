import { checkConfig } from "#lib/config/parse.ts";
import { parseProblem, parseText } from "#lib/config/parse-text.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { listSome } from "#lib/errors/printable.ts";
import { renderFlaw } from "#lib/errors/validation.ts";
import { type Fact, known, notKnown } from "./fact.ts";

// Validates the documents of an installation. Loaded only if Switchback is installed.

/**
 * Reads the configuration in a ConfigMap. Fails if another version wrote it with settings that this
 * version does not know.
 */
export async function readConfig(configMap: string, text: string, sections: readonly Section[]): Promise<Fact<Config>> {
  try {
    const { config, flaws } = checkConfig((await parseText(text)) ?? {}, sections);
    if (config !== undefined) return known(config);
    const some = listSome(flaws, 3, renderFlaw);
    return notKnown("config-unreadable", `ConfigMap ${configMap} is not valid for this version: ${some}`);
  } catch (error) {
    return notKnown("config-unreadable", `ConfigMap ${configMap} is not valid YAML: ${parseProblem(error)}`);
  }
}
