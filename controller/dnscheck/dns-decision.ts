import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";
import { ipsOf, literalsOf } from "../targets/service-view.ts";
import type { TargetLocations } from "../targets/target-table.ts";

/** A claim of a name, reduced to what DNS can verify. */
export interface ExpectedClaim {
  /** Undefined: DNS may give the name its first target. */
  readonly target: string | undefined;
  /** The target that the class of an object without a target leads to. */
  readonly byClass?: string | undefined;
  /** What to compare with if the target has no addresses. Only IP literals count. */
  readonly publicAddresses: readonly string[];
}

/**
 * Stands among the answers for an address family that failed, as with servers that do not know AAAA (RFC 4074). The
 * other family may speak for a claim, but half an answer is no evidence against one.
 */
export const FAILED = "failed";

/** What DNS says about a name. Addresses are normalized IP literals. */
export interface DnsEvidence {
  /** In lower case. */
  readonly name: string;
  /** All addresses that DNS has for the name. Undefined: no answer yet; empty: the name does not exist. */
  readonly answers: readonly string[] | undefined;
  /** The target that the name has. It stays if another Service gets its address. */
  readonly held?: string | undefined;
  /** Whether the address is a ClusterIP that mapped names resolve to: ours, or that of a tool with the same purpose. */
  readonly isOwnAddress: (address: string) => boolean;
}

type Locations = Pick<TargetLocations, "addressesOf" | "externalIPsOf" | "targetAt">;

/** DNS leads the name to another target than that of its object. */
interface OtherTarget extends Reason {
  readonly code: "dns-other-target";
  readonly target: string;
  /** Only an address that somebody chose leads there. So it moves no name of another object. */
  readonly chosen?: true;
}

/**
 * The decision on one claim. `unknown`: there is no evidence, and the last result stays. `verified`: DNS leads the
 * name to its target. `external`: it does so by an address that the owner of the Service chose, or that another
 * target has on the ports of HTTP. That confirms a mapping, but moves no name. `nowhere`: DNS leads a name without a
 * target to no target of the cluster.
 */
export type DnsDecision = "unknown" | "verified" | "external" | "nowhere" | OtherTarget | Reason;

/** Maximum number of addresses in a text. */
const LISTED = 4;

/**
 * Decides on a claim by the answer of the cluster's DNS. That answer shows what happens without us: kube-proxy
 * short-circuits a connection only if the name resolves to an address of the target's Service.
 */
export function decideByDns(claim: ExpectedClaim, evidence: DnsEvidence, locations: Locations): DnsDecision {
  const { name, answers, held, isOwnAddress } = evidence;
  const { target: claimed } = claim;
  if (answers === undefined) return "unknown";
  if (claimed === undefined) return firstTarget(claim, evidence, locations);
  const expected = expectedAddresses(claim, locations);
  if (expected.length === 0) return "unknown";
  const reached = answers.filter((address) => expected.includes(address));
  // Services may share an address. Only the one with the ports of HTTP gets a name that leads there.
  const isOfClaim = (address: string) => (locations.targetAt(address, held) ?? claimed) === claimed;
  const chosen = locations.externalIPsOf(claimed);
  if (reached.some((address) => !chosen.includes(address) && isOfClaim(address))) return "verified";
  // A publisher gave our own answer to DNS. If it counted as evidence, a name would come and go with each answer, and
  // a Service with that address in its `externalIPs` would take the name.
  if (answers.some(isOwnAddress)) return "unknown";
  if (reached.length > 0) return "external";
  if (answers.includes(FAILED)) return "unknown";
  const listed = expected.join(", ");
  if (answers.length === 0) {
    // Names below a wildcard may have their own records.
    if (isWildcard(name)) return "unknown";
    return { code: "dns-absent", text: `the cluster's DNS has no address for ${show(name)}; expected is ${listed}` };
  }
  const target = targetAmong(answers, held, locations);
  if (target !== undefined) return otherTarget(name, answers, target);
  return { code: "dns-elsewhere", text: `${found(name, answers)}, not to its load balancer (${listed})` };
}

/**
 * Decides on a claim without a target. DNS gives it the target that has the address. The addresses of the target that
 * its class leads to include `externalIPs`, which are evidence only together with the class.
 */
function firstTarget(claim: ExpectedClaim, evidence: DnsEvidence, locations: Locations): DnsDecision {
  const { name, answers = [], held, isOwnAddress } = evidence;
  if (answers.length === 0 || answers.some(isOwnAddress)) return "unknown";
  const target = targetAmong(answers, held, locations);
  if (target !== undefined) return otherTarget(name, answers, target);
  const { byClass } = claim;
  const isConfirmed = expectedAddresses(claim, locations).some((address) => answers.includes(address));
  if (isConfirmed && byClass !== undefined) return { ...otherTarget(name, answers, byClass), chosen: true };
  return answers.includes(FAILED) ? "unknown" : "nowhere";
}

function targetAmong(answers: readonly string[], held: string | undefined, locations: Locations): string | undefined {
  const there = answers.flatMap((address) => locations.targetAt(address, held) ?? []);
  return there.find((target) => target === held) ?? there[0];
}

function otherTarget(name: string, answers: readonly string[], target: string): OtherTarget {
  return { code: "dns-other-target", text: `${found(name, answers)}: that is the target ${target}`, target };
}

function found(name: string, answers: readonly string[]): string {
  return `the cluster's DNS resolves ${show(name)} to ${literalsOf(answers).slice(0, LISTED).join(", ")}`;
}

/** The addresses to compare answers with: those of the target or of the class, else the public ones of the claim. */
export function expectedAddresses(
  { target, byClass = "", publicAddresses }: ExpectedClaim,
  locations: Pick<TargetLocations, "addressesOf">,
): readonly string[] {
  const addresses = locations.addressesOf(target ?? byClass);
  return addresses.length > 0 ? addresses : ipsOf(publicAddresses);
}

/** The settings of `policy.verifyDns`, except `off`. */
export type VerifyMode = "auto" | "warn" | "enforce";
