import type { DnsDecision, ExpectedClaim } from "./dns-decision.ts";

/** Decides on a claim of a name, given the answers of DNS. */
export type Decide = (claim: ExpectedClaim, answers: readonly string[] | undefined) => DnsDecision;

/** A claim about which DNS is asked. */
export interface Subject {
  readonly name: string;
  /** Unique among the claims of the name. */
  readonly key: string;
  readonly namespace: string;
  /** Whether other objects claim the name, too. Then DNS may lead it to the target of one of them. */
  readonly isShared: boolean;
  /** The target of the name, if the object has not changed since this leader began, and did not choose its own. */
  readonly held: string | undefined;
}

/** The decision on one claim. */
interface Verdict {
  readonly namespace: string;
  readonly claim: ExpectedClaim;
  decision: DnsDecision;
  /** How many sweeps in a row had this decision. */
  same: number;
  /** Whether this is the first verdict about the claim, and the claim was always this one. */
  readonly isFirst: boolean;
  /** Another decision, and how many sweeps in a row had it. */
  other?: { readonly decision: DnsDecision; readonly same: number } | undefined;
}

/** What DNS says about one name: its last answer that means anything, and the decision on each claim. */
export class NameAnswer {
  /** Undefined: no answer yet. */
  answers: readonly string[] | undefined;
  asking = false;
  /** Whether this sweep still has to look it up. */
  isDue = true;
  /** Whether its first look-up has ended or was given up. */
  tried = false;
  /** Since when the name waits for its first look-up, milliseconds of a monotonic clock. */
  since: number;
  /** How many sweeps in a row must agree before they change a decision. One is not enough to take a mapping away. */
  readonly #sweeps: number;
  /** How many sweeps in a row found no record. */
  #absent = 0;
  /** By claim. */
  readonly #verdicts = new Map<string, Verdict>();

  constructor(sweeps: number, since: number) {
    this.#sweeps = sweeps;
    this.since = since;
  }

  get claims(): ExpectedClaim[] {
    return [...this.#verdicts.values()].map(({ claim }) => claim);
  }

  /** The namespaces that claim the name. */
  get namespaces(): ReadonlySet<string> {
    return new Set(this.#verdicts.values().map(({ namespace }) => namespace));
  }

  /**
   * The decision on a claim. It stays when targets get other addresses, until enough sweeps say otherwise. `isSilent`:
   * DNS has not said anything about the claim yet.
   */
  decisionOn({ key, namespace }: Subject, claim: ExpectedClaim, decide: Decide) {
    const last = this.#verdicts.get(key);
    let verdict = last !== undefined && isSame(last.claim, claim) ? last : undefined;
    if (verdict === undefined || isOpen(verdict.decision)) {
      const decision = decide(claim, this.answers);
      const isFirst = last === undefined || verdict?.isFirst === true;
      verdict = { namespace, claim, decision, same: sweepsTo(ledTo(claim, decision), last), isFirst };
      this.#verdicts.set(key, verdict);
    }
    const isSilent = verdict.isFirst && verdict.decision === "unknown";
    return { decision: verdict.decision, isSettled: verdict.same >= this.#sweeps, isSilent };
  }

  /** Forgets a claim. */
  release(key: string): void {
    this.#verdicts.delete(key);
  }

  /**
   * Takes the answer of a sweep. Returns whether a decision has changed or has just become settled. An answer with our
   * own addresses changes nothing. `sweeps`: for how many sweeps the answer counts.
   */
  learn(answers: readonly string[], decide: Decide, sweeps: number): boolean {
    // A first answer that says nothing about the claims so far may decide about a later one.
    this.answers ??= answers;
    this.#absent = answers.length > 0 ? 0 : this.#absent + 1;
    const news = [...this.#verdicts.values()].map((verdict) => [verdict, decide(verdict.claim, answers)] as const);
    const saysNothing = news.every(([, decision]) => decision === "unknown");
    if (!saysNothing || this.#absent >= this.#sweeps) this.answers = answers;
    const changed = news.filter(([verdict, decision]) => this.#takes(verdict, decision, sweeps));
    return changed.length > 0 || this.#absent === this.#sweeps;
  }

  #takes(verdict: Verdict, decision: DnsDecision, sweeps: number): boolean {
    if (decision === "unknown") return false;
    const isSame = meaningOf(decision) === meaningOf(verdict.decision);
    if (isSame || isOpen(verdict.decision)) {
      const wasSettled = isSame && verdict.same >= this.#sweeps;
      Object.assign(verdict, { decision, same: isSame ? verdict.same + sweeps : sweeps, other: undefined });
      return !isSame || (!wasSettled && verdict.same >= this.#sweeps);
    }
    const { other } = verdict;
    const same = sweeps + (other && meaningOf(other.decision) === meaningOf(decision) ? other.same : 0);
    const changes = same >= this.#sweeps;
    Object.assign(verdict, changes ? { decision, same, other: undefined } : { other: { decision, same } });
    return changes;
  }
}

/** The target to which DNS leads a claim. */
export function ledTo(claim: ExpectedClaim, decision: DnsDecision): string | undefined {
  if (decision === "verified") return claim.target;
  return typeof decision !== "string" && "target" in decision ? decision.target : undefined;
}

/** How many sweeps in a row led to a target, whichever target the claim had meanwhile. */
function sweepsTo(led: string | undefined, last: Verdict | undefined): number {
  if (led === undefined || last === undefined) return 1;
  return [last, last.other].find((one) => one && ledTo(last.claim, one.decision) === led)?.same ?? 1;
}

/** Whether a decision says nothing yet. A Service that gets an address may change it at any time. */
function isOpen(decision: DnsDecision): boolean {
  return decision === "unknown" || decision === "nowhere";
}

function isSame(one: ExpectedClaim, other: ExpectedClaim): boolean {
  const isOfTarget = one.target === other.target && one.byClass === other.byClass;
  return isOfTarget && one.publicAddresses.join() === other.publicAddresses.join();
}

/** Equal for decisions with the same meaning. Their texts differ, because a CDN changes its addresses all the time. */
function meaningOf(decision: DnsDecision): string {
  if (typeof decision === "string") return decision;
  return "target" in decision ? `${decision.code} ${decision.target}` : decision.code;
}
