import { listSome } from "./printable.ts";

/** A list of known words up to this length is shown completely. */
const SHORT_LIST = 6;
const NEAREST = 3;
/** Only this many first characters of a word are compared. */
const MAX_WORD = 64;

/**
 * Lists known words for an error about an unknown one. A short list is complete. A long one has the nearest three,
 * the number of the others, and where to find them: `a, b, c and 9 more (docs/configuration.md)`.
 */
export function nearest(word: string, known: readonly string[], where: string): string {
  if (known.length <= SHORT_LIST) return known.join(", ") || "none";
  const wanted = pairsOf(word.slice(0, MAX_WORD));
  const ranked = known.toSorted((a, b) => likeness(wanted, pairsOf(b)) - likeness(wanted, pairsOf(a)));
  return `${listSome(ranked, NEAREST, (each) => each)} (${where})`;
}

/** The pairs of adjacent letters, without case. */
function pairsOf(word: string): ReadonlySet<string> {
  const lower = word.toLowerCase();
  return new Set(Array.from(lower, (_, at) => lower.slice(at, at + 2)));
}

/** The share of the pairs that both words have (Sørensen and Dice). */
function likeness(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  return a.intersection(b).size / (a.size + b.size);
}
