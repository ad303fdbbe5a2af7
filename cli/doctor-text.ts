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

/** The report for people: one block per finding, then the totals. Without `columns` no line is wrapped. */
export function doctorText(findings: readonly Finding[], columns?: number): string {
  const lines = (text: string, indent: number) => wrap(printable(text), columns, indent);
  const below = (text: string, indent: number) => lines(`${" ".repeat(INDENT)}${text}`, indent);
  const blocks = findings.flatMap(({ status, subject, code, evidence, cures }) => [
    ...painted(lines(`${MARKS[status]}  ${subject}: ${code}`, INDENT), status),
    ...below(evidence, INDENT),
    ...cures.flatMap((cure) => below(`${CURE}${cure}`, INDENT + CURE.length)),
  ]);
  return [...blocks, "", ...lines(totals(findings), 0)].map((line) => `${line}\n`).join("");
}

/** Paints the status at the start of the first line. */
function painted([first = "", ...others]: readonly string[], status: FindingStatus): string[] {
  const mark = MARKS[status];
  return [paint(STYLES[status], mark) + first.slice(mark.length), ...others];
}

function totals(findings: readonly Finding[]): string {
  const { counts, status } = reportDocument(findings);
  const all = FINDING_STATUSES.toReversed()
    .map((status) => `${counts[status]} ${status}`)
    .join(", ");
  if (status === "ok") return `${all}: no problems found`;
  return status === "unknown" ? `${all}: no problems found; some checks could not be completed` : all;
}
