import { FINDING_STATUSES, type Finding, type FindingStatus, worstOf } from "./findings.ts";

/** The report for `-o json`. */
export interface ReportDocument {
  readonly verdict: FindingStatus;
  readonly counts: Readonly<Record<FindingStatus, number>>;
  readonly findings: readonly Finding[];
}

export function reportDocument(findings: readonly Finding[]): ReportDocument {
  const count = (status: FindingStatus): number => findings.filter(({ verdict }) => verdict === status).length;
  return {
    verdict: worstOf(findings),
    counts: { ok: count("ok"), unknown: count("unknown"), warning: count("warning"), broken: count("broken") },
    findings,
  };
}

const MARKS: Readonly<Record<FindingStatus, string>> = {
  ok: "ok     ",
  unknown: "unknown",
  warning: "warning",
  broken: "BROKEN ",
};

/** The report for `-o text`: one block per finding, and the totals at the end. */
export function reportText(findings: readonly Finding[]): string {
  const blocks = findings.map(({ verdict, subject, code, evidence, cures }) => {
    const lines = [`${MARKS[verdict]}  ${subject}: ${code}`, evidence, ...cures.map((cure) => `cure: ${cure}`)];
    return lines.map((line, index) => `${index === 0 ? "" : "         "}${printable(line)}\n`).join("");
  });
  const { counts, verdict } = reportDocument(findings);
  const totals = FINDING_STATUSES.toReversed()
    .map((status) => `${counts[status]} ${status}`)
    .join(", ");
  const summary =
    verdict === "ok"
      ? "no problems found"
      : verdict === "unknown"
        ? "no problems found; some checks could not be completed"
        : "";
  return `${blocks.join("")}\n${totals}${summary === "" ? "" : `: ${summary}`}\n`;
}

/** Escapes control and bidirectional characters: text from tenants must not control the terminal. */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
