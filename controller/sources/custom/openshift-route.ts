import type { Reason } from "#hostmap/types.ts";
import { ClaimList } from "../claim-list.ts";
import { ignoredBy, listOf, mapOf, originOf, type Raw, textOf } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";

/**
 * The claims of an OpenShift Route (route.openshift.io/v1). Each router writes an entry of `status.ingress` with the
 * host that it serves (openshift/api, route/v1/types.go). So a Route with `spec.subdomain` has its name only there.
 * An entry counts if its router admitted the Route. `routerCanonicalHostname` is the value for a CNAME record: a name
 * below the router's domain, not a load balancer address. Host and policy of a Route are immutable, so `spec`
 * provides those that an entry omits.
 */
export function routeClaims(raw: Raw, kind: string): readonly View[] {
  const origin = originOf(kind, raw);
  const claims = new ClaimList(origin);
  const spec = mapOf(raw.spec);
  const entries = listOf(mapOf(raw.status).ingress).map(mapOf);
  const admitted = entries.filter(isAdmitted);
  const ignored = ignoredBy(kind);
  const waiting = { code: "not-admitted", text: `no router has admitted the ${kind}` };
  const byRouter = new Map<string | undefined, RoutingHints>();
  const hintsOf = ({ routerName }: Raw): RoutingHints | Reason => {
    if (origin.ignored) return ignored;
    if (admitted.length === 0) return waiting;
    const className = textOf(routerName);
    const hints = byRouter.get(className) ?? {
      className,
      controller: "openshift.io/router",
      addresses: [],
      admitted: true,
    };
    byRouter.set(className, hints);
    return hints;
  };
  for (const entry of admitted.length > 0 ? admitted : [{}]) {
    const host = textOf(entry.host) ?? textOf(spec.host);
    const policy = textOf(entry.wildcardPolicy) ?? textOf(spec.wildcardPolicy);
    if (host !== undefined) claims.add(policy === "Subdomain" ? wildcardOf(host) : host, hintsOf(entry));
  }
  return claims.all;
}

function isAdmitted({ conditions }: Raw): boolean {
  return listOf(conditions)
    .map(mapOf)
    .some(({ type, status }) => type === "Admitted" && status === "True");
}

/**
 * With the policy `Subdomain`, the first label of the host is a placeholder (openshift/api, WildcardPolicySubdomain).
 */
function wildcardOf(host: string): string {
  return `*.${host.slice(host.indexOf(".") + 1)}`;
}
