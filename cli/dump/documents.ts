import { describeError, SwitchbackError } from "#lib/errors/errors.ts";

/**
 * Maximum length of a document in characters. The longest one is the status of a controller with 50,000 names: 15 MB.
 */
const MAX_LENGTH = 64 * 1024 * 1024;
/**
 * Maximum length of a document that is not JSON, in characters. The YAML parser needs a hundred times the memory of
 * its text. No object is longer.
 */
const MAX_YAML_LENGTH = 2 * 1024 * 1024;

/** Matches a line that begins or ends a document; a document may follow on the same line. */
const MARKER = /^(?:---|\.\.\.)(?:\s+(?:#.*|(.*))|)$/;

/** A document as text, and its place in the file. */
export interface DumpText {
  /** For messages: `FILE: document 3 (line 120)`. */
  readonly place: string;
  readonly text: string;
}

/** Splits a stream of YAML documents, one in memory at a time. Empty documents are skipped. */
export async function* splitDocuments(file: string, chunks: AsyncIterable<string>): AsyncGenerator<DumpText> {
  let lines: string[] = [];
  let open: string[] = [];
  let [length, line, number, start] = [0, 1, 1, 1];
  const place = () => `${file}: document ${number} (line ${start})`;
  function* finish(): Generator<DumpText> {
    const text = lines.join("\n");
    if (text.trim() !== "") yield { place: place(), text };
    if (text.trim() !== "") number += 1;
    lines = [];
    length = 0;
    start = line + 1;
  }
  function* take(text: string): Generator<DumpText> {
    const [marker, rest = ""] = MARKER.exec(text) ?? [];
    if (marker === undefined) lines.push(text);
    else {
      yield* finish();
      if (rest !== "") lines.push(rest);
    }
    line += 1;
  }
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf("\n"); end !== -1; end = chunk.indexOf("\n", from)) {
      open.push(chunk.slice(from, end));
      yield* take(open.join("").replace(/\r$/, ""));
      open = [];
      from = end + 1;
    }
    open.push(chunk.slice(from));
    length += chunk.length;
    if (length > MAX_LENGTH) throw invalid(place(), `longer than ${MAX_LENGTH} characters`);
  }
  yield* take(open.join(""));
  yield* finish();
}

/** A parsed document. */
interface ParsedDocument {
  readonly value: unknown;
  /** The document's text, if it is JSON. */
  readonly json?: string;
}

/** Parses a document: JSON, or any other YAML. */
export async function parseDocument({ place, text }: DumpText): Promise<ParsedDocument> {
  if (text.trimStart().startsWith("{")) {
    try {
      return { value: JSON.parse(text), json: text };
    } catch {
      // This is YAML in flow style.
    }
  }
  if (text.length > MAX_YAML_LENGTH) throw invalid(place, `longer than ${MAX_YAML_LENGTH} characters and not JSON`);
  const { parseDocument: parseYaml } = await import("yaml");
  const document = parseYaml(text, { logLevel: "silent", prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) throw invalid(place, error.message);
  try {
    return { value: document.toJS() };
  } catch (cause) {
    // The parser rejects aliases that would expand without limit.
    throw invalid(place, describeError(cause));
  }
}

export function invalid(place: string, text: string): SwitchbackError {
  return new SwitchbackError("input-invalid", `${place}: ${text}`);
}
