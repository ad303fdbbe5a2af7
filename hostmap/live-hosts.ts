import { compareNames } from "./hostnames.ts";
import { aliasOn, type LiveAliases, type LivePlanner, planLive, silenced, TAG } from "./live-hosts-plan.ts";
import type { SelectedHosts } from "./select-hosts.ts";

/**
 * The hosts file of a running pod, brought up to date as a text. What is ours in it:
 *
 * - a block between two markers, every line of it tagged, so that also half of a block is known again;
 * - a `#` in place of the first character of a line that the pod's spec brought in (`switchback.dev/owned`) and the map no longer has.
 *
 * No other byte is ever moved or changed, so whatever happens between two writes cannot harm a line that is not ours. Texts are
 * strings of one character a byte (latin1).
 */

/** First lines that the kubelet writes, for an ordinary pod and for one on the host's network (pkg/kubelet/kubelet_pods.go). */
const KUBELET_HEADERS: readonly string[] = [
  "# Kubernetes-managed hosts file.\n",
  "# Kubernetes-managed hosts file (host network).\n",
];

/** The first so many characters of a file tell whether it has one of them. */
export const KUBELET_HEADER_LENGTH = Math.max(...KUBELET_HEADERS.map((header) => header.length));

const BEGIN = "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs";
/** The same below a line that had no newline of its own: the one before the block is ours. */
const BEGIN_JOINED = `${BEGIN}, newline added`;
const END = "# END switchback.dev";
/** So much of a first marker, cut off at the end of the file, is known as ours. */
const CUT_BEGIN = BEGIN.slice(0, "# BEGIN switch".length);

/** Fewer characters at the end of a marker are no sign of it. */
const MIN_REST = 8;

/** Whether a text is, or begins, a hosts file of the kubelet's; what a container mounts or writes there itself is left alone. */
export function isKubeletHosts(text: string): boolean {
  return KUBELET_HEADERS.some((header) => text.startsWith(header));
}

/**
 * The file with exactly the chosen names in it, as far as no line of somebody else's maps them. `plan` is where the cost lies that
 * grows with the names: a caller with many pods passes one that remembers.
 */
export function applyLive(
  text: string,
  aliases: LiveAliases,
  chosen: SelectedHosts,
  plan: LivePlanner = planLive,
): string {
  const lines = readLines(text, aliases);
  const { current, body } = plan(aliases, chosen, takenNames(lines, chosen));
  for (const line of lines)
    if (line.alias !== undefined) line.text = current.has(line.alias) ? line.alias : silenced(line.alias);
  return withBlock(lines, body);
}

/**
 * How long the beginning of a text is that has no part in what `applyLive` makes of it: whole lines of others that it neither changes
 * nor finds a chosen name on. What it makes of the text is that beginning and then what it makes of the rest. The kubelet writes a line
 * there that no other pod has; the rest of pods that are alike is alike.
 */
export function headLength(text: string, aliases: LiveAliases, chosen: SelectedHosts): number {
  let length = 0;
  for (let lines = 0; lines < MAX_HEAD_LINES; lines += 1) {
    const newline = text.indexOf("\n", length);
    if (newline === -1) break;
    const line = text.slice(length, newline);
    if (line === "" || aliasOn(line, aliases) !== undefined || isOurs(line, false) || namesOn(line).some(chosen.has))
      break;
    length = newline + 1;
  }
  return length;
}

/** The kubelet's own for a pod are at most nine. */
const MAX_HEAD_LINES = 10;

/** The file as it was before `applyLive`, with what others have added since. */
export function removeLive(text: string, aliases: LiveAliases): string {
  return readLines(text, aliases)
    .filter(({ kind }) => kind === "theirs")
    .map(({ text: own, alias, end }) => `${alias ?? own}${end}`)
    .join("");
}

interface Line {
  text: string;
  /** `"\n"`, or `""` at the end of a file that lacks it: also where the newline there is ours. */
  end: string;
  kind: "ours" | "theirs";
  /** The line of the spec and ours that this is, live or silenced: as it is when it is live. */
  readonly alias: string | undefined;
}

function readLines(text: string, aliases: LiveAliases): Line[] {
  const lines: Line[] = [];
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const stop = newline === -1 ? text.length : newline;
    const own = text.slice(at, stop);
    // Most lines are these, and none of them bears a mark of ours.
    const alias = aliasOn(own, aliases);
    const kind = alias === undefined && isOurs(own, newline === -1) ? "ours" : "theirs";
    lines.push({ text: own, end: newline === -1 ? "" : "\n", kind, alias });
    at = stop + 1;
  }
  claimHalves(lines);
  claimEmpty(lines);
  const tail = tailOf(lines);
  const above = lines[tail - 1];
  if (above !== undefined && lines[tail]?.text === BEGIN_JOINED) above.end = "";
  return lines;
}

/** Whether a line is ours by what it says; `isCut`: it lacks its newline. */
function isOurs(text: string, isCut: boolean): boolean {
  if (text.endsWith(TAG) || isBegin(text) || isEnd(text)) return true;
  if (isCut && text.startsWith(CUT_BEGIN) && BEGIN_JOINED.startsWith(text)) return true;
  return text.length >= MIN_REST && MARKERS.some((marker) => marker.endsWith(text));
}

/** The kubelet may empty the file while we write: then zeros stand before a marker. */
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
 * What is ours by where it stands. A write that was stopped in the midst leaves one line that is made of the beginning of a new one
 * and the end of an old one: it may have no tag, but stands in a block and has more of ours behind it.
 */
function claimHalves(lines: readonly Line[]): void {
  let place: Place = "outside";
  for (const [index, line] of lines.entries()) {
    if (line.kind === "theirs" && line.text !== "") {
      if (isHalf(line, lines[index + 1], place)) line.kind = "ours";
      else place = "outside";
    }
    if (isBegin(line.text)) place = "in";
    else if (line.kind === "ours" && line.text.endsWith(END)) place = "behind";
  }
}

type Place = "outside" | "in" | "behind";

function isHalf({ text, end }: Line, next: Line | undefined, place: Place): boolean {
  if (place === "behind") return TAG.endsWith(text) || END.endsWith(text);
  if (place === "outside") return false;
  return end === "" || text.endsWith(END) || isTornEnd(text) || next?.kind === "ours" || next?.text === "";
}

/** A new last marker as far as it was written, and what it left of the old one. */
function isTornEnd(text: string): boolean {
  for (let written = 1; written <= END.length && text.startsWith(END.slice(0, written)); written += 1)
    if (END.endsWith(text.slice(written))) return true;
  return false;
}

/** Empty lines behind a block are room that a write made and did not come to use. */
function claimEmpty(lines: readonly Line[]): void {
  let wasOurs = false;
  for (const [index, line] of lines.entries()) {
    if (wasOurs && line.kind === "theirs" && line.text === "") {
      const next = lines.find(({ text }, at) => at > index && text !== "");
      if (next === undefined || next.kind === "ours") line.kind = "ours";
    }
    wasOurs = line.kind === "ours";
  }
}

/** The chosen names that lines of others map, in name order. */
function takenNames(lines: readonly Line[], chosen: SelectedHosts): readonly string[] {
  const theirs = lines.filter(({ kind, alias }) => kind === "theirs" && alias === undefined);
  const taken = theirs.flatMap(({ text }) => namesOn(text)).filter(chosen.has);
  return taken.length === 0 ? taken : [...new Set(taken)].sort(compareNames);
}

/** Names that a line of hosts(5) maps, folded: resolvers compare without case (RFC 4343). */
function namesOn(text: string): string[] {
  const [, ...names] = (text.split("#", 1)[0] ?? "").trim().split(/\s+/);
  return names.map((name) => name.toLowerCase());
}

/**
 * The lines with one block of this body: where it stands already if it is the same, else at the end. A block with lines of others
 * behind it is made a comment of the same length rather than taken out, which would move them.
 */
function withBlock(lines: readonly Line[], body: readonly string[]): string {
  const tail = tailOf(lines);
  const kept = keptBlock(lines, body);
  const parts: string[] = [];
  for (const [index, { text, end, kind }] of lines.entries()) {
    const isKept = kept !== undefined && index >= kept.from && index < kept.to;
    const ownNewline = index === tail && text === BEGIN_JOINED ? "\n" : "";
    if (kind === "theirs" || isKept) parts.push(ownNewline, text, end);
    else if (index < tail) parts.push(husk(text), end);
  }
  const before = parts.join("");
  if (kept !== undefined || body.length === 0) return before;
  const first = before === "" || before.endsWith("\n") ? BEGIN : `\n${BEGIN_JOINED}`;
  return [before, first, "\n", body.join("\n"), "\n", END, "\n"].join("");
}

/** Where the lines begin that have nothing of others behind them. */
function tailOf(lines: readonly Line[]): number {
  return lines.findLastIndex(({ kind }) => kind === "theirs") + 1;
}

/** The lines of the last block in the file that has this body, whole and with nothing missing. */
function keptBlock(lines: readonly Line[], body: readonly string[]): { from: number; to: number } | undefined {
  if (body.length === 0) return undefined;
  for (let from = lines.length - body.length - 2; from >= 0; from -= 1) {
    const to = from + body.length + 2;
    const [first, last] = [lines[from]?.text, lines[to - 1]];
    if ((first !== BEGIN && first !== BEGIN_JOINED) || last?.text !== END || last.end !== "\n") continue;
    if (body.every((text, index) => lines[from + 1 + index]?.text === text)) return { from, to };
  }
  return undefined;
}

/** A line of ours as a comment of the same length. */
function husk(text: string): string {
  return text.endsWith(TAG) ? `${"#".repeat(text.length - TAG.length)}${TAG}` : text;
}
