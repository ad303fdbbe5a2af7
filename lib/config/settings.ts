/** One setting of the configuration file, for documentation and overrides. */
export interface Setting {
  /** `proxy.maxConnections`; a list or map is one setting. */
  readonly path: string;
  /** `SWITCHBACK_PROXY_MAX_CONNECTIONS`. */
  readonly env: string;
  readonly type: string;
  readonly default: unknown;
  readonly description: string;
}

/** The part of JSON Schema that lists settings. */
export interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly default?: unknown;
  readonly description?: string;
}

/** Every setting of the configuration's JSON Schema, in its order. */
export function settingsOf(schema: JsonSchema): Setting[] {
  return [...walk(schema, [])];
}

function* walk(schema: JsonSchema, path: readonly string[]): Generator<Setting> {
  for (const [key, child] of Object.entries(schema.properties ?? {})) {
    const place = [...path, key];
    if (child.properties !== undefined) yield* walk(child, place);
    else yield describe(child, place);
  }
}

function describe(schema: JsonSchema, path: readonly string[]): Setting {
  return {
    path: path.join("."),
    env: envName(path),
    type: schema.enum === undefined ? (schema.type ?? "any") : schema.enum.join(" | "),
    default: schema.default,
    description: schema.description ?? "",
  };
}

function envName(path: readonly string[]): string {
  return ["SWITCHBACK", ...path.map((key) => key.replace(/([a-z0-9])([A-Z])/g, "$1_$2"))].join("_").toUpperCase();
}
