import type { Reason } from "#hostmap/types.ts";
import { canonicalIp, literalsOf } from "../targets/service-view.ts";
import type { AddressBook } from "./address-book.ts";
import { type DnsDecision, type DnsEvidence, decideByDns, firstTargetByDns } from "./dns-decision.ts";
import type { ExpectedClaim } from "./name-record.ts";

/** With `auto` these decisions are no problems: the name is mapped where it should be. */
const WELL_WITH_AUTO: readonly string[] = ["dns-absent", "dns-other-target"];

/** The decision on all claims of a name. It is verified if DNS leads to the target of one claim. */
export function overallDecision(decisions: readonly DnsDecision[]): DnsDecision {
  if (decisions.includes("verified")) return "verified";
  const other = decisions.find((decision) => typeof decision !== "string");
  return other ?? (decisions.includes("external") ? "external" : "unknown");
}

/** The reason in a decision that speaks against the mapping. */
export function mismatchOf(decision: DnsDecision, mode: "auto" | "warn" | "enforce"): Reason | undefined {
  if (typeof decision === "string") return undefined;
  return mode === "auto" && WELL_WITH_AUTO.includes(decision.code) ? undefined : decision;
}

/** Decides on a claim by an answer of DNS. */
export function decideOn(
  claim: ExpectedClaim,
  answer: Pick<DnsEvidence, "name" | "answers" | "isOwnAddress">,
  book: Pick<AddressBook, "addressesOf" | "externalIPsOf" | "targetAt">,
): DnsDecision {
  const evidence = {
    ...answer,
    target: claim.target,
    addressesOfTarget: expectedAddresses(claim, book),
    externalIPs: book.externalIPsOf(claim.target ?? claim.byClass ?? ""),
    targetOfAddress: (address: string) => book.targetAt(address),
  };
  return claim.target === undefined ? firstTargetByDns(evidence, claim.byClass) : decideByDns(evidence);
}

/** The addresses to compare answers with: those of the target or of the class, else the public ones of the claim. */
export function expectedAddresses(
  { target, byClass = "", publicAddresses }: ExpectedClaim,
  book: Pick<AddressBook, "addressesOf">,
): readonly string[] {
  const addresses = book.addressesOf(target ?? byClass);
  return addresses.length > 0 ? addresses : literalsOf(publicAddresses).map(canonicalIp);
}

/** Counts names by decision. */
export function countDecisions(decisions: Iterable<DnsDecision>): Record<string, number> {
  const codes = ["verified", "unknown", "dns-elsewhere", "dns-absent", "dns-other-target"];
  const counts: Record<string, number> = Object.fromEntries(codes.map((code) => [code, 0]));
  for (const decision of decisions) {
    const key = typeof decision === "string" ? decision : decision.code;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}
