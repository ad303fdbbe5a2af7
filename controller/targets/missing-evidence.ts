import type { Reason } from "#hostmap/types.ts";
import type { RoutingHints } from "../sources/types.ts";
import { softwareNamed } from "./known-software.ts";
import { canonicalIp, literalsOf, type ServiceView } from "./service-view.ts";

/**
 * Codes of the reasons that may only say that evidence is missing. Every other one names who serves the object, or a
 * rule that forbids the mapping.
 */
const MAY_BE_MISSING: ReadonlySet<string> = new Set([
  "no-address",
  "no-service",
  "node-address",
  "unknown-hostname",
  "no-class",
  "no-target",
  "another-controller",
  "several-services",
  "target-failed",
]);

/**
 * Whether nothing speaks against the target that an object had: evidence of it is only missing. Against it speak a
 * class or controller of other software, or of a load balancer outside the cluster; and an IP in the object's status
 * that is not the target's, if the target has any. `service` is the target's, if it is known.
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
