/** Suppresses the parser's warnings. Otherwise the parser emits them as process warnings. */
const YAML_OPTIONS = { logLevel: "error" } as const;

/**
 * Reads JSON or YAML. The YAML parser is loaded only for text that is not JSON. Throws the parser's error: a
 * `YAMLParseError`, or another error for text that the parser refuses to expand.
 */
export async function parseText(text: string): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch {
    // YAML
  }
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
