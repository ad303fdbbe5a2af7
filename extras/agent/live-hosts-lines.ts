import { aliasLineOf, type LiveAliases, TAG } from "./live-hosts-plan.ts";

// Reads a running pod's hosts file into lines. Its containers may write anything into it, so the cost must be linear
// in its bytes. Each line is compared only with sets and constants, and consecutive empty lines are read as one.

export const BEGIN = "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs";
/** First marker after a line that had no newline. The newline before the block is then managed too. */
export const BEGIN_JOINED = `${BEGIN}, newline added`;
export const END = "# END switchback.dev";
/** Shortest prefix of a first marker that is recognized if the file ends within the marker. */
const CUT_BEGIN = BEGIN.slice(0, "# BEGIN switch".length);

/** The shortest suffix of a marker that is recognized. */
const MIN_REST = 8;

/** One line, or several consecutive empty lines. */
export interface Line {
  text: string;
  /**
   * `"\n"`, or `""` at the end of a file without a final newline, even if Switchback added that newline. Empty lines
   * have one newline each.
   */
  end: string;
  kind: "managed" | "foreign";
  /**
   * Active form of a managed hostAlias' line, whether the line is active or commented out. Undefined for any other
   * line.
   */
  readonly alias: string | undefined;
}

export function readLines(text: string, aliases: LiveAliases): Line[] {
  const lines: Line[] = [];
  for (let at = 0; at < text.length; ) {
    const next = nextLine(text, at);
    if (text[at] === "\n") lines.push({ text: "", end: text.slice(at, next), kind: "foreign", alias: undefined });
    else lines.push(readLine(text.slice(at, next), aliases));
    at = next;
  }
  markTornLines(lines);
  markEmptyLines(lines);
  const tail = indexAfterForeign(lines);
  const previous = lines[tail - 1];
  if (previous !== undefined && lines[tail]?.text === BEGIN_JOINED) previous.end = previous.end.slice(1);
  return lines;
}

/** Whether `readLines` would return more than `most` lines. */
export function hasMoreLines(text: string, most: number): boolean {
  let at = 0;
  for (let lines = 0; lines < most && at < text.length; lines += 1) at = nextLine(text, at);
  return at < text.length;
}

/** The index after the line at `at`, or after all empty lines that begin there. */
function nextLine(text: string, at: number): number {
  const newline = text.indexOf("\n", at);
  if (newline === -1) return text.length;
  if (newline > at) return newline + 1;
  NEWLINES.lastIndex = at;
  NEWLINES.test(text);
  return NEWLINES.lastIndex;
}

const NEWLINES = /\n+/y;

/** `whole` includes the newline, if there is one. */
function readLine(whole: string, aliases: LiveAliases): Line {
  const isCut = !whole.endsWith("\n");
  const text = isCut ? whole : whole.slice(0, -1);
  // Checked first because most lines are alias lines, and these have no marker.
  const alias = aliasLineOf(text, aliases);
  const kind = alias === undefined && isManaged(text, isCut) ? "managed" : "foreign";
  return { text, end: isCut ? "" : "\n", kind, alias };
}

/** Whether the content of a line shows that it is managed; `isCut`: it has no newline. */
export function isManaged(text: string, isCut: boolean): boolean {
  if (text.endsWith(TAG) || isMarker(text) || MARKER_RESTS.has(text)) return true;
  return isCut && text.startsWith(CUT_BEGIN) && BEGIN_JOINED.startsWith(text);
}

const MARKERS: ReadonlySet<string> = new Set([BEGIN, BEGIN_JOINED, END]);
const MARKER_RESTS: ReadonlySet<string> = new Set([...MARKERS].flatMap((marker) => suffixesOf(marker, MIN_REST)));

function isMarker(text: string): boolean {
  return MARKERS.has(withoutZeros(text));
}

function isBegin(text: string): boolean {
  const bare = withoutZeros(text);
  return bare === BEGIN || bare === BEGIN_JOINED;
}

/** The kubelet may truncate the file during a write; the marker then follows NUL bytes. */
function withoutZeros(text: string): string {
  return text.startsWith("\0") ? text.replace(ZEROS, "") : text;
}

const ZEROS = /^\0+/;

/** The suffixes of a text, the text itself first, that have at least `shortest` characters. */
function suffixesOf(text: string, shortest: number): string[] {
  return Array.from({ length: text.length - shortest + 1 }, (_, start) => text.slice(start));
}

/**
 * Finds managed lines by position. An interrupted write leaves one torn line: the start of a new line and the end
 * of an old one. It may have no tag, but it is inside a block and managed lines follow.
 */
function markTornLines(lines: readonly Line[]): void {
  let position: Position = "outside";
  for (const [index, line] of lines.entries()) {
    if (line.kind === "foreign" && line.text !== "") {
      if (isTornLine(line, lines[index + 1], position)) line.kind = "managed";
      else position = "outside";
    }
    if (line.kind === "foreign") continue;
    if (isBegin(line.text)) position = "in";
    else if (line.text.endsWith(END)) position = "after";
  }
}

type Position = "outside" | "in" | "after";

function isTornLine({ text, end }: Line, next: Line | undefined, position: Position): boolean {
  if (position === "after") return TAG.endsWith(text) || END.endsWith(text);
  if (position === "outside") return false;
  return end === "" || text.endsWith(END) || TORN_ENDS.has(text) || next?.kind === "managed" || next?.text === "";
}

/** Every start of a new end marker followed by the rest of an old one. */
const TORN_ENDS: ReadonlySet<string> = new Set(
  suffixesOf(END, 0).flatMap((rest) => Array.from(END, (_, last) => END.slice(0, last + 1) + rest)),
);

/** Empty lines after a block are space that an interrupted write allocated and did not fill. */
function markEmptyLines(lines: readonly Line[]): void {
  for (const [index, line] of lines.entries()) {
    if (line.text !== "" || lines[index - 1]?.kind !== "managed") continue;
    const next = lines[index + 1];
    if (next === undefined || next.kind === "managed") line.kind = "managed";
  }
}

/** The index after the last foreign line. */
export function indexAfterForeign(lines: readonly Line[]): number {
  return lines.findLastIndex(({ kind }) => kind === "foreign") + 1;
}
