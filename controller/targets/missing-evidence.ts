import type { Reason } from "#hostmap/types.ts";
import type { RoutingHints } from "../sources/types.ts";
import { softwareNamed } from "./known-software.ts";
import { canonicalIp, literalsOf, type ServiceView } from "./service-view.ts";

/**
 * Codes of the reasons that may only mean missing evidence. Every other code names the software that serves the
 * object, or a rule that forbids the mapping.
 */
const MAY_BE_MISSING: ReadonlySet<string> = new Set([
  "no-address",
  "no-service",
  "node-address",
  "no-class",
  "no-target",
  "another-controller",
  "several-services",
  "target-failed",
]);

/** The reason of an object without a target that only lacks evidence. DNS may give it its first target. */
export interface LackingEvidence extends Reason {
  /** The target of the only Service that its class leads to. Undefined: there is no such Service, or several. */
  readonly byClass: string | undefined;
}

/** Whether DNS may give a target to an object with this reason. */
export function mayBeLacking({ code }: Reason): boolean {
  return MAY_BE_MISSING.has(code) || code === "target-missing";
}

/**
 * Whether evidence for the previous target of an object is only missing, and none speaks against it. Evidence against
 * it is a class or controller of other software, or of a load balancer outside the cluster. An IP in the object's
 * status that the target does not have is evidence too, if the target has any IP. `service` is the target's Service,
 * if it is known.
 */
export function isOnlyMissing({ code }: Reason, hints: RoutingHints, service: ServiceView | undefined): boolean {
  if (!MAY_BE_MISSING.has(code) || hints.service !== undefined || hints.chosen !== undefined) return false;
  const own = [...(service?.addresses ?? []), ...(service?.leftAlone ?? [])];
  const ips = literalsOf(hints.addresses).map(canonicalIp);
  if (own.length > 0 && ips.length > 0 && !ips.some((ip) => own.includes(ip))) return false;
  const named = softwareNamed(hints);
  if (named === "outside") return false;
  return named === undefined || service?.software === undefined || named.has(service.software);
}
