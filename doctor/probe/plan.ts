import { frontName } from "#lib/documents/listeners.ts";
import { type ClusterFacts, objectKey, type ServicePort } from "../facts.ts";
import { findLoadBalancers, type LoadBalancer } from "../load-balancers.ts";
import { entryFor } from "../targets.ts";
import type { ProbeDial, ProbePlan } from "./result.ts";

/** Maximum number of lookups, for each load balancer and in total. The plan is an argument of the pod. */
const MAX_NAMES_EACH = 20;
const MAX_NAMES = 200;
/** A name that cannot exist (RFC 6761). */
const INVALID_NAME = "switchback-doctor.invalid";

/** Plans the probe: dials to each web port on each route, and lookups of each load balancer's names. */
export function planProbe(facts: ClusterFacts): ProbePlan {
  const loadBalancers = findLoadBalancers(facts);
  const names = loadBalancers.flatMap((loadBalancer) => [
    ...loadBalancer.names.slice(0, MAX_NAMES_EACH),
    ...loadBalancer.service.entries.flatMap(({ hostname }) => hostname ?? []),
  ]);
  const dials = loadBalancers.flatMap((loadBalancer) =>
    loadBalancer.service.ports.flatMap((port) => dialsAt(loadBalancer, port, facts)),
  );
  const own = [...new Set(loadBalancers.flatMap(({ addresses }) => addresses))];
  return { dials, names: [...new Set(names)].slice(0, MAX_NAMES), own };
}

function dialsAt(loadBalancer: LoadBalancer, port: ServicePort, facts: ClusterFacts): ProbeDial[] {
  const speaks = protocolOf(port);
  if (speaks === undefined) return [];
  const { service, names, addresses } = loadBalancer;
  // A TLS handshake needs a served name. An HTTP request does not: the ingress controller rejects
  // an unknown Host itself, so no backend receives the request.
  const name = speaks === "tls" ? (names[0] ?? INVALID_NAME) : INVALID_NAME;
  const common = { service: objectKey(service), servicePort: port.port, speaks, name } as const;
  const at = (
    via: ProbeDial["via"],
    address: string | undefined,
    header: ProbeDial["header"],
    dialPort = port.port,
  ): ProbeDial[] => (address === undefined ? [] : [{ ...common, via, address, port: dialPort, header }]);
  const front = frontOf(loadBalancer, port, facts);
  return [
    ...(["none", "v1", "v2"] as const).flatMap((header) => at("service", service.clusterIPs[0], header)),
    // kube-proxy may give pods the address of a node there: the answer may be another than to a pod's own address.
    ...(["none", "v1"] as const).flatMap((header) => at("balancer", addresses[0], header)),
    ...at("front", front?.address, "none", front?.port),
  ];
}

/** The address (if any) and port of the front Service for a port; undefined if the port is not relayed. */
function frontOf(
  { target }: LoadBalancer,
  { port }: ServicePort,
  facts: ClusterFacts,
): { address: string | undefined; port: number } | undefined {
  const entry = entryFor(target, port);
  if (target === undefined || entry?.listenPort === undefined || !target.fronted || !facts.services.known)
    return undefined;
  const key = `${facts.namespace}/${frontName(target.name)}`;
  const address = facts.services.value.find((service) => objectKey(service) === key)?.clusterIPs[0];
  return { address, port: entry.port };
}

/** Infers a port's protocol from its number, name or appProtocol; undefined if the port is not probed. */
function protocolOf({ port, name, appProtocol }: ServicePort): ProbeDial["speaks"] | undefined {
  if (port === 443 || port === 8443 || /https|tls|websecure/i.test(`${name} ${appProtocol}`)) return "tls";
  return port === 80 || port === 8080 || /http|web/i.test(`${name} ${appProtocol}`) ? "http" : undefined;
}
