import type { Mutant } from "./mutant.ts";

/** A mutant that no test can tell from the original, and why. */
export interface Equivalent {
  file: string;
  /** The line's text, trimmed: line numbers move. */
  line: string;
  operator: string;
  /** What the mutant puts there; every mutant of the operator on this line if absent. */
  mutated?: string;
  reason: string;
}

export const EQUIVALENTS: readonly Equivalent[] = [];

export function equivalentOf(mutant: Mutant, source: string, known = EQUIVALENTS): Equivalent | undefined {
  const line = source.split("\n")[mutant.line - 1]?.trim();
  return known.find(
    (one) =>
      one.file === mutant.file &&
      one.line === line &&
      one.operator === mutant.operator &&
      (one.mutated ?? mutant.text) === mutant.text,
  );
}
