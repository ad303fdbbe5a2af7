/** Suppresses the parser's warnings, which go to the process. */
const YAML_OPTIONS = { logLevel: "error" } as const;

/**
 * Reads JSON or YAML. The parser of YAML is loaded only for text that is no JSON. Throws what the parser throws: a
 * `YAMLParseError`, or another error for text that it refuses to expand.
 */
export async function parseText(text: string): Promise<unknown> {
  const read = readJson(text);
  if (read !== undefined) return read;
  // In the bundle, a package in CommonJS has a default export only.
  const { default: yaml } = await import("yaml");
  return yaml.parse(text, YAML_OPTIONS);
}

/**
 * Reads JSON that is written as `JSON.stringify` writes it, whatever its spaces. Other JSON is undefined: it may have a
 * key twice, which only the parser of YAML reports.
 */
function readJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    const withoutSpaces = text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
    return withoutSpaces === JSON.stringify(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
