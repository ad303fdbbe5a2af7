import type { ServiceFacts } from "./facts.ts";

/** A provider's own fix for the short circuit. */
interface Provider {
  readonly title: string;
  readonly cure: string;
  /** Prefixes of its annotations on Services. */
  readonly annotations: readonly string[];
}

const set = (annotation: string, value: string): string => `annotate the Service with \`${annotation}: ${value}\``;
const HOSTNAME = "<hostname that resolves to the load balancer>";

/** Annotations as the providers' cloud controllers read them (their documentation and sources). */
const PROVIDERS: readonly Provider[] = [
  {
    title: "Hetzner Cloud",
    annotations: ["load-balancer.hetzner.cloud/"],
    // The provider's cloud controller supports this since v1.21.
    cure:
      "update its cloud controller (it sets ipMode: Proxy by itself with the PROXY protocol on), " +
      `or ${set("load-balancer.hetzner.cloud/hostname", HOSTNAME)}`,
  },
  {
    title: "DigitalOcean",
    annotations: ["service.beta.kubernetes.io/do-"],
    cure: set("service.beta.kubernetes.io/do-loadbalancer-hostname", HOSTNAME),
  },
  {
    title: "Scaleway",
    annotations: ["service.beta.kubernetes.io/scw-"],
    // Source of the second annotation: scaleway/scaleway-cloud-controller-manager,
    // scaleway/loadbalancers_annotations.go.
    cure:
      `${set("service.beta.kubernetes.io/scw-loadbalancer-use-hostname", '"true"')}, ` +
      "or with `service.beta.kubernetes.io/scw-loadbalancer-ip-mode: Proxy`",
  },
  {
    title: "Linode",
    annotations: ["service.beta.kubernetes.io/linode-"],
    cure: set("service.beta.kubernetes.io/linode-loadbalancer-hostname-only-ingress", '"true"'),
  },
  {
    title: "Vultr",
    annotations: ["service.beta.kubernetes.io/vultr-"],
    cure: set("service.beta.kubernetes.io/vultr-loadbalancer-hostname", HOSTNAME),
  },
  {
    title: "cloudscale",
    annotations: ["k8s.cloudscale.ch/"],
    cure:
      `${set("k8s.cloudscale.ch/loadbalancer-ip-mode", "Proxy")}, ` +
      `or with \`k8s.cloudscale.ch/loadbalancer-force-hostname: ${HOSTNAME}\``,
  },
  {
    title: "Oracle Cloud",
    annotations: [
      "oci.oraclecloud.com/",
      "oci-network-load-balancer.oraclecloud.com/",
      "service.beta.kubernetes.io/oci-",
    ],
    cure: set("oci.oraclecloud.com/ingress-ip-mode", "Proxy"),
  },
  {
    title: "CloudStack",
    annotations: ["service.beta.kubernetes.io/cloudstack-"],
    cure: set("service.beta.kubernetes.io/cloudstack-load-balancer-hostname", HOSTNAME),
  },
  {
    title: "OpenStack",
    // The second is OVHcloud's, which runs OpenStack.
    annotations: ["loadbalancer.openstack.org/", "service.beta.kubernetes.io/ovh-"],
    cure:
      "update its cloud controller (it sets ipMode: Proxy by itself with the PROXY protocol on), " +
      `or ${set("loadbalancer.openstack.org/hostname", HOSTNAME)}`,
  },
  {
    title: "STACKIT",
    annotations: ["lb.stackit.cloud/"],
    // stackitcloud/cloud-provider-stackit, docs/load-balancer.md.
    cure: set("lb.stackit.cloud/ip-mode-proxy", '"true"'),
  },
  {
    title: "Outscale",
    annotations: ["service.beta.kubernetes.io/osc-"],
    // outscale/cloud-provider-osc, docs/annotations.md.
    cure: set("service.beta.kubernetes.io/osc-load-balancer-ingress-ipmode", "Proxy"),
  },
  {
    title: "AWS",
    annotations: ["service.beta.kubernetes.io/aws-load-balancer-"],
    // A network load balancer may send a connection back to the node that it came from, which drops it
    // (cloud-provider-aws 1160).
    cure:
      "turn off the preservation of client addresses: " +
      set("service.beta.kubernetes.io/aws-load-balancer-target-group-attributes", "preserve_client_ip.enabled=false"),
  },
];

/**
 * The provider's own fix; empty if the provider is unknown. Only the Service's annotations say which provider's
 * controller made its load balancer: nodes of a cloud may have a Service whose address MetalLB or Cilium announces.
 *
 * Never suggests `ipMode: Proxy` for an announced address: kube-proxy and Cilium then leave it alone, so nobody answers
 * there (https://github.com/cozystack/cozystack/pull/2561). An entry of `externalIPs` has no `ipMode`.
 */
export function providerCures(service: ServiceFacts): string[] {
  if (isAnnounced(service) || service.entries.every(({ external }) => external)) return [];
  const keys = Object.keys(service.annotations);
  const provider = PROVIDERS.find(({ annotations }) =>
    annotations.some((start) => keys.some((key) => key.startsWith(start))),
  );
  return provider === undefined ? [] : [`${provider.title}: ${provider.cure}`];
}

/**
 * Whether MetalLB or Cilium's LB IPAM gave the Service its address. MetalLB then sets an annotation (metallb/metallb,
 * controller/service.go, `AnnotationIPAllocateFromPool`), Cilium a condition (cilium/cilium, operator/pkg/lbipam,
 * `ciliumSvcRequestSatisfiedCondition`).
 */
function isAnnounced({ annotations, conditions }: ServiceFacts): boolean {
  return (
    "metallb.io/ip-allocated-from-pool" in annotations ||
    "metallb.universe.tf/ip-allocated-from-pool" in annotations ||
    conditions.includes("cilium.io/IPAMRequestSatisfied")
  );
}
