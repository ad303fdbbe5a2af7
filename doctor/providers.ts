import type { ServiceFacts } from "./facts.ts";

/** A provider's own fix for the short circuit. */
interface Provider {
  readonly title: string;
  /** What makes the annotation needless. */
  readonly update?: string;
  /** The annotation that it reads, `KEY=VALUE`. */
  readonly set: string;
  /** Prefixes of its annotations on Services. */
  readonly annotations: readonly string[];
}

/** A name that resolves to the load balancer: the reader chooses it. */
const HOSTNAME = "HOSTNAME";
const UPDATE = "update its cloud controller, which then sets ipMode: Proxy, or";

/** Annotations as the providers' cloud controllers read them (their documentation and sources). */
export const PROVIDERS: readonly Provider[] = [
  {
    title: "Hetzner Cloud",
    annotations: ["load-balancer.hetzner.cloud/"],
    // The provider's cloud controller supports this since v1.21.
    update: UPDATE,
    set: `load-balancer.hetzner.cloud/hostname=${HOSTNAME}`,
  },
  {
    title: "DigitalOcean",
    annotations: ["service.beta.kubernetes.io/do-"],
    set: `service.beta.kubernetes.io/do-loadbalancer-hostname=${HOSTNAME}`,
  },
  {
    title: "Scaleway",
    annotations: ["service.beta.kubernetes.io/scw-"],
    // scaleway/scaleway-cloud-controller-manager, scaleway/loadbalancers_annotations.go.
    set: "service.beta.kubernetes.io/scw-loadbalancer-ip-mode=Proxy",
  },
  {
    title: "Linode",
    annotations: ["service.beta.kubernetes.io/linode-"],
    set: "service.beta.kubernetes.io/linode-loadbalancer-hostname-only-ingress=true",
  },
  {
    title: "Vultr",
    annotations: ["service.beta.kubernetes.io/vultr-"],
    set: `service.beta.kubernetes.io/vultr-loadbalancer-hostname=${HOSTNAME}`,
  },
  {
    title: "cloudscale",
    annotations: ["k8s.cloudscale.ch/"],
    set: "k8s.cloudscale.ch/loadbalancer-ip-mode=Proxy",
  },
  {
    title: "Oracle Cloud",
    annotations: [
      "oci.oraclecloud.com/",
      "oci-network-load-balancer.oraclecloud.com/",
      "service.beta.kubernetes.io/oci-",
    ],
    set: "oci.oraclecloud.com/ingress-ip-mode=Proxy",
  },
  {
    title: "CloudStack",
    annotations: ["service.beta.kubernetes.io/cloudstack-"],
    set: `service.beta.kubernetes.io/cloudstack-load-balancer-hostname=${HOSTNAME}`,
  },
  {
    title: "OpenStack",
    // The second is OVHcloud's, which runs OpenStack.
    annotations: ["loadbalancer.openstack.org/", "service.beta.kubernetes.io/ovh-"],
    update: UPDATE,
    set: `loadbalancer.openstack.org/hostname=${HOSTNAME}`,
  },
  {
    title: "STACKIT",
    annotations: ["lb.stackit.cloud/"],
    // stackitcloud/cloud-provider-stackit, docs/load-balancer.md.
    set: "lb.stackit.cloud/ip-mode-proxy=true",
  },
  {
    title: "Outscale",
    annotations: ["service.beta.kubernetes.io/osc-"],
    // outscale/cloud-provider-osc, docs/annotations.md.
    set: "service.beta.kubernetes.io/osc-load-balancer-ingress-ipmode=Proxy",
  },
  {
    title: "AWS",
    annotations: ["service.beta.kubernetes.io/aws-load-balancer-"],
    // A network load balancer may send a connection back to the node that it came from, which drops it
    // (cloud-provider-aws 1160).
    set: "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes=preserve_client_ip.enabled=false",
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
  if (provider === undefined) return [];
  const { title, update, set } = provider;
  const command = annotateCommand(service, set);
  const note = set.endsWith(HOSTNAME) ? "   # a name that resolves to the load balancer" : "";
  return [`${title}: ${update === undefined ? "" : `${update} `}${command}${note}`];
}

/** The command that sets an annotation of a Service. */
export function annotateCommand({ namespace, name }: ServiceFacts, annotation: string): string {
  return `kubectl -n ${namespace} annotate service ${name} ${annotation}`;
}

/**
 * What marks a Service whose address MetalLB or Cilium's LB IPAM gave: an annotation of MetalLB (metallb/metallb,
 * controller/service.go, `AnnotationIPAllocateFromPool`), or a condition of Cilium (cilium/cilium, operator/pkg/lbipam,
 * `ciliumSvcRequestSatisfiedCondition`).
 */
export const ANNOUNCED: readonly string[] = [
  "metallb.io/ip-allocated-from-pool",
  "metallb.universe.tf/ip-allocated-from-pool",
  "cilium.io/IPAMRequestSatisfied",
];

function isAnnounced({ annotations, conditions }: ServiceFacts): boolean {
  return ANNOUNCED.some((mark) => mark in annotations || conditions.includes(mark));
}
