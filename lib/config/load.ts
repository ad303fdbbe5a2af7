import { readFileSync } from "node:fs";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type Flaw, renderPath } from "#lib/errors/validation.ts";
import { checkConfig } from "./parse.ts";
import { parseProblem, parseText } from "./parse-text.ts";
import type { Config } from "./schema.ts";
import type { Section } from "./sections.ts";

/** The sources of a configuration: the file, and `--set`, which overrides it. */
export interface ConfigInput {
  /** Path of the YAML file; defaults apply without one. */
  readonly file?: string | undefined;
  /** Overrides as `path=value`, as in `--set`. */
  readonly set?: readonly string[] | undefined;
  /**
   * How to handle settings of the file that this release does not know. Default: refuse. Components warn instead, so
   * that they can start with the file of a later release. They refuse too if the file has `strict: true`.
   */
  readonly unknown?: "refuse" | "warn" | undefined;
  /** The sections that extras add. */
  readonly sections?: readonly Section[] | undefined;
}

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
export async function loadConfig({ file, set = [], unknown, sections }: ConfigInput): Promise<LoadedConfig> {
  const document = file === undefined ? {} : await readFile(file);
  const overridden: string[] = [];
  for (const assignment of set) overridden.push(await override(document, assignment));
  const place = file ?? "configuration";
  const isLenient = unknown === "warn" && document.strict !== true;
  const warnings: string[] = [];
  for (;;) {
    const { config, flaws } = checkConfig(document, sections);
    if (config !== undefined) return { config, warnings };
    // A check finds one unknown setting of each map.
    const notKnown = flaws.filter((flaw) => flaw.isUnknownKey && flagOf(flaw, overridden) === undefined);
    if (!isLenient || notKnown.length === 0) throw invalid(flaws, place, overridden);
    for (const { path } of notKnown) {
      const section = path.slice(0, -1).reduce<unknown>((value, step) => (value as Document)[step], document);
      delete (section as Document)[path.at(-1) ?? ""];
      warnings.push(`${place}: ${renderPath(path)} is not a setting of this release; it is ignored`);
    }
  }
}

async function readFile(file: string): Promise<Document> {
  let value: unknown;
  try {
    value = await parseText(readFileSync(file, "utf8"));
  } catch (cause) {
    if (!(cause instanceof Error && cause.name === "YAMLParseError"))
      throw new SwitchbackError("config-invalid", `${file}: cannot be read`, { cause });
    throw new SwitchbackError("config-invalid", `${file}: is not valid YAML: ${parseProblem(cause)}`);
  }
  if (typeof (value ?? {}) === "object" && !Array.isArray(value)) return (value ?? {}) as Document;
  const expected = "expected a map of sections, such as `targets:` and `policy:`";
  throw new SwitchbackError("config-invalid", `${file}: ${expected}`);
}

/**
 * Sets a value in the document. Returns the path of the setting. The value is JSON, or a list or map in YAML. Any other
 * value is text as it is written (`::`).
 */
async function override(document: Document, assignment: string): Promise<string> {
  const [path = "", ...rest] = assignment.split("=");
  const refused = (text: string) => new SwitchbackError("config-invalid", `--set ${text}`);
  if (rest.length === 0 || !/^[a-z]\w*(\.[a-z]\w*)*$/i.test(path))
    throw refused(`${assignment}: expected section.setting=VALUE`);
  const keys = path.split(".");
  const last = keys.pop() ?? "";
  let section = document;
  for (const key of keys) {
    const next = Object.hasOwn(section, key) ? section[key] : {};
    if (typeof next !== "object" || next === null || Array.isArray(next)) throw refused(`${path}: ${key} is not a map`);
    section[key] = { ...next };
    section = section[key] as Document;
  }
  const text = rest.join("=");
  if (/^([[{"]|-?[0-9.]+$|(true|false|null)$)/.test(text)) {
    section[last] = await parseText(text).catch((error: unknown) => {
      throw refused(`${path}: is not valid YAML: ${parseProblem(error)}`);
    });
  } else section[last] = text;
  return path;
}

/** The flag that has set the value with this flaw, or a part of it. */
function flagOf({ path }: Flaw, overridden: readonly string[]): string | undefined {
  const isWithin = (inner: string, outer: string) =>
    inner.startsWith(outer) && /^([.[]|$)/.test(inner.slice(outer.length));
  const text = renderPath(path);
  return overridden.find((one) => isWithin(text, one) || isWithin(one, text));
}

function invalid(flaws: readonly Flaw[], place: string, overridden: readonly string[]): SwitchbackError {
  const lines = flaws.map((flaw) => {
    const flag = flagOf(flaw, overridden);
    return `${flag === undefined ? place : `--set ${flag}`}: ${renderPath(flaw.path) || "(top)"}: ${flaw.message}`;
  });
  return new SwitchbackError("config-invalid", lines.join("\n"));
}
