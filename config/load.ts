import { readFileSync } from "node:fs";
import { parse, YAMLError } from "yaml";
import type { z } from "zod";
import { SwitchbackError } from "../errors/errors.ts";
import { type Config, configSchema } from "./schema.ts";
import { keysAt, listSettings, type Setting } from "./settings.ts";

/** Where a configuration comes from; later ones override: file, environment, `--set`. */
export interface ConfigInput {
  /** Path of the YAML file; none: defaults. */
  readonly file?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** `path=value`, as given to `--set`. */
  readonly set?: readonly string[];
}

/** A configuration, and remarks that did not stop it. */
interface LoadedConfig {
  readonly config: Config;
  readonly warnings: readonly string[];
}

const ENV_PREFIX = "SWITCHBACK_";
/** The parser's warnings would go to the process; the schema says what is wrong. */
const YAML_OPTIONS = { logLevel: "error" } as const;
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
    value = parse(readFileSync(file, "utf8"), YAML_OPTIONS);
  } catch (cause) {
    if (!(cause instanceof YAMLError))
      throw new SwitchbackError("config-invalid", `${file}: cannot be read`, { cause });
    throw new SwitchbackError("config-invalid", `${file}: is not YAML: ${cause.message.split("\n", 1)[0]}`);
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
    const next = section[key] ?? {};
    // Not a section: the file is at fault, and the check says so.
    if (typeof next !== "object" || Array.isArray(next)) return;
    const child: Record<string, unknown> = { ...next };
    section[key] = child;
    section = child;
  }
  section[last] = setting.type === "string" ? text : parseValue(text, place);
  places.set(setting.path, place);
}

function parseValue(text: string, place: string): unknown {
  try {
    return parse(text, YAML_OPTIONS);
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
  const lines = result.error.issues.flatMap(faultsOf).map(({ path, message }) => {
    const text = renderPath(path);
    return `${placeOf(text, places) ?? file ?? "configuration"}: ${text === "" ? "(top)" : text}: ${message}`;
  });
  throw new SwitchbackError("config-invalid", lines.join("\n"));
}

/** An unknown key is named by its own path, with the keys that would have been known. */
function faultsOf(issue: z.core.$ZodIssue): Array<{ path: readonly PropertyKey[]; message: string }> {
  if (issue.code !== "unrecognized_keys") return [issue];
  const message = `there is no such setting; accepted are ${keysAt(issue.path).join(", ")}`;
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

/** The variables or flags that a fault is about: those that set it or what it is in, else those that set a part of it. */
function placeOf(path: string, places: ReadonlyMap<string, string>): string | undefined {
  const around = [...places].filter(([setting]) => isWithin(path, setting));
  const inside = [...places].filter(([setting]) => isWithin(setting, path));
  const found = (around.length > 0 ? around : inside).map(([, place]) => place);
  return found.length === 0 ? undefined : found.join(", ");
}

function isWithin(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}.`) || path.startsWith(`${place}[`);
}
