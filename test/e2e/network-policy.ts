import { NGINX, PLAIN, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import { ADDRESSES } from "../cluster/node/layout.ts";

/** May read metrics, as Prometheus does. */
export const MONITORING = "monitoring";
/** Has an ingress controller of its own (95-any-cluster.test.ts). */
const OWN_CONTROLLER = "switchback-e2e";

/**
 * The chart's `networkPolicy` for this machine's cluster, each part as narrow as it can be: for each of the
 * components, which clients may connect to it, and what it may connect to. `client` of the internet stands for an
 * API server on another machine.
 */
export function narrowNetworkPolicy(): object {
  const controllers = [NGINX, TRAEFIK, PLAIN].map(({ namespace }) => namespace);
  const apiServers = [block(ADDRESSES.node), block(ADDRESSES.client)];
  return {
    enabled: true,
    apiServer: { cidrs: [`${ADDRESSES.node}/32`], ports: [6443] },
    dns: { cidrs: [ADDRESSES.podRange] },
    ingressControllers: [inNamespaces(...controllers, OWN_CONTROLLER)],
    clients: {
      webhook: apiServers,
      health: [...apiServers, inNamespaces(MONITORING)],
      proxy: [{ namespaceSelector: {} }],
    },
  };
}

function block(address: string): object {
  return { ipBlock: { cidr: `${address}/32` } };
}

function inNamespaces(...names: string[]): object {
  return {
    namespaceSelector: {
      matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values: names }],
    },
  };
}
