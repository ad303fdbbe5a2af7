import { type Mutant, mutantsOf } from "./mutant.ts";

/** A mutant that no test can distinguish from the original, and why. */
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

/** Entries that fit no mutant any more: their line has changed or gone. */
export function outdated(sources: ReadonlyMap<string, string>, known = EQUIVALENTS): Equivalent[] {
  return known.filter((one) => {
    const source = sources.get(one.file) ?? "";
    return !mutantsOf(one.file, source).some((mutant) => equivalentOf(mutant, source, [one]) !== undefined);
  });
}
