/** How a thing stands. `unknown` is never `ok`: what could not be looked at is said, with what it would take to. */
export type FindingStatus = "ok" | "warning" | "broken" | "unknown";

/** From the best to the worst; the worst of all findings is the report's. */
export const FINDING_STATUSES: readonly FindingStatus[] = ["ok", "unknown", "warning", "broken"];

/** One thing that was looked at. */
export interface Finding {
  /** The check that found it, such as `short-circuit`. */
  readonly check: string;
  /** What it is about, as `kubectl` would name it; texts of the cluster may stand in it as they are. */
  readonly subject: string;
  readonly verdict: FindingStatus;
  /** A machine word, never reused for something else. */
  readonly code: string;
  /** What was seen. */
  readonly evidence: string;
  /** What to do about it, the likeliest first; empty where there is nothing to do. */
  readonly cures: readonly string[];
}

type Report = (subject: string, code: string, evidence: string, ...cures: readonly string[]) => Finding;

/** Makes the findings of one check. */
export function findingsOf(check: string): Readonly<Record<FindingStatus, Report>> {
  const report =
    (verdict: FindingStatus): Report =>
    (subject, code, evidence, ...cures) => ({ check, subject, verdict, code, evidence, cures });
  return { ok: report("ok"), warning: report("warning"), broken: report("broken"), unknown: report("unknown") };
}

/** The worst verdict among findings; `ok` of none. */
export function worstOf(findings: readonly Pick<Finding, "verdict">[]): FindingStatus {
  return FINDING_STATUSES[Math.max(0, ...findings.map(({ verdict }) => FINDING_STATUSES.indexOf(verdict)))] ?? "ok";
}
