// The part of a file that is ours, between two lines of its own. Everything else is somebody else's, and stays byte
// for byte.

const beginOf = (publisher: string) => `# BEGIN switchback ${publisher}:`;
const endOf = (publisher: string) => `# END switchback ${publisher}\n`;

/** A file without our part, and that part. */
interface Split {
  readonly before: string;
  /** With both of its lines; undefined: there is none. */
  readonly block: string | undefined;
  readonly after: string;
}

/** Finds our part. A beginning without its end is none of ours: somebody has edited it. */
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

/** Our part, with its lines. `what` is a short text for people. */
export function markedBlock(body: string, publisher: string, what: string): string {
  return `${beginOf(publisher)} ${what}\n${body}${endOf(publisher)}`;
}
