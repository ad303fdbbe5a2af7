/** Suppresses the parser's warnings. Otherwise the parser emits them as process warnings. */
const YAML_OPTIONS = { logLevel: "error" } as const;

/**
 * Reads JSON or YAML. The YAML parser is loaded only for text that is not JSON. Throws the parser's error: a
 * `YAMLParseError`, or another error for text that the parser refuses to expand.
 */
export async function parseText(text: string): Promise<unknown> {
  const read = readJson(text);
  if (read !== undefined) return read;
  // In the bundle, a CommonJS package has only a default export.
  const { default: yaml } = await import("yaml");
  return yaml.parse(text, YAML_OPTIONS);
}

/** Describes on one line what is wrong with a text that `parseText` refuses, and where. */
export function parseProblem(error: unknown): string {
  // The parser's message continues with the lines of the text, and with advice for programmers.
  const [line = ""] = (error instanceof Error ? error.message : String(error)).split("\n", 1);
  return line.replace("; please use YAML.parseAllDocuments()", "").replace(/:$/, "");
}

/**
 * Reads JSON that is formatted as `JSON.stringify` does, with any spaces. Returns undefined for other JSON: it may
 * contain a duplicate key, which only the YAML parser reports.
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
