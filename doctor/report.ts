import { FINDING_STATUSES, type Finding, type FindingStatus, worstOf } from "./findings.ts";

/** The report as a program reads it. */
export interface ReportDocument {
  readonly verdict: FindingStatus;
  readonly counts: Readonly<Record<FindingStatus, number>>;
  readonly findings: readonly Finding[];
}

export function reportDocument(findings: readonly Finding[]): ReportDocument {
  const count = (verdict: FindingStatus): number => findings.filter((finding) => finding.verdict === verdict).length;
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

/** The report as people read it: a block a finding, and the sum at the end. */
export function reportText(findings: readonly Finding[]): string {
  const blocks = findings.map(({ verdict, subject, code, evidence, cures }) => {
    const lines = [`${MARKS[verdict]}  ${subject}: ${code}`, evidence, ...cures.map((cure) => `cure: ${cure}`)];
    return lines.map((line, index) => `${index === 0 ? "" : "         "}${printable(line)}\n`).join("");
  });
  const { counts, verdict } = reportDocument(findings);
  const sum = FINDING_STATUSES.toReversed()
    .map((one) => `${counts[one]} ${one}`)
    .join(", ");
  const end =
    verdict === "ok" ? "all is well" : verdict === "unknown" ? "nothing is broken, as far as could be seen" : "";
  return `${blocks.join("")}\n${sum}${end === "" ? "" : `: ${end}`}\n`;
}

/** Names and messages of a cluster's tenants must not steer a terminal: control and direction characters are shown as escapes. */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
