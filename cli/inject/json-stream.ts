/**
 * Splits a text of one or more JSON values, as kubectl and jq read it. Each value includes the white space before it,
 * and the last one also the white space after it. Undefined if the text is anything else.
 */
export function jsonValues(text: string): string[] | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  const values: string[] = [];
  const last = text.trimEnd().length;
  for (let start = 0; start < text.length; ) {
    const end = endOfValue(text, start);
    const value = text.slice(start, end < last ? end : text.length);
    if (!isJson(value)) return undefined;
    values.push(value);
    start += value.length;
  }
  return values;
}

/** The offset after the bracket that closes the first one at or after `start`. Ignores brackets in strings. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  let quoted = false;
  for (let at = start; at < text.length; at += 1) {
    const char = text[at] ?? "";
    if (quoted) {
      if (char === "\\") at += 1;
      else quoted = char !== '"';
    } else if (char === '"') quoted = true;
    else if ("[{".includes(char)) depth += 1;
    else if ("]}".includes(char)) {
      depth -= 1;
      if (depth <= 0) return at + 1;
    }
  }
  return text.length;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
