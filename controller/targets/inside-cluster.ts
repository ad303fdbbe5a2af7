import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, keyOf } from "./address-table.ts";
import { canonicalIp } from "./service-view.ts";

/**
 * Why a Gateway is not ingress: it says so itself, its status has only ClusterIPs, or the Service that was made for
 * it is of type ClusterIP. Such a Service has the label of GEP-1762 and is in the namespace of its Gateway. An
 * address of a load balancer is evidence of ingress.
 */
export function insideCluster(hints: RoutingHints, table: AddressTable): Reason | undefined {
  const { gateway, inside, addresses } = hints;
  if (inside !== undefined || gateway === undefined) return inside;
  if (addresses.some((address) => table.at(address).length > 0)) return undefined;
  const services = [...table.values()];
  // Anybody can label a Service with the names of others.
  const made = services.filter((view) => view.gateway === keyOf(gateway) && view.namespace === gateway.namespace);
  const [first] = made;
  if (first !== undefined && made.every((view) => view.inside)) {
    return { code: CODE, text: `the Service ${keyOf(first)} of the Gateway is of type ClusterIP` };
  }
  const [address] = addresses;
  const clusterIPs = new Set(services.flatMap((view) => (view.inside ? view.clusterIPs.map(canonicalIp) : [])));
  if (address === undefined || !addresses.every((one) => clusterIPs.has(canonicalIp(one)))) return undefined;
  return { code: CODE, text: `the Gateway's only address is ${show(address)}, a ClusterIP` };
}

const CODE = "gateway-inside-cluster";
