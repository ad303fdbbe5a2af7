import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";

/** What DNS says about one claim of a name. Addresses are normalized IP literals. */
export interface DnsEvidence {
  /** The claimed name, in lower case. */
  readonly name: string;
  /** All addresses that DNS has for it. Undefined: it has not answered yet; empty: there is no such name. */
  readonly answers: readonly string[] | undefined;
  /** Where kube-proxy leads to the claim's target. Empty: its load balancer has no such address, or none is known. */
  readonly addressesOfTarget: readonly string[];
  /** The target that kube-proxy leads to at an address. */
  readonly targetOfAddress: (address: string) => string | undefined;
  /** Whether it is a ClusterIP that the names of a map resolve to: ours, or that of a tool with the same purpose. */
  readonly isOwnAddress: (address: string) => boolean;
}

/** DNS leads the name to another target than the one of its object. */
interface OtherTarget extends Reason {
  readonly code: "dns-other-target";
  readonly target: string;
}

/**
 * The decision on one claim. `unknown`: DNS says nothing about it, and the last result stays. `verified`: DNS leads the
 * name to its target.
 */
export type DnsDecision = "unknown" | "verified" | OtherTarget | Reason;

/** Addresses that a text lists. */
const LISTED = 4;

/**
 * What the cluster's DNS says about a claim. It is the witness of what happens without us: kube-proxy short-circuits a
 * connection only if the name resolves to an address of the target's Service.
 */
export function decideByDns(evidence: DnsEvidence): DnsDecision {
  const { name, answers, addressesOfTarget, targetOfAddress, isOwnAddress } = evidence;
  if (answers === undefined || addressesOfTarget.length === 0) return "unknown";
  if (answers.some((address) => addressesOfTarget.includes(address))) return "verified";
  // A publisher gave our own answer to DNS. It is no evidence, or a name would come and go with each answer.
  if (answers.some(isOwnAddress)) return "unknown";
  const expected = addressesOfTarget.join(", ");
  if (answers.length === 0) {
    // The names below a wildcard may have records of their own.
    if (isWildcard(name)) return "unknown";
    return { code: "dns-absent", text: `the cluster's DNS has no address for ${show(name)}; expected is ${expected}` };
  }
  const found = `the cluster's DNS resolves ${show(name)} to ${answers.slice(0, LISTED).join(", ")}`;
  for (const address of answers) {
    const target = targetOfAddress(address);
    if (target === undefined) continue;
    return { code: "dns-other-target", text: `${found}: that is the target ${target}`, target };
  }
  return { code: "dns-elsewhere", text: `${found}, not to its load balancer (${expected})` };
}
