import { type Mutant, mutantsOf } from "./mutant.ts";

/** A mutant that no test can distinguish from the original, and why. */
export interface Equivalent {
  file: string;
  /** Trimmed text of the line, because line numbers change. */
  line: string;
  operator: string;
  /** The mutant's replacement text. If absent, the entry matches every mutant of the operator on this line. */
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

/** Entries that no longer match a mutant, because their line has changed or is gone. */
export function outdated(sources: ReadonlyMap<string, string>, known = EQUIVALENTS): Equivalent[] {
  return known.filter((one) => {
    const source = sources.get(one.file) ?? "";
    return !mutantsOf(one.file, source).some((mutant) => equivalentOf(mutant, source, [one]) !== undefined);
  });
}
