import type { Cluster } from "../cluster.ts";
import { FAMILIES, withPort } from "../node/layout.ts";

/** A Service, and the addresses that its status gets. */
export interface PublishedService {
  namespace: string;
  service: string;
  /** One address of each family. The first one is also `address`. */
  addresses: readonly string[];
  address: string;
}

/** A load balancer of "the internet": its addresses, the node ports it leads to, and the header that it adds. */
export interface LoadBalancer extends PublishedService {
  nodePorts: { http: number; https: number };
  /** The PROXY protocol version, as Switchback's configuration names it. */
  protocol: "v1" | "v2" | "none";
}

export const NGINX: LoadBalancer = {
  namespace: "ingress-nginx",
  service: "ingress-nginx-controller",
  ...addressesOf(({ nginxLoadBalancer }) => nginxLoadBalancer),
  nodePorts: { http: 30080, https: 30443 },
  protocol: "v1",
};

export const TRAEFIK: LoadBalancer = {
  namespace: "traefik",
  service: "traefik",
  ...addressesOf(({ traefikLoadBalancer }) => traefikLoadBalancer),
  nodePorts: { http: 31080, https: 31443 },
  protocol: "v2",
};

/**
 * Adds no header, and kube-proxy does not short-circuit it. Its address does not answer to pods, like one behind a
 * router without hairpin NAT.
 */
export const PLAIN: LoadBalancer = {
  namespace: "plain",
  service: "plain",
  ...addressesOf(({ plainLoadBalancer }) => plainLoadBalancer),
  nodePorts: { http: 32080, https: 32443 },
  protocol: "none",
};

/** The names come from Contour's own manifests. */
export const CONTOUR: LoadBalancer = {
  namespace: "projectcontour",
  service: "envoy",
  ...addressesOf(({ contourLoadBalancer }) => contourLoadBalancer),
  nodePorts: { http: 30081, https: 30444 },
  protocol: "v1",
};

/**
 * The tests have two Gateways of Envoy Gateway. This one demands a header; the other one also serves clients without
 * a header.
 */
export const ENVOY: LoadBalancer = {
  namespace: "envoy-gateway-system",
  service: "envoy-demanding",
  ...addressesOf(({ envoyLoadBalancer }) => envoyLoadBalancer),
  nodePorts: { http: 30082, https: 30445 },
  protocol: "v2",
};

export const ENVOY_OPTIONAL: LoadBalancer = {
  namespace: "envoy-gateway-system",
  service: "envoy-optional",
  ...addressesOf(({ optionalLoadBalancer }) => optionalLoadBalancer),
  nodePorts: { http: 30083, https: 30446 },
  protocol: "v2",
};

/** All load balancers that clients outside can use. */
export const LOAD_BALANCERS: readonly LoadBalancer[] = [NGINX, TRAEFIK, PLAIN, CONTOUR, ENVOY, ENVOY_OPTIONAL];

const SEND = { v1: " send-proxy", v2: " send-proxy-v2", none: "" };

/** The address of a load balancer in each family. */
export function addressesOf(
  of: (family: (typeof FAMILIES)[number]) => string,
): Pick<LoadBalancer, "address" | "addresses"> {
  return { address: of(FAMILIES[0]), addresses: FAMILIES.map(of) };
}

/**
 * Does what a cloud's controller does: writes the address into the Service's status. From there, kube-proxy takes the
 * address and short-circuits it.
 */
export async function publishAddress(
  cluster: Cluster,
  balancer: PublishedService,
  ipMode: "VIP" | "Proxy" = "VIP",
): Promise<void> {
  const status = { loadBalancer: { ingress: balancer.addresses.map((ip) => ({ ip, ipMode })) } };
  const { namespace, service } = balancer;
  const patch = ["--subresource=status", "--type=merge", "-p", JSON.stringify({ status })];
  await cluster.kubectl("-n", namespace, "patch", "service", service, ...patch);
}

/**
 * HAProxy's configuration, which does what the clouds' load balancers do. All of them connect to nodes by the first
 * family.
 */
export function haproxyConfiguration(balancers: readonly LoadBalancer[]): string {
  const [{ node }] = FAMILIES;
  const listeners = balancers.flatMap(({ service, addresses, nodePorts, protocol }) => {
    return Object.entries({ http: 80, https: 443 }).map(([name, port]) => {
      const nodePort = nodePorts[name as keyof typeof nodePorts];
      const binds = addresses.map((address) => `  bind ${withPort(address, port)}\n`).join("");
      return `listen ${service}-${name}\n${binds}  server node ${withPort(node, nodePort)}${SEND[protocol]}\n`;
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
