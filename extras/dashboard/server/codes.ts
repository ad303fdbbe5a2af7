/** What docs/codes.md says about a code. Text in backticks is code. */
export interface CodeAdvice {
  readonly cause: string;
  readonly remedy: string;
}

/**
 * Reads the tables of docs/codes.md. Each code in a first column gets the cause and remedy of its row. If several
 * rows name a code, the first one counts.
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
