import type { Claim } from "#hostmap/types.ts";
import { withoutHeader } from "../targets/resolve-claims.ts";
import type { AddressBook } from "./address-book.ts";
import type { DnsDecision } from "./dns-decision.ts";

export type TargetedClaim = Claim & { readonly target: string };

/** What DNS says about a claim with a target, and whether that is final. */
export interface WitnessedClaim {
  readonly claim: TargetedClaim;
  readonly decision: DnsDecision;
  /** `waiting` for the first answer; `unsettled` while a first answer that leads elsewhere is not confirmed. */
  readonly state: "waiting" | "unsettled" | "settled";
  /** Whether the target's Service says that its names are mapped in any case. */
  readonly always: boolean;
  readonly book: Pick<AddressBook, "warningOf" | "against">;
}

const WAITING = {
  code: "dns-pending",
  text: "waits for the first answer of the cluster's DNS, at most 2 s (policy.verifyDns)",
};

/**
 * The claim as `policy.verifyDns: auto` leaves it. Missing evidence takes no name away: only a name that DNS leads to
 * an address of nobody here is not mapped.
 */
export function claimWithAuto({ claim, decision, state, always, book }: WitnessedClaim): Claim {
  if (state === "waiting") return { ...claim, target: WAITING, pending: claim.target };
  if (decision === "unknown") return claim;
  if (decision === "verified") return { ...claim, verified: true };
  // kube-proxy short-circuits the connection to that Service.
  if ("target" in decision && claim.chosen) return claim;
  if ("target" in decision) {
    const { warning: _ofItsOwn, ...rest } = claim;
    const warning = book.warningOf(decision.target, claim.ports);
    const against = book.against(decision.target);
    const target = against ? withoutHeader(decision.target, against) : { target: decision.target };
    return { ...rest, ...target, verified: true, ...(warning && { warning }) };
  }
  if (decision.code === "dns-absent" || always) return claim;
  if (state === "unsettled") return { ...claim, target: decision, pending: claim.target };
  return { ...claim, target: decision };
}
