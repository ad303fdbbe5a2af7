import { listSome } from "./printable.ts";

/** A list of known words up to this length is shown completely. */
const SHORT_LIST = 6;
const NEAREST = 3;
/** Only this many first characters of a word are compared: the time grows with the product of both lengths. */
const MAX_WORD = 64;

/**
 * Lists known words for an error about an unknown one. A short list is complete. A long one has the nearest three,
 * the number of the others, and where to find them: `a, b, c and 9 more (docs/configuration.md)`.
 */
export function nearest(word: string, known: readonly string[], where: string): string {
  if (known.length <= SHORT_LIST) return known.join(", ") || "none";
  const ranked = known.map((each) => ({ each, far: distance(word.slice(0, MAX_WORD), each) }));
  return `${listSome(
    ranked.sort((a, b) => a.far - b.far),
    NEAREST,
    ({ each }) => each,
  )} (${where})`;
}

/**
 * The number of letters to add, remove or change (Levenshtein), ignoring case. It is 0 if `other` contains `word`.
 */
function distance(word: string, other: string): number {
  const [from, to] = [word.toLowerCase(), other.toLowerCase()];
  if (from !== "" && to.includes(from)) return 0;
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (let at = 0; at < to.length; at += 1) {
      const change = (row[at] ?? 0) + (letter === to[at] ? 0 : 1);
      next.push(Math.min(change, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
