import type { Reason } from "#hostmap/types.ts";
import { ClaimList } from "../claim-list.ts";
import { ignoredBy, listOf, mapOf, type ObjectOrigin, originOf, type Raw, textOf } from "../raw-object.ts";
import type { RoutingHints, UnresolvedClaim } from "../types.ts";
import { namesIn } from "./names.ts";

/** The annotations of external-dns, comma-separated hostnames: with its prefix since 0.22, and with the older one. */
const HOSTNAME_ANNOTATIONS = [
  "external-dns.kubernetes.io/hostname",
  "external-dns.alpha.kubernetes.io/hostname",
] as const;

/**
 * The claims of a Service: the names that external-dns publishes for it. Only a load balancer's address is
 * short-circuited.
 */
export function serviceClaims(raw: Raw): readonly UnresolvedClaim[] {
  const annotations = mapOf(mapOf(raw.metadata).annotations);
  const hostnames = HOSTNAME_ANNOTATIONS.flatMap((key) => textOf(annotations[key]) ?? []).join();
  if (hostnames === "") return [];
  const origin = originOf("Service", raw);
  const claims = new ClaimList(origin);
  const hints = hintsOf(raw, origin);
  for (const name of namesIn(hostnames, "list") ?? []) claims.add(name, hints);
  return claims.all;
}

function hintsOf(raw: Raw, { ref, ignored }: ObjectOrigin): RoutingHints | Reason {
  if (ignored) return ignoredBy(ref.kind);
  const { type } = mapOf(raw.spec);
  if (type !== "LoadBalancer") {
    return {
      code: "not-a-load-balancer",
      text: "the Service is not of type LoadBalancer: pods reach its address directly",
    };
  }
  const ingress = listOf(mapOf(mapOf(raw.status).loadBalancer).ingress).map(mapOf);
  const addresses = ingress.flatMap(({ ip, hostname }) =>
    [textOf(ip), textOf(hostname)].filter((one) => one !== undefined),
  );
  const { namespace, name } = ref;
  return { className: undefined, addresses, admitted: addresses.length > 0, service: { namespace, name } };
}
