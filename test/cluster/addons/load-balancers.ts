import type { Cluster } from "../cluster.ts";
import { ADDRESSES } from "../node/layout.ts";

/** A load balancer of "the internet": its address, the node ports it leads to, and the header that it adds, if any. */
export interface LoadBalancer {
  namespace: string;
  service: string;
  address: string;
  nodePorts: { http: number; https: number };
  /** The PROXY protocol version, as Switchback's configuration names it. */
  protocol: "v1" | "v2" | "none";
}

export const NGINX: LoadBalancer = {
  namespace: "ingress-nginx",
  service: "ingress-nginx-controller",
  address: ADDRESSES.nginxLoadBalancer,
  nodePorts: { http: 30080, https: 30443 },
  protocol: "v1",
};

export const TRAEFIK: LoadBalancer = {
  namespace: "traefik",
  service: "traefik",
  address: ADDRESSES.traefikLoadBalancer,
  nodePorts: { http: 31080, https: 31443 },
  protocol: "v2",
};

/** No header, no short circuit: its address simply does not answer to pods, as behind a router without hairpin NAT. */
export const PLAIN: LoadBalancer = {
  namespace: "plain",
  service: "plain",
  address: ADDRESSES.plainLoadBalancer,
  nodePorts: { http: 32080, https: 32443 },
  protocol: "none",
};

const SEND = { v1: " send-proxy", v2: " send-proxy-v2", none: "" };

/** What a cloud's controller does: the address in the Service's status, from where kube-proxy short-circuits it. */
export async function publishAddress(
  cluster: Cluster,
  balancer: LoadBalancer,
  ipMode: "VIP" | "Proxy" = "VIP",
): Promise<void> {
  const status = { loadBalancer: { ingress: [{ ip: balancer.address, ipMode }] } };
  const { namespace, service } = balancer;
  const patch = ["--subresource=status", "--type=merge", "-p", JSON.stringify({ status })];
  await cluster.kubectl("-n", namespace, "patch", "service", service, ...patch);
}

/** HAProxy's configuration: what the clouds' load balancers do for both Services. */
export function haproxyConfiguration(balancers: readonly LoadBalancer[]): string {
  const listeners = balancers.flatMap(({ service, address, nodePorts, protocol }) => {
    return Object.entries({ http: 80, https: 443 }).map(([name, port]) => {
      const nodePort = nodePorts[name as keyof typeof nodePorts];
      return (
        `listen ${service}-${name}\n  bind ${address}:${port}\n  server node ` +
        `${ADDRESSES.node}:${nodePort}${SEND[protocol]}\n`
      );
    });
  });
  return `global
  log stderr format raw local0
defaults
  log global
  mode tcp
  option tcplog
  timeout connect 5s
  timeout client 1m
  timeout server 1m
${listeners.join("")}`;
}
