import { readFileSync } from "node:fs";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { nearest } from "#lib/errors/nearest.ts";
import { SETTINGS } from "#lib/errors/validation.ts";
import { parseProblem, parseText } from "./parse-text.ts";
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

/** A configuration before its validation. */
interface GatheredDocument {
  readonly document: Record<string, unknown>;
  /** The paths of the settings that flags have set. */
  readonly set: ReadonlySet<string>;
}

/** Reads the file, then applies the overrides of the flags. Throws `config-invalid`. */
export async function gatherDocument(input: ConfigInput): Promise<GatheredDocument> {
  const document = input.file === undefined ? {} : await readFile(input.file);
  const set = new Set<string>();
  if (input.set === undefined || input.set.length === 0) return { document, set };
  const settings = listSettings(input.sections);
  for (const assignment of input.set) {
    const { setting, text } = parseFlag(assignment, settings);
    // A string setting keeps the text as written (`::`, `123`), and so does a setting that accepts one of several
    // words. Other types are parsed, so lists and maps work too.
    const isText = setting.type === "string" || setting.type.split(" | ").includes(text);
    const value = isText ? text : await parseValue(text, setting);
    if (override(document, setting, value)) set.add(setting.path);
  }
  return { document, set };
}

async function readFile(file: string): Promise<Record<string, unknown>> {
  let value: unknown;
  try {
    value = await parseText(readFileSync(file, "utf8"));
  } catch (cause) {
    if (!(cause instanceof Error && cause.name === "YAMLParseError"))
      throw new SwitchbackError("config-invalid", `${file}: cannot be read`, { cause });
    throw new SwitchbackError("config-invalid", `${file}: is not valid YAML: ${parseProblem(cause)}`);
  }
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new SwitchbackError(
      "config-invalid",
      `${file}: expected a map of sections, such as \`targets:\` and \`policy:\``,
    );
  }
  return value as Record<string, unknown>;
}

async function parseValue(text: string, { path }: Setting): Promise<unknown> {
  try {
    return await parseText(text);
  } catch (error) {
    throw new SwitchbackError("config-invalid", `--set ${path}: is not valid YAML: ${parseProblem(error)}`);
  }
}

function parseFlag(assignment: string, settings: readonly Setting[]): { setting: Setting; text: string } {
  const split = assignment.indexOf("=");
  const path = split < 0 ? assignment : assignment.slice(0, split);
  const setting = settings.find((candidate) => candidate.path === path);
  if (split >= 0 && setting !== undefined) return { setting, text: assignment.slice(split + 1) };
  const paths = settings.map((candidate) => candidate.path);
  const unknown = `unknown setting; accepted are ${nearest(path, paths, SETTINGS)}`;
  const wrong = setting === undefined ? unknown : `expected ${path}=VALUE`;
  throw new SwitchbackError("config-invalid", `--set ${assignment}: ${wrong}`);
}

/**
 * Sets a value in the document. Returns false if a parent of the setting is not a section in the file; validation
 * reports that error.
 */
function override(document: Record<string, unknown>, setting: Setting, value: unknown): boolean {
  const keys = setting.path.split(".");
  const last = keys.pop() ?? "";
  let section = document;
  for (const key of keys) {
    const next = section[key] ?? {};
    if (typeof next !== "object" || Array.isArray(next)) return false;
    const child: Record<string, unknown> = { ...next };
    section[key] = child;
    section = child;
  }
  section[last] = value;
  return true;
}
