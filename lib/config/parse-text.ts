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

/** What is wrong with a text that `parseText` refuses, and where, on one line. */
export function parseProblem(error: unknown): string {
  // The parser adds the lines themselves, and advice to programmers.
  const [line = ""] = (error instanceof Error ? error.message : String(error)).split("\n", 1);
  return line.replace("; please use YAML.parseAllDocuments()", "").replace(/:$/, "");
}

/**
 * Reads JSON in the form of `JSON.stringify`, with any spaces. Undefined for other JSON: it may have a key twice, and
 * only the YAML parser reports that.
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
