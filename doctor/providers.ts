import type { ServiceFacts } from "./facts.ts";

/** A provider's own fix for the short circuit. */
interface Provider {
  readonly title: string;
  /** Prefixes of its annotations on Services. */
  readonly annotations: readonly string[];
  /** The annotation that it reads, `KEY=VALUE`. */
  readonly set: string;
  /** What makes the annotation needless. */
  readonly update?: string;
}

/** A name that resolves to the load balancer: the reader chooses it. */
const HOSTNAME = "HOSTNAME";
const UPDATE = { update: "update its cloud controller, which then sets ipMode: Proxy, or" };
const BETA = "service.beta.kubernetes.io/";

/** A row of the table: the prefix of the provider's annotations, and the rest of the one to set. */
function provider(title: string, prefix: string, rest: string, more: Partial<Provider> = {}): Provider {
  const { annotations = [] } = more;
  return { title, set: `${prefix}${rest}`, ...more, annotations: [prefix, ...annotations] };
}

/** Annotations as the providers' cloud controllers read them (their documentation and sources). */
export const PROVIDERS: readonly Provider[] = [
  // The provider's cloud controller supports this since v1.21.
  provider("Hetzner Cloud", "load-balancer.hetzner.cloud/", `hostname=${HOSTNAME}`, UPDATE),
  provider("DigitalOcean", `${BETA}do-`, `loadbalancer-hostname=${HOSTNAME}`),
  // scaleway/scaleway-cloud-controller-manager, scaleway/loadbalancers_annotations.go.
  provider("Scaleway", `${BETA}scw-`, "loadbalancer-ip-mode=Proxy"),
  provider("Linode", `${BETA}linode-`, "loadbalancer-hostname-only-ingress=true"),
  provider("Vultr", `${BETA}vultr-`, `loadbalancer-hostname=${HOSTNAME}`),
  provider("cloudscale", "k8s.cloudscale.ch/", "loadbalancer-ip-mode=Proxy"),
  provider("Oracle Cloud", "oci.oraclecloud.com/", "ingress-ip-mode=Proxy", {
    annotations: ["oci-network-load-balancer.oraclecloud.com/", `${BETA}oci-`],
  }),
  provider("CloudStack", `${BETA}cloudstack-`, `load-balancer-hostname=${HOSTNAME}`),
  // OVHcloud runs OpenStack.
  provider("OpenStack", "loadbalancer.openstack.org/", `hostname=${HOSTNAME}`, {
    ...UPDATE,
    annotations: [`${BETA}ovh-`],
  }),
  // stackitcloud/cloud-provider-stackit, docs/load-balancer.md.
  provider("STACKIT", "lb.stackit.cloud/", "ip-mode-proxy=true"),
  // outscale/cloud-provider-osc, docs/annotations.md.
  provider("Outscale", `${BETA}osc-`, "load-balancer-ingress-ipmode=Proxy"),
  // A network load balancer may send a connection back to the node that it came from, which drops it
  // (cloud-provider-aws 1160).
  provider("AWS", `${BETA}aws-load-balancer-`, "target-group-attributes=preserve_client_ip.enabled=false"),
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
  const found = PROVIDERS.find(({ annotations }) =>
    annotations.some((start) => keys.some((key) => key.startsWith(start))),
  );
  if (found === undefined) return [];
  const { title, update, set } = found;
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
