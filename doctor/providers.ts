import type { ClusterFacts, ServiceFacts } from "./facts.ts";

/** A provider's own fix for the short circuit. */
interface Provider {
  readonly title: string;
  readonly cure: string;
}

interface KnownProvider extends Provider {
  /** Prefixes of `spec.providerID` of its nodes. */
  readonly nodes: readonly string[];
  /** Prefix of its annotations on Services. */
  readonly annotation: string;
}

const set = (annotation: string, value: string): string => `annotate the Service with \`${annotation}: ${value}\``;
const HOSTNAME = "<hostname that resolves to the load balancer>";

/** Annotations as the providers' cloud controllers read them (their documentation and sources). */
export const PROVIDERS: readonly KnownProvider[] = [
  {
    title: "Hetzner Cloud",
    nodes: ["hcloud://"],
    annotation: "load-balancer.hetzner.cloud/",
    // The provider's cloud controller supports this since v1.21.
    cure:
      "update its cloud controller (it sets ipMode: Proxy by itself with the PROXY protocol on), " +
      `or ${set("load-balancer.hetzner.cloud/hostname", HOSTNAME)}`,
  },
  {
    title: "DigitalOcean",
    nodes: ["digitalocean://"],
    annotation: "service.beta.kubernetes.io/do-",
    cure: set("service.beta.kubernetes.io/do-loadbalancer-hostname", HOSTNAME),
  },
  {
    title: "Scaleway",
    nodes: ["scaleway://"],
    annotation: "service.beta.kubernetes.io/scw-",
    // Source of the second annotation: scaleway/scaleway-cloud-controller-manager,
    // scaleway/loadbalancers_annotations.go.
    cure:
      `${set("service.beta.kubernetes.io/scw-loadbalancer-use-hostname", '"true"')}, ` +
      "or with `service.beta.kubernetes.io/scw-loadbalancer-ip-mode: Proxy`",
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
    cure: set("service.beta.kubernetes.io/vultr-loadbalancer-hostname", HOSTNAME),
  },
  {
    title: "cloudscale",
    nodes: ["cloudscale://"],
    annotation: "k8s.cloudscale.ch/",
    cure:
      `${set("k8s.cloudscale.ch/loadbalancer-ip-mode", "Proxy")}, ` +
      `or with \`k8s.cloudscale.ch/loadbalancer-force-hostname: ${HOSTNAME}\``,
  },
  {
    title: "Oracle Cloud",
    // An OCID has no scheme.
    nodes: ["ocid1."],
    annotation: "oci.oraclecloud.com/",
    cure: set("oci.oraclecloud.com/ingress-ip-mode", "Proxy"),
  },
  {
    title: "CloudStack",
    nodes: ["cloudstack://", "external-cloudstack://"],
    annotation: "service.beta.kubernetes.io/cloudstack-",
    cure: set("service.beta.kubernetes.io/cloudstack-load-balancer-hostname", HOSTNAME),
  },
  {
    title: "OpenStack",
    nodes: ["openstack://"],
    annotation: "loadbalancer.openstack.org/",
    cure:
      "update its cloud controller (it sets ipMode: Proxy by itself with the PROXY protocol on), " +
      `or ${set("loadbalancer.openstack.org/hostname", HOSTNAME)}`,
  },
  {
    title: "STACKIT",
    nodes: ["stackit://"],
    annotation: "lb.stackit.cloud/",
    // stackitcloud/cloud-provider-stackit, docs/load-balancer.md.
    cure: set("lb.stackit.cloud/ip-mode-proxy", '"true"'),
  },
  {
    // Its nodes have the prefix `aws://`, like those of AWS.
    title: "Outscale",
    nodes: [],
    annotation: "service.beta.kubernetes.io/osc-",
    // outscale/cloud-provider-osc, docs/annotations.md.
    cure: set("service.beta.kubernetes.io/osc-load-balancer-ingress-ipmode", "Proxy"),
  },
  {
    title: "AWS",
    nodes: ["aws://"],
    annotation: "service.beta.kubernetes.io/aws-load-balancer-",
    // A network load balancer may send a connection back to the node that it came from, which drops it
    // (cloud-provider-aws 1160).
    cure:
      "turn off the preservation of client addresses: " +
      set("service.beta.kubernetes.io/aws-load-balancer-target-group-attributes", "preserve_client_ip.enabled=false"),
  },
];

/** Infers the load balancer's provider from the Service's annotations, or from the nodes; undefined if unknown. */
function providerOf({ annotations }: ServiceFacts, { providerIds }: ClusterFacts): Provider | undefined {
  const keys = Object.keys(annotations);
  const byService = PROVIDERS.find(({ annotation }) => keys.some((key) => key.startsWith(annotation)));
  if (byService !== undefined || !providerIds.known) return byService;
  return PROVIDERS.find(({ nodes }) => providerIds.value.some((id) => nodes.some((start) => id.startsWith(start))));
}

/** Fixes for the short circuit that do not need Switchback, the provider's own fix first. */
export function providerCures(service: ServiceFacts, facts: ClusterFacts): string[] {
  const general =
    "have the provider's controller set `ipMode: Proxy` in the Service's status " +
    "(Kubernetes 1.30 and newer, if the network plugin supports it)";
  return [...ownCures(service, facts), general];
}

/** The provider's own fix; empty if the provider is unknown. */
export function ownCures(service: ServiceFacts, facts: ClusterFacts): string[] {
  const provider = providerOf(service, facts);
  return provider === undefined ? [] : [`${provider.title}: ${provider.cure}`];
}
