import { isIP } from "node:net";
import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { mapOf, type Raw } from "../raw-object.ts";

/**
 * Annotation of a Gateway: the type of the Service that Istio makes for it (istio,
 * pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go).
 */
const SERVICE_TYPE = "networking.istio.io/service-type";
const DEFAULT_DOMAIN = "cluster.local";

/**
 * Why a Gateway is not ingress: it is reachable only inside the cluster. Istio reports the name of the Service as the
 * address if the Service has no external one (pilot/pkg/config/kube/gateway/conversion.go, `reportGatewayStatus`). So
 * an egress gateway, or a mesh's gateway, has such a name. A load balancer may have it briefly, until it gets its
 * address.
 */
export function insideCluster(
  raw: Raw,
  addresses: readonly string[],
  clusterDomain = DEFAULT_DOMAIN,
): Reason | undefined {
  if (mapOf(mapOf(raw.metadata).annotations)[SERVICE_TYPE] === "ClusterIP") {
    return { code: "gateway-inside-cluster", text: `the Gateway asks for a ClusterIP Service by ${SERVICE_TYPE}` };
  }
  const [first] = addresses;
  if (first === undefined || !addresses.every((address) => isServiceName(address, clusterDomain))) return undefined;
  const text = `the Gateway's only address is ${show(first)}, a name inside the cluster`;
  return { code: "gateway-inside-cluster", text };
}

/** Whether an address is the DNS name of a Service: `*.svc`, or `*.svc` with the cluster's domain. */
function isServiceName(address: string, clusterDomain: string): boolean {
  if (isIP(address) !== 0) return false;
  const name = address.toLowerCase().replace(/\.$/, "");
  return [".svc", `.svc.${clusterDomain.toLowerCase().replace(/\.$/, "")}`].some((end) => name.endsWith(end));
}
