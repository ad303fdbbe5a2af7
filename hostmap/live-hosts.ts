import { compareNames } from "./hostnames.ts";
import { aliasLineOf, commentedOut, type LiveAliases, type LivePlanner, planLive, TAG } from "./live-hosts-plan.ts";
import type { SelectedHosts } from "./select-hosts.ts";

/**
 * Updates the text of a running pod's hosts file. Switchback manages:
 *
 * - a block between two markers, with a tag on every line, so that a partly written block is still recognized;
 * - a `#` in place of the first character of a line from the pod's spec (`switchback.dev/owned`) that the map no longer has.
 *
 * No other byte is ever moved or changed, so an interrupted or concurrent write cannot damage a foreign line. Texts are strings
 * with one character per byte (latin1).
 */

/** The first line that the kubelet writes, for an ordinary pod and for a host-network pod (pkg/kubelet/kubelet_pods.go). */
const KUBELET_HEADERS: readonly string[] = [
  "# Kubernetes-managed hosts file.\n",
  "# Kubernetes-managed hosts file (host network).\n",
];

/** How many characters of a file are needed to recognize a header. */
export const KUBELET_HEADER_LENGTH = Math.max(...KUBELET_HEADERS.map((header) => header.length));

const BEGIN = "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs";
/** The first marker after a line that had no newline: the newline before the block is managed too. */
const BEGIN_JOINED = `${BEGIN}, newline added`;
const END = "# END switchback.dev";
/** The shortest prefix of a first marker that is recognized when the file ends within it. */
const CUT_BEGIN = BEGIN.slice(0, "# BEGIN switch".length);

/** The shortest suffix of a marker that is recognized. */
const MIN_REST = 8;

/** Whether the text starts with a kubelet header. A file that a container mounts or writes itself is left unchanged. */
export function isKubeletHosts(text: string): boolean {
  return KUBELET_HEADERS.some((header) => text.startsWith(header));
}

/**
 * Returns the file with exactly the selected names mapped, except those that a foreign line maps. The cost of `plan` grows with
 * the names: a caller with many pods passes a planner that caches.
 */
export function applyLive(
  text: string,
  aliases: LiveAliases,
  selected: SelectedHosts,
  plan: LivePlanner = planLive,
): string {
  const lines = readLines(text, aliases);
  const { current, body } = plan(aliases, selected, takenNames(lines, selected));
  for (const line of lines)
    if (line.alias !== undefined) line.text = current.has(line.alias) ? line.alias : commentedOut(line.alias);
  return withBlock(lines, body);
}

/**
 * The length of the leading part that `applyLive` copies unchanged: whole foreign lines without a selected name. `applyLive` of
 * the text equals this head followed by `applyLive` of the rest. The head contains the line with the pod's own IP and name; the
 * rest is the same for similar pods, so its result can be cached.
 */
export function headLength(text: string, aliases: LiveAliases, selected: SelectedHosts): number {
  let length = 0;
  for (let lines = 0; lines < MAX_HEAD_LINES; lines += 1) {
    const newline = text.indexOf("\n", length);
    if (newline === -1) break;
    const line = text.slice(length, newline);
    if (
      line === "" ||
      aliasLineOf(line, aliases) !== undefined ||
      isManaged(line, false) ||
      namesOnLine(line).some(selected.has)
    )
      break;
    length = newline + 1;
  }
  return length;
}

/** The kubelet writes at most nine lines of its own. */
const MAX_HEAD_LINES = 10;

/** Reverts `applyLive`; lines that others have added since are kept. */
export function removeLive(text: string, aliases: LiveAliases): string {
  return readLines(text, aliases)
    .filter(({ kind }) => kind === "foreign")
    .map(({ text: content, alias, end }) => `${alias ?? content}${end}`)
    .join("");
}

interface Line {
  text: string;
  /** `"\n"`, or `""` at the end of a file without a final newline, also if Switchback added that newline. */
  end: string;
  kind: "managed" | "foreign";
  /** For a line of a managed hostAlias, active or commented out: its active form. */
  readonly alias: string | undefined;
}

function readLines(text: string, aliases: LiveAliases): Line[] {
  const lines: Line[] = [];
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const stop = newline === -1 ? text.length : newline;
    const content = text.slice(at, stop);
    // Checked first because most lines are alias lines, and these have no marker.
    const alias = aliasLineOf(content, aliases);
    const kind = alias === undefined && isManaged(content, newline === -1) ? "managed" : "foreign";
    lines.push({ text: content, end: newline === -1 ? "" : "\n", kind, alias });
    at = stop + 1;
  }
  markTornLines(lines);
  markEmptyLines(lines);
  const tail = indexAfterForeign(lines);
  const previous = lines[tail - 1];
  if (previous !== undefined && lines[tail]?.text === BEGIN_JOINED) previous.end = "";
  return lines;
}

/** Whether the content of a line shows that it is managed; `isCut`: it has no newline. */
function isManaged(text: string, isCut: boolean): boolean {
  if (text.endsWith(TAG) || isBegin(text) || isEnd(text)) return true;
  if (isCut && text.startsWith(CUT_BEGIN) && BEGIN_JOINED.startsWith(text)) return true;
  return text.length >= MIN_REST && MARKERS.some((marker) => marker.endsWith(text));
}

/** The kubelet may truncate the file during a write; the marker then follows NUL bytes. */
function isBegin(text: string): boolean {
  const bare = text.replace(ZEROS, "");
  return bare === BEGIN || bare === BEGIN_JOINED;
}

function isEnd(text: string): boolean {
  return text.replace(ZEROS, "") === END;
}

const ZEROS = /^\0+/;
const MARKERS: readonly string[] = [BEGIN, BEGIN_JOINED, END];

/**
 * Finds managed lines by position. An interrupted write leaves one torn line: the start of a new line and the end of an old one.
 * It may have no tag, but it is inside a block and managed lines follow.
 */
function markTornLines(lines: readonly Line[]): void {
  let position: Position = "outside";
  for (const [index, line] of lines.entries()) {
    if (line.kind === "foreign" && line.text !== "") {
      if (isTornLine(line, lines[index + 1], position)) line.kind = "managed";
      else position = "outside";
    }
    if (isBegin(line.text)) position = "in";
    else if (line.kind === "managed" && line.text.endsWith(END)) position = "after";
  }
}

type Position = "outside" | "in" | "after";

function isTornLine({ text, end }: Line, next: Line | undefined, position: Position): boolean {
  if (position === "after") return TAG.endsWith(text) || END.endsWith(text);
  if (position === "outside") return false;
  return end === "" || text.endsWith(END) || isTornEndMarker(text) || next?.kind === "managed" || next?.text === "";
}

/** Whether a text is the start of a new end marker followed by the rest of the old one. */
function isTornEndMarker(text: string): boolean {
  for (let written = 1; written <= END.length && text.startsWith(END.slice(0, written)); written += 1)
    if (END.endsWith(text.slice(written))) return true;
  return false;
}

/** Empty lines after a block are space that an interrupted write allocated and did not fill. */
function markEmptyLines(lines: readonly Line[]): void {
  let wasManaged = false;
  for (const [index, line] of lines.entries()) {
    if (wasManaged && line.kind === "foreign" && line.text === "") {
      const next = lines.find(({ text }, at) => at > index && text !== "");
      if (next === undefined || next.kind === "managed") line.kind = "managed";
    }
    wasManaged = line.kind === "managed";
  }
}

/** The selected names that foreign lines map, in name order. */
function takenNames(lines: readonly Line[], selected: SelectedHosts): readonly string[] {
  const foreign = lines.filter(({ kind, alias }) => kind === "foreign" && alias === undefined);
  const taken = foreign.flatMap(({ text }) => namesOnLine(text)).filter(selected.has);
  return taken.length === 0 ? taken : [...new Set(taken)].sort(compareNames);
}

/** The names on a hosts(5) line in lower case: resolvers ignore case (RFC 4343). */
function namesOnLine(text: string): string[] {
  const [, ...names] = (text.split("#", 1)[0] ?? "").trim().split(/\s+/);
  return names.map((name) => name.toLowerCase());
}

/**
 * Renders the lines with one block of this body: in its place if the block is unchanged, else at the end. An outdated block
 * before foreign lines is replaced by a comment of the same length, because removing it would move those lines.
 */
function withBlock(lines: readonly Line[], body: readonly string[]): string {
  const tail = indexAfterForeign(lines);
  const kept = findBlock(lines, body);
  const parts: string[] = [];
  for (const [index, { text, end, kind }] of lines.entries()) {
    const isKept = kept !== undefined && index >= kept.from && index < kept.to;
    const ownNewline = index === tail && text === BEGIN_JOINED ? "\n" : "";
    if (kind === "foreign" || isKept) parts.push(ownNewline, text, end);
    else if (index < tail) parts.push(blankedOut(text), end);
  }
  const before = parts.join("");
  if (kept !== undefined || body.length === 0) return before;
  const first = before === "" || before.endsWith("\n") ? BEGIN : `\n${BEGIN_JOINED}`;
  return [before, first, "\n", body.join("\n"), "\n", END, "\n"].join("");
}

/** The index after the last foreign line. */
function indexAfterForeign(lines: readonly Line[]): number {
  return lines.findLastIndex(({ kind }) => kind === "foreign") + 1;
}

/** The range of the last complete block with this body. */
function findBlock(lines: readonly Line[], body: readonly string[]): { from: number; to: number } | undefined {
  if (body.length === 0) return undefined;
  for (let from = lines.length - body.length - 2; from >= 0; from -= 1) {
    const to = from + body.length + 2;
    const [first, last] = [lines[from]?.text, lines[to - 1]];
    if ((first !== BEGIN && first !== BEGIN_JOINED) || last?.text !== END || last.end !== "\n") continue;
    if (body.every((text, index) => lines[from + 1 + index]?.text === text)) return { from, to };
  }
  return undefined;
}

/** Replaces a managed line by a comment of the same length. */
function blankedOut(text: string): string {
  return text.endsWith(TAG) ? `${"#".repeat(text.length - TAG.length)}${TAG}` : text;
}
