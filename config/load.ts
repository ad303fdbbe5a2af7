import { readFileSync } from "node:fs";
import { parse, YAMLError } from "yaml";
import type * as z from "zod";
import { SwitchbackError } from "../errors/errors.ts";
import { type Config, configSchema } from "./schema.ts";
import { keysAt, listSettings, type Setting } from "./settings.ts";

/** The sources of a configuration; each overrides the ones before it: file, environment, `--set`. */
export interface ConfigInput {
  /** Path of the YAML file; defaults apply without one. */
  readonly file?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** `path=value`, as in `--set`. */
  readonly set?: readonly string[];
  /**
   * What becomes of settings of the file that this release does not know: a component warns and goes on, unless the file has
   * `strict: true`, so that it starts with the file of a later release. Default: refuse.
   */
  readonly unknown?: "refuse" | "warn" | undefined;
}

/** A valid configuration, with warnings. */
interface LoadedConfig {
  readonly config: Config;
  readonly warnings: readonly string[];
}

const ENV_PREFIX = "SWITCHBACK_";
/** Suppresses the parser's warnings, which go to the process; the schema reports what is invalid. */
const YAML_OPTIONS = { logLevel: "error" } as const;
/** Variables that Kubernetes adds to pods for a Service named `switchback-...` (service links). They are not settings. */
const SERVICE_LINK = /_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_(TCP|UDP)(_|$)|$)/;

/**
 * Reads, overrides and validates a configuration. Throws `config-invalid`, whose message has one line per error: the source
 * (file, variable or flag), the path of the setting, and the accepted values.
 */
export function loadConfig(input: ConfigInput): LoadedConfig {
  const warnings: string[] = [];
  const sources = new Map<string, string>();
  const document = readDocument(input.file);
  const settings = listSettings();
  for (const [name, text] of Object.entries(input.env ?? {})) {
    if (!name.startsWith(ENV_PREFIX) || text === undefined) continue;
    const setting = settings.find(({ env }) => env === name);
    if (isServiceLink(name, text)) continue;
    if (setting === undefined) warnings.push(`${name} is not a setting; it is ignored`);
    else override(document, setting, text, name, sources);
  }
  for (const assignment of input.set ?? []) applyFlag(document, settings, assignment, sources);
  const lenient = input.unknown === "warn" && document.strict !== true;
  const known = lenient ? withoutUnknown(document, input.file, warnings) : document;
  return { config: check(known, input.file, sources), warnings };
}

function isServiceLink(name: string, text: string): boolean {
  return SERVICE_LINK.test(name) && (/^(tcp|udp):\/\//.test(text) || /_SERVICE_|_(TCP|UDP)_/.test(name));
}

function readDocument(file: string | undefined): Record<string, unknown> {
  if (file === undefined) return {};
  let value: unknown;
  try {
    value = parse(readFileSync(file, "utf8"), YAML_OPTIONS);
  } catch (cause) {
    if (!(cause instanceof YAMLError))
      throw new SwitchbackError("config-invalid", `${file}: cannot be read`, { cause });
    throw new SwitchbackError("config-invalid", `${file}: is not valid YAML: ${cause.message.split("\n", 1)[0]}`);
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

function applyFlag(
  document: Record<string, unknown>,
  settings: readonly Setting[],
  assignment: string,
  sources: Map<string, string>,
): void {
  const split = assignment.indexOf("=");
  const path = split < 0 ? assignment : assignment.slice(0, split);
  const setting = settings.find((candidate) => candidate.path === path);
  if (split < 0 || setting === undefined) {
    const known = settings.map((candidate) => candidate.path).join(", ");
    throw new SwitchbackError("config-invalid", `--set ${assignment}: expected path=value; the paths are ${known}`);
  }
  override(document, setting, assignment.slice(split + 1), `--set ${path}`, sources);
}

/** A string setting keeps the text as it is (`::`, `123`). Other types are parsed as YAML, so lists and maps work too. */
function override(
  document: Record<string, unknown>,
  setting: Setting,
  text: string,
  source: string,
  sources: Map<string, string>,
): void {
  const keys = setting.path.split(".");
  const last = keys.pop() ?? "";
  let section = document;
  for (const key of keys) {
    const next = section[key] ?? {};
    // Not a section: validation reports the error in the file.
    if (typeof next !== "object" || Array.isArray(next)) return;
    const child: Record<string, unknown> = { ...next };
    section[key] = child;
    section = child;
  }
  section[last] = setting.type === "string" ? text : parseValue(text, source);
  sources.set(setting.path, source);
}

function parseValue(text: string, source: string): unknown {
  try {
    return parse(text, YAML_OPTIONS);
  } catch (error) {
    throw new SwitchbackError("config-invalid", `${source}: ${String(error).split("\n", 1)[0]}`);
  }
}

/** The document without the settings that the schema does not know, each with a warning. */
function withoutUnknown(
  document: Record<string, unknown>,
  file: string | undefined,
  warnings: string[],
): Record<string, unknown> {
  const { error } = configSchema.safeParse(document);
  const known = structuredClone(document);
  for (const issue of error?.issues ?? []) {
    if (issue.code !== "unrecognized_keys") continue;
    const section = issue.path.reduce<unknown>((value, step) => (value as Record<PropertyKey, unknown>)[step], known);
    for (const key of issue.keys) {
      delete (section as Record<string, unknown>)[key];
      const path = renderPath([...issue.path, key]);
      warnings.push(`${file ?? "configuration"}: ${path} is not a setting of this release; it is ignored`);
    }
  }
  return known;
}

function check(
  document: Record<string, unknown>,
  file: string | undefined,
  sources: ReadonlyMap<string, string>,
): Config {
  const result = configSchema.safeParse(document);
  if (result.success) return result.data;
  const lines = result.error.issues.flatMap(errorsOf).map(({ path, message }) => {
    const text = renderPath(path);
    return `${sourceOf(text, sources) ?? file ?? "configuration"}: ${text === "" ? "(top)" : text}: ${message}`;
  });
  throw new SwitchbackError("config-invalid", lines.join("\n"));
}

/** An unknown key is reported with its own path and the accepted keys. */
function errorsOf(issue: z.core.$ZodIssue): Array<{ path: readonly PropertyKey[]; message: string }> {
  if (issue.code !== "unrecognized_keys") return [issue];
  const message = `unknown setting; accepted are ${keysAt(issue.path).join(", ")}`;
  return issue.keys.map((key) => ({ path: [...issue.path, key], message }));
}

function renderPath(path: readonly PropertyKey[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else text += text === "" ? String(step) : `.${String(step)}`;
  }
  return text;
}

/** The variables or flags that set the invalid value or a parent of it, else those that set a part of it. */
function sourceOf(path: string, sources: ReadonlyMap<string, string>): string | undefined {
  const parents = [...sources].filter(([setting]) => isWithin(path, setting));
  const children = [...sources].filter(([setting]) => isWithin(setting, path));
  const found = (parents.length > 0 ? parents : children).map(([, source]) => source);
  return found.length === 0 ? undefined : found.join(", ");
}

function isWithin(path: string, parent: string): boolean {
  return path === parent || path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`);
}
