import { compareNames } from "#hostmap/hostnames.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import { BEGIN, BEGIN_JOINED, END, indexAfterForeign, isManaged, type Line, readLines } from "./live-hosts-lines.ts";
import { aliasLineOf, commentedOut, type LiveAliases, type LivePlanner, planLive, TAG } from "./live-hosts-plan.ts";

/**
 * Updates the text of a running pod's hosts file. Switchback manages:
 *
 * - a block between two markers, with a tag on every line, so that a partly written block is still recognized;
 * - a `#` in place of the first character of a line from the pod's spec (`switchback.dev/owned`) that the map no
 *   longer has.
 *
 * No other byte is ever moved or changed, so an interrupted or concurrent write cannot damage a foreign line. Texts
 * are strings with one character per byte (latin1).
 */

/**
 * The first line that the kubelet writes, for an ordinary pod and for a host-network pod (pkg/kubelet/kubelet_pods.go).
 */
const KUBELET_HEADERS: readonly string[] = [
  "# Kubernetes-managed hosts file.\n",
  "# Kubernetes-managed hosts file (host network).\n",
];

/** How many characters of a file are needed to recognize a header. */
export const KUBELET_HEADER_LENGTH = Math.max(...KUBELET_HEADERS.map((header) => header.length));

/** Whether the text starts with a kubelet header. A file that a container mounts or writes itself is left unchanged. */
export function isKubeletHosts(text: string): boolean {
  return KUBELET_HEADERS.some((header) => text.startsWith(header));
}

/** Whether a file may have a block of Switchback: it contains the tag of a block's lines. */
export function holdsBlock(content: Buffer): boolean {
  return content.includes(OWN_TEXT);
}

/** The tag of every line between a block's markers, without its tab. */
const OWN_TEXT = "# switchback.dev";

/**
 * Returns the file with exactly the selected names mapped, except those that a foreign line maps. The cost of
 * `plan` grows with the names: a caller with many pods passes a planner that caches.
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
 * The length of the leading part that `applyLive` copies unchanged: whole foreign lines without a selected name.
 * `applyLive` of the text equals this head followed by `applyLive` of the rest. The head contains the line with the
 * pod's own IP and name; the rest is the same for similar pods, so its result can be cached.
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

/**
 * Maximum number of names in foreign lines that are compared, because a container may write any number. A name after
 * these may be mapped a second time.
 */
const MAX_FOREIGN_NAMES = 16_384;

/** The selected names that foreign lines map, in name order. */
function takenNames(lines: readonly Line[], selected: SelectedHosts): readonly string[] {
  const found: string[][] = [];
  let left = MAX_FOREIGN_NAMES;
  for (const { text, kind, alias } of lines) {
    if (kind === "managed" || alias !== undefined || text === "") continue;
    const names = namesOnLine(text, left);
    left -= names.length;
    if (names.length > 0) found.push(names);
  }
  return [...new Set(found.flat())].filter(selected.has).sort(compareNames);
}

/** The names on a hosts(5) line, at most `most`. They are in lower case, because resolvers ignore case (RFC 4343). */
function namesOnLine(text: string, most = MAX_FOREIGN_NAMES): string[] {
  const [, ...names] = (text.split("#", 1)[0] ?? "")
    .trim()
    .toLowerCase()
    .split(/\s+/, most + 1);
  return names;
}

/**
 * Renders the lines with one block that has this body. An unchanged block stays in place; a changed one is written at
 * the end. An outdated block before foreign lines is replaced by a comment of the same length, because removing it
 * would move those lines.
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
