/**
 * Characters that a terminal may act on instead of showing them: control characters (escape sequences, C1 included),
 * format characters (text direction, zero width) and line separators.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
/** The same, except line feed (also after a carriage return) and tab. */
const UNPRINTABLE_IN_LINES = /(?![\n\t]|\r\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Makes text of unknown origin safe to print within a line. Escapes are JSON's: ESC becomes `\u001b`. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, jsonEscape);
}

/**
 * Makes a whole text safe to print, but keeps its line endings and tabs. JSON's escapes do not change the value of a
 * JSON document.
 * @param escapeOf returns the replacement of a character. YAML needs its own: its escapes above U+FFFF differ
 */
export function printableLines(text: string, escapeOf: (char: string) => string = jsonEscape): string {
  return text.replace(UNPRINTABLE_IN_LINES, escapeOf);
}

/** One escape for each UTF-16 unit: characters above U+FFFF become two. */
function jsonEscape(char: string): string {
  return char
    .split("")
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}

/** The first items of a list as text, and the number of the others: `a, b and 7 more`. */
export function listSome<T>(items: readonly T[], most: number, textOf: (item: T) => string): string {
  const rest = items.length - most;
  return `${items.slice(0, most).map(textOf).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}
