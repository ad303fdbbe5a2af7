/** The status of a finding. An unreadable fact yields `unknown`, never `ok`. */
export type FindingStatus = "ok" | "warning" | "broken" | "unknown";

/** From best to worst. */
export const FINDING_STATUSES: readonly FindingStatus[] = ["ok", "unknown", "warning", "broken"];

/** One result of a check. */
export interface Finding {
  /** The check, such as `short-circuit`. */
  readonly check: string;
  /** The object that the finding is about, as `kubectl` names it. May contain unescaped text from the cluster. */
  readonly subject: string;
  readonly status: FindingStatus;
  /** Code for programs. Its meaning never changes. */
  readonly code: string;
  /** What was observed. */
  readonly evidence: string;
  /** What to do, the most likely cure first; empty if nothing is wrong. */
  readonly cures: readonly string[];
  /** The number of public names that it is about; absent if it is about something else. */
  readonly names?: number;
}

type Report = (subject: string, code: string, evidence: string, ...cures: readonly string[]) => Finding;

/** Constructors for the findings of one check. */
export function findingsOf(check: string): Readonly<Record<FindingStatus, Report>> {
  const report =
    (status: FindingStatus): Report =>
    (subject, code, evidence, ...cures) => ({ check, subject, status, code, evidence, cures });
  return { ok: report("ok"), warning: report("warning"), broken: report("broken"), unknown: report("unknown") };
}

/** The worst status among findings; `ok` if there are none. */
export function worstOf(findings: readonly Pick<Finding, "status">[]): FindingStatus {
  return FINDING_STATUSES[Math.max(0, ...findings.map(({ status }) => FINDING_STATUSES.indexOf(status)))] ?? "ok";
}
