import type { Reason } from "#hostmap/types.ts";
import { canonicalIp, literalsOf } from "./service-view.ts";

// Controllers on the host's network or behind NodePorts write addresses of nodes into the status of their objects:
// ingress-nginx without `--publish-service` (kubernetes/ingress-nginx, internal/ingress/status/status.go,
// `runningAddresses`), Traefik with a published Service of type NodePort (traefik/traefik,
// pkg/provider/kubernetes/ingress/kubernetes.go, `updateIngressStatus`), Cilium's Gateways in host network mode. Our
// controller does not read Nodes: their addresses are in the status, which the kubelets of 5,000 nodes change all the
// time. A caller that has the list, such as the doctor, passes it.

/** Hint in a reason about an address that no Service has, if Nodes are not read. */
export const MAY_BE_A_NODE = "it may be a node's: see `switchback doctor`";

/**
 * Why an object is not mapped if its status has only IPs of nodes; undefined: it has other IPs, or nodes are not
 * known.
 */
export function nodeAddress(addresses: readonly string[], nodes: ReadonlySet<string> | undefined): Reason | undefined {
  const ips = literalsOf(addresses).map(canonicalIp);
  if (nodes === undefined || ips.length === 0 || !ips.every((ip) => nodes.has(ip))) return undefined;
  const text = `its status has ${ips.join(", ")}, of nodes: no Service has them, so pods reach them without a mapping`;
  return { code: "node-address", text };
}
