import { frontName } from "../../snapshot/listeners.ts";
import { type Balancer, findBalancers } from "../balancers.ts";
import { type ClusterFacts, objectKey, type ServicePort } from "../facts.ts";
import { entryFor } from "../targets.ts";
import type { ProbeDial, ProbePlan } from "./result.ts";

/** Names looked up at most, of each load balancer and in all: the plan travels in the pod's arguments. */
const MAX_NAMES_EACH = 20;
const MAX_NAMES = 200;
/** Nobody's name: RFC 6761 keeps it from ever being one. */
const NO_NAME = "switchback-doctor.invalid";

/** What the probe pod asks: every web port in each way there is, and the names of every load balancer. */
export function planProbe(facts: ClusterFacts): ProbePlan {
  const balancers = findBalancers(facts);
  const names = balancers.flatMap((balancer) => [
    ...balancer.names.slice(0, MAX_NAMES_EACH),
    ...balancer.service.entries.flatMap(({ hostname }) => hostname ?? []),
  ]);
  const dials = balancers.flatMap((balancer) =>
    balancer.service.ports.flatMap((port) => dialsAt(balancer, port, facts)),
  );
  return { dials, names: [...new Set(names)].slice(0, MAX_NAMES) };
}

function dialsAt(balancer: Balancer, port: ServicePort, facts: ClusterFacts): ProbeDial[] {
  const speaks = spokenAt(port);
  if (speaks === undefined) return [];
  const { service, names, addresses } = balancer;
  // A TLS handshake needs a name that is served. An HTTP request does not: the controller itself refuses a strange Host, and no
  // backend is bothered or waited for.
  const name = speaks === "tls" ? (names[0] ?? NO_NAME) : NO_NAME;
  const common = { service: objectKey(service), servicePort: port.port, speaks, name } as const;
  const at = (
    via: ProbeDial["via"],
    address: string | undefined,
    header: ProbeDial["header"],
    dialled = port.port,
  ): ProbeDial[] => (address === undefined ? [] : [{ ...common, via, address, port: dialled, header }]);
  const front = frontOf(balancer, port, facts);
  return [
    ...(["none", "v1", "v2"] as const).flatMap((header) => at("service", service.clusterIPs[0], header)),
    ...at("balancer", addresses[0], "none"),
    ...at("front", front?.address, "none", front?.port),
  ];
}

/** Where the relay to a port is called: the front Service of its target. */
function frontOf(
  { target }: Balancer,
  { port }: ServicePort,
  facts: ClusterFacts,
): { address: string; port: number } | undefined {
  const entry = entryFor(target, port);
  if (target === undefined || entry?.listenPort === undefined || !target.fronted || !facts.services.known)
    return undefined;
  const key = `${facts.namespace}/${frontName(target.name)}`;
  const address = facts.services.value.find((service) => objectKey(service) === key)?.clusterIPs[0];
  return address === undefined ? undefined : { address, port: entry.port };
}

/** What a port speaks, by its number or what its Service says of it; undefined: nothing that is asked here. */
function spokenAt({ port, name, appProtocol }: ServicePort): ProbeDial["speaks"] | undefined {
  if (port === 443 || port === 8443 || /https|tls|websecure/i.test(`${name} ${appProtocol}`)) return "tls";
  return port === 80 || port === 8080 || /http|web/i.test(`${name} ${appProtocol}`) ? "http" : undefined;
}
