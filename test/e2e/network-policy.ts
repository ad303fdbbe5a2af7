import { NGINX, PLAIN, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import { ADDRESSES } from "../cluster/node/layout.ts";

/** A namespace whose pods may read metrics, as Prometheus does. */
export const MONITORING = "monitoring";

/**
 * The chart's `networkPolicy` for this machine's cluster, as narrow as possible. For each component, it says which
 * clients may connect to it and what it may connect to. The address `client` of the internet stands for an API server
 * on another machine.
 */
export function narrowNetworkPolicy(): object {
  const controllers = [NGINX, TRAEFIK, PLAIN].map(({ namespace }) => namespace);
  const apiServers = [block(ADDRESSES.node), block(ADDRESSES.client)];
  return {
    enabled: true,
    apiServer: { cidrs: [`${ADDRESSES.node}/32`], ports: [6443] },
    dns: { cidrs: [ADDRESSES.podRange] },
    ingressControllers: [inNamespaces(...controllers)],
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
