import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";

/** What DNS says about one claim of a name. Addresses are normalized IP literals. */
export interface DnsEvidence {
  /** The claimed name, in lower case. */
  readonly name: string;
  /** All addresses that DNS has for the name. Undefined: no answer yet; empty: the name does not exist. */
  readonly answers: readonly string[] | undefined;
  /**
   * The addresses at which kube-proxy leads to the claim's target. Empty: the load balancer has none, or none is
   * known.
   */
  readonly addressesOfTarget: readonly string[];
  /** Those that a user wrote into the Service (`externalIPs`), and no load balancer. */
  readonly externalIPs: readonly string[];
  /** The target that kube-proxy leads to at this address. */
  readonly targetOfAddress: (address: string) => string | undefined;
  /** Whether the address is a ClusterIP that mapped names resolve to: ours, or that of a tool with the same purpose. */
  readonly isOwnAddress: (address: string) => boolean;
}

/** DNS leads the name to another target than that of its object. */
interface OtherTarget extends Reason {
  readonly code: "dns-other-target";
  readonly target: string;
}

/**
 * The decision on one claim. `unknown`: there is no evidence, and the last result stays. `verified`: DNS leads the
 * name to its target. `external`: it does so by an address that the owner of the Service chose. That confirms a
 * mapping, but moves no name.
 */
export type DnsDecision = "unknown" | "verified" | "external" | OtherTarget | Reason;

/** Maximum number of addresses in a text. */
const LISTED = 4;

/**
 * Decides on a claim by the answer of the cluster's DNS. That answer shows what happens without us: kube-proxy
 * short-circuits a connection only if the name resolves to an address of the target's Service.
 */
export function decideByDns(evidence: DnsEvidence): DnsDecision {
  const { name, answers, addressesOfTarget, externalIPs, targetOfAddress, isOwnAddress } = evidence;
  if (answers === undefined || addressesOfTarget.length === 0) return "unknown";
  const reached = answers.filter((address) => addressesOfTarget.includes(address));
  if (reached.some((address) => !externalIPs.includes(address))) return "verified";
  // A publisher gave our own answer to DNS. If it counted as evidence, a name would come and go with each answer, and
  // a Service with that address in its `externalIPs` would take the name.
  if (answers.some(isOwnAddress)) return "unknown";
  if (reached.length > 0) return "external";
  const expected = addressesOfTarget.join(", ");
  if (answers.length === 0) {
    // Names below a wildcard may have their own records.
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
