import { type Finding, type FindingStatus, worstOf } from "./findings.ts";

/** The report for programs (`-o json`, `-o yaml`). */
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
