import { readFileSync } from "node:fs";
import { parse, YAMLError } from "yaml";
import type { z } from "zod";
import { SwitchbackError } from "../errors/errors.ts";
import { type Config, configSchema } from "./schema.ts";
import { listSettings, type Setting } from "./settings.ts";

/** Where a configuration comes from; later ones override: file, environment, `--set`. */
export interface ConfigInput {
  /** Path of the YAML file; none: defaults. */
  readonly file?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** `path=value`, as given to `--set`. */
  readonly set?: readonly string[];
}

/** A configuration, and remarks that did not stop it. */
export interface LoadedConfig {
  readonly config: Config;
  readonly warnings: readonly string[];
}

const ENV_PREFIX = "SWITCHBACK_";
/** What Kubernetes puts into pods for a Service named `switchback-...` (service links): not meant for us. */
const SERVICE_LINK = /_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_(TCP|UDP)(_|$)|$)/;

/**
 * Reads, overrides and checks a configuration. Throws `config-invalid`, whose message has one line a fault: the place (file,
 * variable or flag), the path in it, and the accepted values.
 */
export function loadConfig(input: ConfigInput): LoadedConfig {
  const warnings: string[] = [];
  const places = new Map<string, string>();
  const document = readDocument(input.file);
  const settings = listSettings();
  for (const [name, text] of Object.entries(input.env ?? {})) {
    if (!name.startsWith(ENV_PREFIX) || text === undefined) continue;
    const setting = settings.find(({ env }) => env === name);
    if (isServiceLink(name, text)) continue;
    if (setting === undefined) warnings.push(`${name} is no setting; it is ignored`);
    else override(document, setting, text, name, places);
  }
  for (const assignment of input.set ?? []) applyFlag(document, settings, assignment, places);
  return { config: check(document, input.file, places), warnings };
}

function isServiceLink(name: string, text: string): boolean {
  return SERVICE_LINK.test(name) && (/^(tcp|udp):\/\//.test(text) || /_SERVICE_|_(TCP|UDP)_/.test(name));
}

function readDocument(file: string | undefined): Record<string, unknown> {
  if (file === undefined) return {};
  let value: unknown;
  try {
    value = parse(readFileSync(file, "utf8"));
  } catch (cause) {
    const what = cause instanceof YAMLError ? `is not YAML: ${cause.message.split("\n", 1)[0]}` : "cannot be read";
    throw new SwitchbackError("config-invalid", `${file}: ${what}`, cause instanceof YAMLError ? {} : { cause });
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
  places: Map<string, string>,
): void {
  const split = assignment.indexOf("=");
  const path = split < 0 ? assignment : assignment.slice(0, split);
  const setting = settings.find((candidate) => candidate.path === path);
  if (split < 0 || setting === undefined) {
    const known = settings.map((candidate) => candidate.path).join(", ");
    throw new SwitchbackError("config-invalid", `--set ${assignment}: expected path=value; the paths are ${known}`);
  }
  override(document, setting, assignment.slice(split + 1), `--set ${path}`, places);
}

/** Text stays text where the schema wants text (`::`, `123`); everything else is read as YAML, so lists and maps work too. */
function override(
  document: Record<string, unknown>,
  setting: Setting,
  text: string,
  place: string,
  places: Map<string, string>,
): void {
  const keys = setting.path.split(".");
  const last = keys.pop() ?? "";
  let section = document;
  for (const key of keys) {
    const next = section[key];
    const child = typeof next === "object" && next !== null ? { ...next } : {};
    section[key] = child;
    section = child as Record<string, unknown>;
  }
  section[last] = setting.type === "string" ? text : parseValue(text, place);
  places.set(setting.path, place);
}

function parseValue(text: string, place: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw new SwitchbackError("config-invalid", `${place}: ${String(error).split("\n", 1)[0]}`);
  }
}

function check(
  document: Record<string, unknown>,
  file: string | undefined,
  places: ReadonlyMap<string, string>,
): Config {
  const result = configSchema.safeParse(document);
  if (result.success) return result.data;
  const lines = result.error.issues.map((issue) => describeIssue(issue, file, places));
  throw new SwitchbackError("config-invalid", lines.join("\n"));
}

function describeIssue(issue: z.core.$ZodIssue, file: string | undefined, places: ReadonlyMap<string, string>): string {
  const path = issue.path.reduce<string>(
    (text, step) =>
      typeof step === "number" ? `${text}[${step}]` : text === "" ? String(step) : `${text}.${String(step)}`,
    "",
  );
  const place = [...places].find(
    ([setting]) => path === setting || path.startsWith(`${setting}.`) || path.startsWith(`${setting}[`),
  );
  return `${place?.[1] ?? file ?? "configuration"}: ${path === "" ? "(top)" : path}: ${issue.message}`;
}
