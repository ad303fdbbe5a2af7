import { FINDING_STATUSES, type Finding, type FindingStatus } from "#doctor/findings.ts";
import { reportDocument } from "#doctor/report.ts";
import { printable } from "#lib/errors/printable.ts";
import { wrap } from "./layout.ts";
import { paint, type Style } from "./output.ts";

const MARKS: Readonly<Record<FindingStatus, string>> = {
  ok: "ok     ",
  unknown: "unknown",
  warning: "warning",
  broken: "BROKEN ",
};
const STYLES: Readonly<Record<FindingStatus, Style>> = {
  ok: "good",
  unknown: "faint",
  warning: "warning",
  broken: "bad",
};
const INDENT = 9;
const CURE = "cure: ";

/**
 * The report for people: one block per finding, and the totals at the end. Lines are as long as they are without
 * `columns`.
 */
export function doctorText(findings: readonly Finding[], columns?: number): string {
  const lines = (text: string, indent: number) => wrap(printable(text), columns, indent);
  const below = (text: string, indent: number) => lines(`${" ".repeat(INDENT)}${text}`, indent);
  const blocks = findings.flatMap(({ verdict, subject, code, evidence, cures }) => [
    ...painted(lines(`${MARKS[verdict]}  ${subject}: ${code}`, INDENT), verdict),
    ...below(evidence, INDENT),
    ...cures.flatMap((cure) => below(`${CURE}${cure}`, INDENT + CURE.length)),
  ]);
  return [...blocks, "", ...lines(totals(findings), 0)].map((line) => `${line}\n`).join("");
}

/** The verdict at the start of the first line is painted. */
function painted([first = "", ...others]: readonly string[], verdict: FindingStatus): string[] {
  const mark = MARKS[verdict];
  return [paint(STYLES[verdict], mark) + first.slice(mark.length), ...others];
}

function totals(findings: readonly Finding[]): string {
  const { counts, verdict } = reportDocument(findings);
  const all = FINDING_STATUSES.toReversed()
    .map((status) => `${counts[status]} ${status}`)
    .join(", ");
  if (verdict === "ok") return `${all}: no problems found`;
  return verdict === "unknown" ? `${all}: no problems found; some checks could not be completed` : all;
}
