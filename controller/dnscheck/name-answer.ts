import type { DnsDecision, ExpectedClaim } from "./dns-decision.ts";

/** Decides on a claim of a name, given the answers of DNS. */
export type Decide = (claim: ExpectedClaim, answers: readonly string[] | undefined) => DnsDecision;

/** Maximum number of addresses that are kept of an answer. The decisions are made before. */
const MAX_KEPT = 16;
/** Maximum number of objects with a claim of the name whose decisions are kept. Most names have one. */
const MAX_CLAIMS = 16;

/** What DNS says about one name: the accepted answer, and its meaning for each claim. */
export class NameAnswer {
  /** Since when the name may be looked up, milliseconds. */
  addedAt: number;
  /** Whether the name was claimed when the controller started. */
  isOfStart = false;
  asking = false;
  /** Whether a first look-up has ended, or the name waits for it no longer. */
  tried = false;
  /** By object. */
  readonly #decided = new Map<string, { readonly claim: ExpectedClaim; readonly decision: DnsDecision }>();
  #answers: readonly string[] | undefined;
  /** How many sweeps in a row had the accepted answer. */
  #same = 0;
  /** Another answer than the accepted one, and how many sweeps in a row had it. */
  #other: { readonly answers: readonly string[]; readonly same: number } | undefined;

  /** How many sweeps in a row must have an answer before it changes a decision. */
  readonly #sweeps: number;

  constructor(addedAt: number, sweeps: number) {
    this.addedAt = addedAt;
    this.#sweeps = sweeps;
  }

  /** The first addresses of the accepted answer. */
  get answers(): readonly string[] | undefined {
    return this.#answers;
  }

  get claims(): ExpectedClaim[] {
    return [...this.#decided.values()].map(({ claim }) => claim);
  }

  get decisions(): DnsDecision[] {
    return [...this.#decided.values()].map(({ decision }) => decision);
  }

  /** Whether enough sweeps had the accepted answer. One sweep is not enough to take a mapping away. */
  get settled(): boolean {
    return this.#same >= this.#sweeps;
  }

  /** The decision on a claim. It stays when targets get other addresses, until DNS has answered often enough. */
  decisionOn(object: string, claim: ExpectedClaim, decide: Decide): DnsDecision {
    const key = claimKey(claim);
    const known = this.#decided.values().find((one) => claimKey(one.claim) === key)?.decision;
    const decision = known === undefined || isOpen(known) ? decide(claim, this.#answers) : known;
    this.#decided.delete(object);
    this.#decided.set(object, { claim, decision });
    const [first] = this.#decided.keys();
    if (this.#decided.size > MAX_CLAIMS && first !== undefined) this.#decided.delete(first);
    return decision;
  }

  /** Forgets the claim of an object. */
  release(object: string): void {
    this.#decided.delete(object);
  }

  /** Accepts an answer that is final. */
  know(answers: readonly string[]): void {
    this.#answers = answers;
    this.#same = this.#sweeps;
    this.tried = true;
  }

  /**
   * Takes the answer of a sweep, with the addresses first that decide. Returns whether a decision has changed or has
   * just become settled. An answer with our own addresses changes nothing.
   */
  learn(all: readonly string[], decide: Decide): boolean {
    const decisions = this.claims.map((claim) => decide(claim, all));
    if (decisions.every((decision) => decision === "unknown")) return false;
    const meaning = meaningOf(decisions);
    const isFirst = this.#answers === undefined;
    if (isFirst || meaning === meaningOf(this.decisions)) {
      const wasSettled = this.settled;
      this.#accept(all, decide, this.#same + 1);
      return isFirst || this.settled !== wasSettled;
    }
    const other = this.#other && meaningOf(this.claims.map((claim) => decide(claim, this.#other?.answers)));
    const same = other === meaning ? (this.#other?.same ?? 0) + 1 : 1;
    this.#other = { answers: all.slice(0, MAX_KEPT), same };
    if (same >= this.#sweeps) this.#accept(all, decide, same);
    return same >= this.#sweeps;
  }

  #accept(all: readonly string[], decide: Decide, same: number): void {
    this.#answers = all.slice(0, MAX_KEPT);
    this.#same = Math.min(same, this.#sweeps);
    this.#other = undefined;
    for (const [key, { claim }] of this.#decided) this.#decided.set(key, { claim, decision: decide(claim, all) });
  }
}

/** Whether a decision says nothing yet. A Service that gets an address may change it at any time. */
function isOpen(decision: DnsDecision): boolean {
  return decision === "unknown" || decision === "nowhere";
}

function claimKey({ target, byClass = "", publicAddresses }: ExpectedClaim): string {
  if (target === undefined) return `? ${byClass}`;
  return publicAddresses.length === 0 ? target : `${target} ${publicAddresses.join()}`;
}

/** A text that is equal for answers with the same meaning, because the addresses of a CDN change all the time. */
function meaningOf(decisions: readonly DnsDecision[]): string {
  return decisions
    .map((decision) => {
      if (typeof decision === "string") return decision;
      return "target" in decision ? `${decision.code} ${decision.target}` : decision.code;
    })
    .join();
}
