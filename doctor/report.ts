import { type Finding, type FindingStatus, worstOf } from "./findings.ts";

/** The report for programs (`-o json`, `-o yaml`). */
export interface ReportDocument {
  readonly status: FindingStatus;
  readonly counts: Readonly<Record<FindingStatus, number>>;
  readonly findings: readonly Finding[];
}

export function reportDocument(findings: readonly Finding[]): ReportDocument {
  const count = (of: FindingStatus): number => findings.filter(({ status }) => status === of).length;
  return {
    status: worstOf(findings),
    counts: { ok: count("ok"), unknown: count("unknown"), warning: count("warning"), broken: count("broken") },
    findings,
  };
}
