import { isIP } from "node:net";
import type { DnsDecision } from "./dns-decision.ts";

/** A claim of a name, reduced to what DNS can verify. */
export interface ExpectedClaim {
  /** Undefined: DNS may give the name its first target. */
  readonly target: string | undefined;
  /** The target that the class of an object without a target leads to. */
  readonly byClass?: string | undefined;
  /** What to compare with if the target has no addresses. Only IP literals count. */
  readonly publicAddresses: readonly string[];
}

/** Decides on a claim of a name, given the answers of DNS. */
export type Decide = (claim: ExpectedClaim, answers: readonly string[] | undefined) => DnsDecision;

/** How many equal answers change a decision, and over how many milliseconds at least. */
export interface ChangeRule {
  readonly answers: number;
  readonly overMs: number;
}

/** An answer that changes or confirms the decisions once it is repeated often enough. */
interface Candidate {
  readonly key: string;
  readonly answers: readonly string[];
  readonly since: number;
  readonly count: number;
}

const NO_ADDRESSES: readonly string[] = [];
/** Maximum number of addresses that are kept of an answer. The decisions are made before. */
const MAX_KEPT = 16;

/** The state of one name: its claims, the accepted answer, and the decision on each claim. */
export class NameRecord {
  asking = false;
  /** Whether the last answer had an IPv6 address that is not ours. */
  hasPublicIpv6 = false;
  /** When to ask again for the addresses of the family that the target lacks. */
  otherFamilyAt = 0;
  #otherFamily: readonly string[] = NO_ADDRESSES;
  readonly #rule: ChangeRule;
  #claims: readonly ExpectedClaim[] = [];
  #decisions: readonly DnsDecision[] = [];
  #answers: readonly string[] | undefined;
  #candidate: Candidate | undefined;
  #settled = false;

  constructor(rule: ChangeRule) {
    this.#rule = rule;
  }

  get claims(): readonly ExpectedClaim[] {
    return this.#claims;
  }

  /** The last addresses of the family that the target lacks. */
  get otherFamily(): readonly string[] {
    return this.#otherFamily;
  }

  set otherFamily(addresses: readonly string[]) {
    this.#otherFamily = addresses.slice(0, MAX_KEPT);
  }

  /** The first addresses of the accepted answer. */
  get answers(): readonly string[] | undefined {
    return this.#answers;
  }

  get decisions(): readonly DnsDecision[] {
    return this.#decisions;
  }

  /** False while the first answer leads elsewhere and is not confirmed by further ones. */
  get settled(): boolean {
    return this.#settled;
  }

  /** Whether further answers are needed soon. */
  get isChanging(): boolean {
    return this.#candidate !== undefined;
  }

  /** Replaces the claims. Claims that stay keep their decision. Returns false if nothing changed. */
  expect(claims: readonly ExpectedClaim[], decide: Decide): boolean {
    const before = new Map(this.#claims.map((claim, index) => [claimKey(claim), this.#decisions[index]]));
    const after = new Map(claims.map((claim) => [claimKey(claim), claim]));
    if (after.size === before.size && [...after.keys()].every((key) => before.has(key))) return false;
    const isFirstTarget = this.#claims.every(({ target }) => target === undefined);
    this.#claims = [...after.values()];
    this.#decisions = [...after].map(([key, claim]) => before.get(key) ?? decide(claim, this.#answers));
    if (isFirstTarget) this.#settled = this.#answers !== undefined && !this.#decisions.some(isElsewhere);
    if (this.#candidate !== undefined)
      this.#candidate = { ...this.#candidate, key: this.#keyFor(this.#candidate, decide) };
    return true;
  }

  decisionOf(claim: ExpectedClaim, decide: Decide): DnsDecision {
    const key = claimKey(claim);
    const index = this.#claims.findIndex((each) => claimKey(each) === key);
    return this.#decisions[index] ?? decide(claim, this.#answers);
  }

  /** Whether the accepted answer now means something else for a claim, because the targets have changed. */
  isOutdated(claim: ExpectedClaim, decide: Decide): boolean {
    return keyOf([decide(claim, this.#answers)]) !== keyOf([this.decisionOf(claim, decide)]);
  }

  /**
   * Takes an answer, with the addresses first that decide. Returns whether a decision has changed or has just become
   * settled.
   */
  learn(all: readonly string[], now: number, decide: Decide): boolean {
    const decisions = this.#claims.map((claim) => decide(claim, all));
    const answers = all.slice(0, MAX_KEPT);
    if (decisions.every((decision) => decision === "unknown")) return false;
    const key = keyOf(decisions);
    const isFirst = this.#answers === undefined;
    const isSame = key === keyOf(this.#decisions);
    if (isFirst || isSame) {
      this.#answers = answers;
      this.#decisions = decisions;
    }
    if (isFirst) this.#settled = !decisions.some(isElsewhere);
    if ((isFirst || isSame) && this.#settled) {
      this.#candidate = undefined;
      return isFirst;
    }
    return this.#count(key, answers, decisions, now) || isFirst;
  }

  /** Counts an answer that is not settled yet. Returns whether it is settled now. */
  #count(key: string, answers: readonly string[], decisions: readonly DnsDecision[], now: number): boolean {
    const before = this.#candidate?.key === key ? this.#candidate : undefined;
    const candidate = { key, answers, since: before?.since ?? now, count: (before?.count ?? 0) + 1 };
    this.#candidate = candidate;
    if (candidate.count < this.#rule.answers || now - candidate.since < this.#rule.overMs) return false;
    this.#candidate = undefined;
    this.#answers = answers;
    this.#decisions = decisions;
    this.#settled = true;
    return true;
  }

  #keyFor({ answers }: Candidate, decide: Decide): string {
    return keyOf(this.#claims.map((claim) => decide(claim, answers)));
  }
}

/** The address families to compare; IPv4 if there are no addresses. */
export function familiesOf(expected: readonly string[]): ReadonlySet<4 | 6> {
  const families = new Set<4 | 6>(expected.map((address) => (isIP(address) === 6 ? 6 : 4)));
  return families.size === 0 ? new Set([4]) : families;
}

function claimKey({ target, byClass = "", publicAddresses }: ExpectedClaim): string {
  if (target === undefined) return `? ${byClass}`;
  return publicAddresses.length === 0 ? target : `${target} ${publicAddresses.join()}`;
}

/** A key that is equal for answers with the same meaning, because the addresses of a CDN change all the time. */
function keyOf(decisions: readonly DnsDecision[]): string {
  return decisions
    .map((decision) => {
      if (typeof decision === "string") return decision;
      return "target" in decision ? `${decision.code} ${decision.target}` : decision.code;
    })
    .join();
}

function isElsewhere(decision: DnsDecision): boolean {
  return typeof decision !== "string" && decision.code === "dns-elsewhere";
}
