import type { Claim } from "#hostmap/types.ts";
import { withoutHeader } from "../targets/resolve-claims.ts";
import type { AddressBook } from "./address-book.ts";
import type { DnsDecision } from "./dns-decision.ts";

export type TargetedClaim = Claim & { readonly target: string };

/** A claim with a target, the DNS evidence about it, and whether that evidence is final. */
export interface WitnessedClaim {
  readonly claim: TargetedClaim;
  readonly decision: DnsDecision;
  /** `waiting`: no first answer yet. `unsettled`: the first answer leads elsewhere and is not confirmed. */
  readonly state: "waiting" | "unsettled" | "settled";
  /** Whether the names of the target's Service are always mapped (`map: always`). */
  readonly always: boolean;
  readonly book: Pick<AddressBook, "warningOf" | "against">;
}

const WAITING = {
  code: "dns-pending",
  text: "waits for the first answer of the cluster's DNS, at most 2 s (policy.verifyDns)",
};

/**
 * Applies `policy.verifyDns: auto` to a claim. Missing evidence unmaps no name. Only names that DNS leads
 * to an address of no Service here are not mapped.
 */
export function claimWithAuto({ claim, decision, state, always, book }: WitnessedClaim): Claim {
  if (state === "waiting") return { ...claim, target: WAITING, pending: claim.target };
  if (decision === "unknown" || decision === "external") return claim;
  if (decision === "verified") return { ...claim, verified: true };
  // The object chose its target, and kube-proxy short-circuits the connection to the Service of that address.
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
