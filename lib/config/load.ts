import { readFileSync } from "node:fs";
import { parse, YAMLError } from "yaml";
import type * as z from "zod";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type ConfigInput, gatherDocument, type LoadedConfig } from "./document.ts";
import { keysAt, listSettings } from "./json-schema.ts";
import { type Config, configSchema } from "./schema.ts";

/** Suppresses the parser's warnings, which go to the process; the schema reports what is invalid. */
const YAML_OPTIONS = { logLevel: "error" } as const;

/**
 * Reads, overrides and validates a configuration. Throws `config-invalid`, whose message has one line per error: the source
 * (file, variable or flag), the path of the setting, and the accepted values.
 */
export function loadConfig(input: ConfigInput): LoadedConfig {
  const settings = listSettings();
  const { document, sources, warnings } = gatherDocument(input, { settings, readFile: readYaml, parseValue });
  const lenient = input.unknown === "warn" && document.strict !== true;
  const known = lenient ? withoutUnknown(document, input.file) : { document, warnings: [] };
  return { config: check(known.document, input.file, sources), warnings: [...warnings, ...known.warnings] };
}

function readYaml(file: string): Record<string, unknown> {
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
): { readonly document: Record<string, unknown>; readonly warnings: readonly string[] } {
  const warnings: string[] = [];
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
  return { document: known, warnings };
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
