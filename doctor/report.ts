import { FINDING_STATUSES, type Finding, type FindingStatus, worstOf } from "./findings.ts";

/** The report: for people the headline and what belongs to it, for programs all findings as well. */
export interface ReportDocument {
  /** The answer in one sentence. */
  readonly headline: string;
  readonly status: FindingStatus;
  readonly counts: Readonly<Record<FindingStatus, number>>;
  readonly findings: readonly Finding[];
}

/** What the headline is about. */
export interface Verdict {
  readonly headline: string;
  readonly status: FindingStatus;
  /** The findings that the headline sums up, with their evidence. */
  readonly about: readonly Finding[];
  /** Their cures, each once, the best first. */
  readonly cures: readonly string[];
  /** The other findings that are not ok, the worst first. */
  readonly others: readonly Finding[];
}

/** Why pods do not reach a load balancer, by the code of the finding. */
const CAUSES: Readonly<Record<string, string>> = {
  "source-ranges": "loadBalancerSourceRanges leave the pods out",
  "ip-mode-ignored": "the network plugin ignores ipMode: Proxy",
  "pods-cut-off": "the ingress controller demands a PROXY header",
  "header-by-address": "the ingress controller demands a PROXY header, but only from listed addresses",
  "no-way-to-balancer": "nothing answers them at the load balancer's address",
  "backend-unreachable": "the ingress controller does not answer",
  "relay-unreachable": "no connection to the proxies succeeds",
  "relay-refused": "the ingress controller refuses what the proxies send",
};

export function reportDocument(findings: readonly Finding[]): ReportDocument {
  const count = (of: FindingStatus): number => findings.filter(({ status }) => status === of).length;
  return {
    headline: verdictOf(findings).headline,
    status: worstOf(findings),
    counts: { ok: count("ok"), unknown: count("unknown"), warning: count("warning"), broken: count("broken") },
    findings,
  };
}

/** Sums up the findings: whether pods reach the cluster's names counts first, then whether Switchback works. */
export function verdictOf(findings: readonly Finding[]): Verdict {
  const reach = findings.filter(({ check }) => check === "reach");
  const broken = reach.filter(({ status }) => status === "broken");
  const [first] = broken;
  if (first !== undefined) {
    const headline = `Pods cannot reach ${namesOf(broken)}: ${CAUSES[first.code] ?? first.code}`;
    return about(headline, broken, findings);
  }
  const faulty = findings.filter(({ status }) => status === "broken");
  const parts = findings.filter(({ check }) => check === "install");
  const isDown = parts.some(({ status }) => status === "broken") && parts.every(({ status }) => status !== "ok");
  const fault = isDown ? "is installed but does not run" : `has ${counted(faulty.length, "fault")}`;
  if (faulty.length > 0) return about(`Switchback ${fault}`, faulty, findings);
  const unseen = reach.filter(({ code }) => code === "need-unseen");
  if (unseen.length > 0)
    return about(
      `It is not known whether pods reach ${namesOf(unseen)}: they bypass the load balancer`,
      unseen,
      findings,
    );
  // It is ok to lack kinds that a cluster may lack.
  const unread = reach.filter(({ status, code }) => status === "unknown" || code === "dump-incomplete");
  const good = reach.filter((finding) => finding.status === "ok" && !unread.includes(finding));
  if (good.length === 0) return about("It is not known whether pods reach the cluster's names", unread, findings);
  const warnings = findings.filter(({ status }) => status === "warning");
  if (warnings.length > 0)
    return about(`Pods reach the cluster's names, with ${counted(warnings.length, "warning")}`, warnings, findings);
  if (unread.length > 0) return about("Pods reach the names that could be examined", [...good, ...unread], findings);
  const isAbsent = findings.some(({ code }) => code === "not-installed");
  const well = isAbsent
    ? "Pods reach the ingress controllers: this cluster needs no mapping"
    : "Switchback works: pods reach the cluster's names";
  return about(well, good, findings);
}

function about(headline: string, chosen: readonly Finding[], findings: readonly Finding[]): Verdict {
  const others = findings.filter((finding) => finding.status !== "ok" && !chosen.includes(finding));
  const status = chosen[0]?.status ?? "ok";
  return { headline, status, about: chosen, cures: curesOf(chosen), others: others.toSorted(worstFirst) };
}

function worstFirst(one: Finding, other: Finding): number {
  return FINDING_STATUSES.indexOf(other.status) - FINDING_STATUSES.indexOf(one.status);
}

/** Each cure once. Of several cures of the first finding, the last is the last resort: it comes last. */
function curesOf(findings: readonly Finding[]): string[] {
  const last = findings[0]?.cures.slice(1).at(-1);
  const all = findings.flatMap(({ cures }) => cures).filter((cure) => cure !== last);
  return [...new Set([...all, ...(last === undefined ? [] : [last])])];
}

/** How many names the findings are about; without any, the Services. */
function namesOf(findings: readonly Finding[]): string {
  const bySubject = new Map(findings.map(({ subject, names = 0 }) => [serviceOf(subject), names]));
  const names = [...bySubject.values()].reduce((sum, each) => sum + each, 0);
  if (names > 0) return counted(names, "name");
  const [first = ""] = bySubject.keys();
  return bySubject.size === 1 ? first : `${bySubject.size} Services`;
}

/** The Service of a subject that may name a port too. */
function serviceOf(subject: string): string {
  return subject.replace(/ port \d+$/, "");
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
