import type { Reason } from "#hostmap/types.ts";
import { EXTERNAL_DNS_PREFIXES } from "#lib/config/defaults.ts";
import { ClaimList } from "../claim-list.ts";
import { loadBalancerOf } from "../ingress-hosts.ts";
import { ignoredBy, mapOf, type ObjectOrigin, originOf, type Raw, textOf, withChoice } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import { namesIn } from "./names.ts";

/**
 * The claims of a Service: the comma-separated names in its annotation `hostname`, which external-dns publishes. Each
 * external-dns reads one prefix (source/annotations/annotations.go, `SetAnnotationPrefix`), and a cluster may have
 * several of them. Only the address of a load balancer is short-circuited.
 */
export function serviceClaims(raw: Raw, prefixes: readonly string[] = EXTERNAL_DNS_PREFIXES): readonly View[] {
  const annotations = mapOf(mapOf(raw.metadata).annotations);
  const hostnames = prefixes.flatMap((prefix) => textOf(annotations[`${prefix}hostname`]) ?? []).join();
  if (hostnames === "") return [];
  const origin = originOf("Service", raw);
  const claims = new ClaimList(origin);
  const hints = withChoice(hintsOf(raw, origin), origin);
  for (const name of namesIn(hostnames, "list") ?? []) claims.add(name, hints);
  return claims.all;
}

function hintsOf(raw: Raw, { ref, ignored }: ObjectOrigin): RoutingHints | Reason {
  if (ignored) return ignoredBy(ref.kind);
  const { type } = mapOf(raw.spec);
  if (type !== "LoadBalancer") {
    return {
      code: "not-short-circuited",
      text: "the Service is not of type LoadBalancer: pods reach its address directly",
    };
  }
  const addresses = loadBalancerOf(raw).flatMap(({ ip, hostname }) =>
    [textOf(ip), textOf(hostname)].filter((one) => one !== undefined),
  );
  const { namespace, name } = ref;
  return { className: undefined, addresses, admitted: addresses.length > 0, service: { namespace, name } };
}
