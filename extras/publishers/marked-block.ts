// Our part of a file, between two marker lines. Everything else belongs to somebody else, and stays unchanged byte
// for byte.

const beginOf = (publisher: string) => `# BEGIN switchback ${publisher}:`;
const endOf = (publisher: string) => `# END switchback ${publisher}\n`;

/** A file, split into our part and the text around it. */
interface Split {
  readonly before: string;
  /** Our part with both marker lines; undefined if the file does not have it. */
  readonly block: string | undefined;
  readonly after: string;
}

/** Finds our part. A first line without a last line is not ours: somebody has edited it. */
export function splitMarked(text: string, publisher: string): Split {
  const begin = beginOf(publisher);
  const start = text.startsWith(begin) ? 0 : text.indexOf(`\n${begin}`) + 1;
  const none = { before: text, block: undefined, after: "" };
  if (start === 0 && !text.startsWith(begin)) return none;
  const end = text.indexOf(endOf(publisher), start);
  if (end === -1) return none;
  const after = end + endOf(publisher).length;
  return { before: text.slice(0, start), block: text.slice(start, after), after: text.slice(after) };
}

/** Our part, with its marker lines. `what` is a short text for people. */
export function markedBlock(body: string, publisher: string, what: string): string {
  return `${beginOf(publisher)} ${what}\n${body}${endOf(publisher)}`;
}
