import type { Claim, Reason } from "#hostmap/types.ts";
import type { DnsDecision, ExpectedClaim, VerifyMode } from "./dnscheck/dns-decision.ts";
import type { Subject } from "./dnscheck/name-answer.ts";
import type { DnsSweep, Testimony } from "./dnscheck/sweep.ts";
import { HEADER_UNKNOWN } from "./expected-headers/decide-protocols.ts";
import type { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import type { TargetLocations } from "./targets/target-table.ts";

/** What the two witnesses know: the ingress controllers' answers, and the cluster's DNS. */
export interface Witnesses {
  /** Undefined: no ingress controller is asked for a header. */
  readonly headers?: Pick<HeaderDecisions, "against"> | undefined;
  readonly locations: Pick<TargetLocations, "mapsAlways" | "warningOf">;
  /** Undefined: DNS is not asked. */
  readonly dns?: Pick<DnsSweep, "askAbout" | "release"> | undefined;
  readonly mode: VerifyMode;
}

const WAITING: Reason = {
  code: "dns-not-verified",
  text: "waits for the first answer of the cluster's DNS (policy.verifyDns)",
};
const NOT_VERIFIED: Reason = {
  code: "dns-not-verified",
  text: "the cluster's DNS has not yet been seen to lead it to its load balancer (policy.verifyDns: enforce)",
};

/** Hears the witnesses about a claim. */
export function witness(claim: Claim, subject: Subject, witnesses: Witnesses): Claim {
  const { headers, dns, mode } = witnesses;
  const aim = typeof claim.target === "string" ? claim.target : claim.undecided && claim.maybe;
  const against = aim === undefined ? undefined : headers?.against(aim);
  const mayGetOne = mode === "auto" && claim.lacking !== undefined;
  if (against !== undefined || (aim === undefined && !mayGetOne)) {
    dns?.release(subject.name, subject.key);
    return aim === undefined || against === undefined ? claim : withoutHeader(claim, aim, against);
  }
  if (dns === undefined) return claim;
  const testimony = dns.askAbout(subject, expectedOf(claim, aim, mode));
  if (mode === "warn") return warned(claim, testimony.decision);
  if (aim === undefined) return withFirst(claim, testimony, witnesses);
  return mode === "auto" ? withAuto(claim, aim, testimony, witnesses) : withEnforce(claim, aim, testimony);
}

/** The claim on a target about which an ingress controller has not answered, or that refuses a header. */
function withoutHeader(claim: Claim, target: string, reason: Reason): Claim {
  if (reason.code === HEADER_UNKNOWN) return undecided(claim, target, reason);
  return refused({ ...claim, maybe: target }, reason);
}

/** With `auto`, only addresses of the target count: those of the object may belong to another controller. */
function expectedOf(claim: Claim, aim: string | undefined, mode: VerifyMode): ExpectedClaim {
  if (aim === undefined) return { target: undefined, byClass: claim.lacking?.byClass, publicAddresses: [] };
  return { target: aim, publicAddresses: mode === "auto" ? [] : (claim.publicAddresses ?? []) };
}

/**
 * Missing evidence of DNS unmaps no name. Only names that DNS leads to an address of no Service here are not mapped.
 */
function withAuto(claim: Claim, aim: string, testimony: Testimony, witnesses: Witnesses): Claim {
  const { decision, isWaiting, isSettled } = testimony;
  if (isWaiting) return undecided(claim, aim, WAITING);
  if (decision === "verified") return { ...decided(claim, aim), ...(isSettled && { verified: true }) };
  // As in `firstTarget`: the class and an address that somebody chose are evidence, also once the name has the target.
  if (decision === "external" && claim.lacking?.byClass === aim) return decided(claim, aim);
  if (typeof decision === "string") return claim;
  // The object chose its target, and kube-proxy short-circuits the connection to the Service of that address.
  if ("target" in decision && claim.chosen) return claim;
  if ("target" in decision && isSettled) return moved({ ...claim, verified: true, aim }, decision.target, witnesses);
  if (decision.code === "dns-absent") return claim;
  if (witnesses.locations.mapsAlways(aim)) return warned(claim, decision);
  return isSettled ? refused({ ...claim, aim }, decision) : undecided(claim, aim, decision);
}

/** Gives a claim the target to which DNS leads its name. Without one, the claim keeps its reason. */
function withFirst(claim: Claim, { decision, isWaiting, isSettled }: Testimony, witnesses: Witnesses): Claim {
  // The name is published, maybe because DNS gave it its target under an earlier leader.
  const { lacking: _other, ...waiting } = claim;
  if (isWaiting) return { ...waiting, target: WAITING, undecided: true };
  // DNS leads elsewhere, so the object still blocks its name, also without evidence of a target.
  if (decision === "nowhere" && claim.lacking) return { ...claim, lacking: { ...claim.lacking, isElsewhere: true } };
  if (typeof decision === "string" || !("target" in decision)) return claim;
  if (!isSettled) return { ...waiting, target: decision, undecided: true };
  return moved(decision.chosen ? claim : { ...claim, verified: true }, decision.target, witnesses);
}

function withEnforce(claim: Claim, aim: string, { decision, isSettled }: Testimony): Claim {
  if (decision === "verified" || decision === "external") return claim;
  // What is published stays. After a restart, DNS may answer with our own addresses, because a publisher gave the
  // name to DNS.
  if (typeof decision === "string") return undecided(claim, aim, NOT_VERIFIED);
  return isSettled ? refused({ ...claim, aim }, decision) : undecided(claim, aim, decision);
}

/** The claim with another target, and what is known about that target. */
function moved({ warning: _ofItsOwn, ...claim }: Claim, target: string, { locations, headers }: Witnesses): Claim {
  const warning = locations.warningOf(target, claim.ports);
  const against = headers?.against(target);
  const all = warning === undefined ? claim : { ...claim, warning };
  return against === undefined ? decided(all, target) : withoutHeader(all, target, against);
}

/** The claim, with what DNS says against its mapping. A warning about its target comes first. */
function warned(claim: Claim, decision: DnsDecision): Claim {
  return typeof decision === "string" ? claim : { warning: { code: decision.code, text: decision.text }, ...claim };
}

function decided({ undecided: _is, maybe: _other, ...claim }: Claim, target: string): Claim {
  return { ...claim, target };
}

/**
 * A claim that only lacks evidence keeps that reason: the witnesses say nothing that decides. If DNS leads its name to
 * another target, it lacks none.
 */
function undecided(claim: Claim, maybe: string, reason: Reason): Claim {
  if (claim.undecided && claim.maybe === maybe) return claim;
  const { lacking, ...decidable } = claim;
  return { ...(claim.undecided ? decidable : claim), target: reason, undecided: true, maybe };
}

function refused({ undecided: _is, ...claim }: Claim, reason: Reason): Claim {
  return { ...claim, target: reason };
}
