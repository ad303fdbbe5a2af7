import { readFileSync } from "node:fs";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { nearest } from "#lib/errors/nearest.ts";
import { type Flaw, renderPath, SETTINGS } from "#lib/errors/validation.ts";
import { checkConfig } from "./parse.ts";
import { parseProblem, parseText } from "./parse-text.ts";
import type { Config } from "./schema.ts";
import type { Section } from "./sections.ts";
import { listSettings, type Setting } from "./settings.ts";

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
  const settings = set.length === 0 ? [] : listSettings(sections);
  const overridden: string[] = [];
  for (const assignment of set) overridden.push(await override(document, assignment, settings));
  const place = file ?? "configuration";
  const isLenient = unknown === "warn" && document.strict !== true;
  const warnings: string[] = [];
  for (;;) {
    const { config, flaws } = checkConfig(document, sections);
    if (config !== undefined) return { config, warnings };
    // A check finds one unknown setting of each map.
    const notKnown = flaws.filter(({ isUnknownKey }) => isUnknownKey);
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

/** Sets a value in the document. Returns the path of the setting. */
async function override(document: Document, assignment: string, settings: readonly Setting[]): Promise<string> {
  const [path = "", ...rest] = assignment.split("=");
  const setting = settings.find((candidate) => candidate.path === path);
  const refused = (text: string) => new SwitchbackError("config-invalid", `--set ${text}`);
  if (setting === undefined) {
    const paths = settings.map((candidate) => candidate.path);
    throw refused(`${assignment}: unknown setting; accepted are ${nearest(path, paths, SETTINGS)}`);
  }
  if (rest.length === 0) throw refused(`${assignment}: expected ${path}=VALUE`);
  const text = rest.join("=");
  // A string setting keeps the text as written (`::`, `123`), and so does a setting that accepts one of several words.
  // Other types are parsed, so lists and maps work too.
  const isText = setting.type === "string" || setting.type.split(" | ").includes(text);
  const value = isText
    ? text
    : await parseText(text).catch((error: unknown) => {
        throw refused(`${path}: is not valid YAML: ${parseProblem(error)}`);
      });
  const keys = path.split(".");
  const last = keys.pop() ?? "";
  let section = document;
  for (const key of keys) {
    const next = section[key] ?? {};
    // Validation reports a parent that is not a section.
    if (typeof next !== "object" || Array.isArray(next)) return path;
    const child: Document = { ...next };
    section[key] = child;
    section = child;
  }
  section[last] = value;
  return path;
}

function invalid(flaws: readonly Flaw[], place: string, overridden: readonly string[]): SwitchbackError {
  const lines = flaws.map(({ path, message }) => {
    const text = renderPath(path);
    const flag = overridden.find((one) => text.startsWith(one) && /^([.[]|$)/.test(text.slice(one.length)));
    return `${flag === undefined ? place : `--set ${flag}`}: ${text || "(top)"}: ${message}`;
  });
  return new SwitchbackError("config-invalid", lines.join("\n"));
}
