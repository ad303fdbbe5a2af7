/** What docs/codes.md says of a code: text with `code` in backticks. */
export interface CodeAdvice {
  readonly cause: string;
  readonly remedy: string;
}

/**
 * Reads the tables of docs/codes.md: each code in the first column gets the row's cause and remedy, the first row
 * that names it.
 */
export function adviceIn(page: string): Record<string, CodeAdvice> {
  const advice: Record<string, CodeAdvice> = {};
  for (const line of page.split("\n")) {
    if (!line.startsWith("| `")) continue;
    const [codes = "", cause = "", remedy = ""] = line.slice(2).replace(/ \|$/, "").split(" | ");
    for (const [, code = ""] of codes.matchAll(/`([^`]+)`/g)) advice[code] ??= { cause, remedy };
  }
  return advice;
}
