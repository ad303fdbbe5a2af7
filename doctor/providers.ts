import type { ClusterFacts, ServiceFacts } from "./facts.ts";

/** A provider's own way out of the short circuit. */
interface Provider {
  readonly title: string;
  readonly cure: string;
}

interface Known extends Provider {
  /** Start of `spec.providerID` of its nodes. */
  readonly nodes: readonly string[];
  /** A part that its annotations on Services have in common. */
  readonly annotation: string;
}

const set = (annotation: string, value: string): string => `annotate the Service with \`${annotation}: ${value}\``;
const aName = "<a name that leads to the load balancer>";

/** Annotations as the providers' cloud controllers read them (their documentation and sources). */
const PROVIDERS: readonly Known[] = [
  {
    title: "Hetzner Cloud",
    nodes: ["hcloud://"],
    annotation: "load-balancer.hetzner.cloud/",
    // From v1.21 of its cloud controller on.
    cure: `update its cloud controller (it sets ipMode: Proxy by itself with the PROXY protocol on), or ${set("load-balancer.hetzner.cloud/hostname", aName)}`,
  },
  {
    title: "DigitalOcean",
    nodes: ["digitalocean://"],
    annotation: "service.beta.kubernetes.io/do-",
    cure: set("service.beta.kubernetes.io/do-loadbalancer-hostname", aName),
  },
  {
    title: "Scaleway",
    nodes: ["scaleway://"],
    annotation: "service.beta.kubernetes.io/scw-",
    cure: set("service.beta.kubernetes.io/scw-loadbalancer-use-hostname", '"true"'),
  },
  {
    title: "Linode",
    nodes: ["linode://"],
    annotation: "service.beta.kubernetes.io/linode-",
    cure: set("service.beta.kubernetes.io/linode-loadbalancer-hostname-only-ingress", '"true"'),
  },
  {
    title: "Vultr",
    nodes: ["vultr://"],
    annotation: "service.beta.kubernetes.io/vultr-",
    cure: set("service.beta.kubernetes.io/vultr-loadbalancer-hostname", aName),
  },
  {
    title: "cloudscale",
    nodes: ["cloudscale://"],
    annotation: "k8s.cloudscale.ch/",
    cure: `${set("k8s.cloudscale.ch/loadbalancer-ip-mode", "Proxy")}, or with \`k8s.cloudscale.ch/loadbalancer-force-hostname: ${aName}\``,
  },
  {
    title: "OpenStack",
    nodes: ["openstack://"],
    annotation: "loadbalancer.openstack.org/",
    cure: `update its cloud controller (it sets ipMode: Proxy by itself with the PROXY protocol on), or ${set("loadbalancer.openstack.org/hostname", aName)}`,
  },
];

/** Who provides a Service's load balancer, told by the Service's annotations, else by the nodes; undefined where neither tells. */
function providerOf({ annotations }: ServiceFacts, { providerIds }: ClusterFacts): Provider | undefined {
  const keys = Object.keys(annotations);
  const byService = PROVIDERS.find(({ annotation }) => keys.some((key) => key.startsWith(annotation)));
  if (byService !== undefined || !providerIds.known) return byService;
  return PROVIDERS.find(({ nodes }) => providerIds.value.some((id) => nodes.some((start) => id.startsWith(start))));
}

/** The ways out of the short circuit that need no Switchback, the provider's own first. */
export function providerCures(service: ServiceFacts, facts: ClusterFacts): string[] {
  const provider = providerOf(service, facts);
  const general =
    "have the provider's controller set `ipMode: Proxy` in the Service's status " +
    "(Kubernetes 1.32 and newer, where the network plugin honours it)";
  return provider === undefined ? [general] : [`${provider.title}: ${provider.cure}`, general];
}
