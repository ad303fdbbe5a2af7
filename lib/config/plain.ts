import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { crossErrors } from "./cross-checks.ts";
import { type ConfigInput, gatherDocument, type LoadedConfig } from "./document.ts";
import schema from "./plain-schema.json" with { type: "json" };
import type { Config } from "./schema.ts";
import { settingsOf } from "./settings.ts";

/** What the generated schema says, or an input, that only the libraries can judge. */
class NeedsLibraries extends Error {}

type Node = Readonly<Record<string, unknown>>;

/**
 * Reads a configuration without the libraries that parse YAML and validate, which are 3 MB of memory and 100 ms of a start: the one that
 * the chart writes, JSON with settings that a generated JSON Schema can accept. Returns undefined for every other one, the invalid ones
 * included: `loadConfig` has the last word.
 */
export function loadPlainConfig(input: ConfigInput): LoadedConfig | undefined {
  try {
    const settings = settingsOf(schema as Parameters<typeof settingsOf>[0]);
    const { document, warnings } = gatherDocument(input, { settings, readFile, parseValue: parseJson });
    const config = fill(schema, document) as Config;
    return crossErrors(config).length === 0 ? { config, warnings } : undefined;
  } catch {
    // The libraries say what is wrong, and where.
    return undefined;
  }
}

function readFile(file: string): Record<string, unknown> {
  const document = parseJson(readFileSync(file, "utf8"));
  if (typeof document !== "object" || document === null || Array.isArray(document)) throw new NeedsLibraries(file);
  return document as Record<string, unknown>;
}

/** Only what reads the same as YAML: text that has a key twice, or a number in another form, is not what it would be written as. */
function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const compact = JSON.stringify(value);
  if (text.trim() !== compact && text.trim() !== JSON.stringify(value, undefined, 2)) throw new NeedsLibraries(text);
  return value;
}

/** A valid value, with the defaults of what it lacks. A copy of the default for undefined. */
function fill(node: Node, value: unknown): unknown {
  if (value === undefined) return defaultOf(node);
  if (Object.hasOwn(node, "default") && isDeepStrictEqual(value, node.default)) return value;
  for (const [keyword, limit] of Object.entries(node)) {
    const check = CHECKS[keyword] as ((value: unknown, limit: unknown) => boolean) | undefined;
    if (!check?.(value, limit)) throw new NeedsLibraries(keyword);
  }
  if (Array.isArray(value)) return value.map((item) => fill(node.items as Node, item));
  if (typeof value === "object" && node.properties !== undefined) return fillObject(node, value as Node);
  return node.anyOf === undefined ? value : fillFirst(node.anyOf as readonly Node[], value);
}

function defaultOf(node: Node): unknown {
  if (Object.hasOwn(node, "default")) return structuredClone(node.default);
  // A section whose settings all have defaults.
  if (node.properties !== undefined) return fillObject(node, {});
  throw new NeedsLibraries("required");
}

function fillObject(node: Node, value: Node): Record<string, unknown> {
  const { properties, required = [] } = node as { properties: Record<string, Node>; required?: readonly string[] };
  if (Object.keys(value).some((key) => !Object.hasOwn(properties, key))) throw new NeedsLibraries("unknown setting");
  const filled: Record<string, unknown> = {};
  for (const [key, child] of Object.entries(properties)) {
    if (value[key] !== undefined || required.includes(key)) filled[key] = fill(child, value[key]);
  }
  return filled;
}

function fillFirst(options: readonly Node[], value: unknown): unknown {
  for (const option of options) {
    try {
      return fill(option, value);
    } catch {
      // The next one may fit.
    }
  }
  throw new NeedsLibraries("anyOf");
}

type Check = (value: never, limit: never) => boolean;

const always: Check = () => true;

/** What each keyword demands. One that is not here accepts nothing, so that no check that is new to the schema is left out. */
const CHECKS: Readonly<Record<string, Check>> = {
  $schema: always,
  default: always,
  // `fill` goes on with these.
  properties: always,
  required: always,
  items: always,
  anyOf: always,
  propertyNames: always,
  judged: () => false,
  type: isOfType,
  additionalProperties: (value: object, limit: false | Node) => limit === false || isRecordOf(value, limit),
  const: (value: unknown, only: unknown) => value === only,
  enum: (value: unknown, accepted: readonly unknown[]) => accepted.includes(value),
  not: (value: unknown, { enum: refused }: { readonly enum: readonly unknown[] }) => !refused.includes(value),
  minimum: (value: number, limit: number) => value >= limit,
  exclusiveMinimum: (value: number, limit: number) => value > limit,
  maximum: (value: number, limit: number) => value <= limit,
  minLength: (value: string, limit: number) => value.length >= limit,
  maxLength: (value: string, limit: number) => value.length <= limit,
  pattern: (value: string, pattern: string) => new RegExp(pattern).test(value),
  minItems: (value: readonly unknown[], limit: number) => value.length >= limit,
  maxItems: (value: readonly unknown[], limit: number) => value.length <= limit,
};

function isOfType(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isSafeInteger(value);
  if (type === "number") return Number.isFinite(value);
  if (type === "array") return Array.isArray(value);
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}

function isRecordOf(value: object, { type, ...others }: Node): boolean {
  // An own key of this name is not one that every library keeps.
  if (Object.hasOwn(value, "__proto__") || Object.keys(others).length > 0) return false;
  return Object.values(value).every((each) => isOfType(each, String(type)));
}
