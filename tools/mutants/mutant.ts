import { createHash } from "node:crypto";
import { type Edit, OPERATORS } from "./operators.ts";
import { lineOf, parseSource, walk } from "./syntax.ts";

/** One change of one production file. */
export interface Mutant extends Edit {
  /** Path from the repository's root. */
  file: string;
  line: number;
  operator: string;
  /** The text that `text` replaces. */
  original: string;
}

/** Every candidate of a file, in an order that depends only on the source. Some may not parse: see `isValid`. */
export function mutantsOf(file: string, source: string): Mutant[] {
  const tree = parseSource(source);
  const found = new Map<string, Mutant>();
  for (const [node, ancestors] of walk(tree.root)) {
    for (const { name, edits } of OPERATORS) {
      for (const edit of edits({ node, ancestors, tree })) {
        const original = source.slice(edit.start, edit.end);
        const key = `${edit.start} ${edit.end} ${edit.text}`;
        if (original === edit.text || found.has(key)) continue;
        found.set(key, { file, line: lineOf(source, edit.start), operator: name, original, ...edit });
      }
    }
  }
  return [...found.values()];
}

export function apply(source: string, { start, end, text }: Edit): string {
  return source.slice(0, start) + text + source.slice(end);
}

/** Whether Node can load the mutant. If it cannot, every test fails, which says nothing about the tests. */
export function isValid(source: string, edit: Edit): boolean {
  try {
    parseSource(apply(source, edit));
    return true;
  } catch {
    return false;
  }
}

/**
 * Takes `size` valid mutants of `all`, always the same ones for a seed. Each mutant's own hash decides its place, so
 * that a change of one file does not affect the sample of the others.
 */
export function sample(all: Mutant[], size: number, seed: string, sources: ReadonlyMap<string, string>): Mutant[] {
  const rank = ({ file, start, end, text }: Mutant): string =>
    createHash("sha256").update(`${seed}\0${file}\0${start}\0${end}\0${text}`).digest("hex");
  const ranked = all.map((mutant) => ({ mutant, rank: rank(mutant) })).sort((a, b) => (a.rank < b.rank ? -1 : 1));
  const chosen: Mutant[] = [];
  for (const { mutant } of ranked) {
    if (chosen.length >= size) break;
    if (isValid(sources.get(mutant.file) ?? "", mutant)) chosen.push(mutant);
  }
  return chosen;
}
