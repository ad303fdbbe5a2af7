import { frontName } from "#lib/documents/listeners.ts";
import { type ClusterFacts, objectKey, type ServicePort } from "../facts.ts";
import { findLoadBalancers, type LoadBalancer, shortCircuited } from "../load-balancers.ts";
import { entryFor } from "../targets.ts";
import type { ProbeDial, ProbePlan } from "./result.ts";

/** Names to look up at one load balancer. */
const MAX_NAMES_EACH = 20;
/** A name that cannot exist (RFC 6761). */
const INVALID_NAME = "switchback-doctor.invalid";

/**
 * The plan is one argument of the pod. Linux takes 128 KiB for one, else the start fails with E2BIG (MAX_ARG_STRLEN,
 * include/uapi/linux/binfmts.h). These are 112 KiB.
 */
const LIMITS = {
  names: { count: 200, bytes: 32 * 1024 },
  own: { count: 400, bytes: 16 * 1024 },
  /** A port takes up to six dials. */
  ports: { count: 40, bytes: 64 * 1024 },
} as const satisfies Record<string, Limit>;

interface Limit {
  readonly count: number;
  /** As JSON. */
  readonly bytes: number;
}

interface PlannedProbe {
  readonly plan: ProbePlan;
  /** What there was no room for, in words; empty if nothing was left out. */
  readonly leftOut: readonly string[];
}

/**
 * Plans the probe: dials to each web port on each route, and lookups of each load balancer's names. Where there are
 * too many, namespaces take turns, and in each its load balancers: none takes the place of another.
 */
export function planProbe(facts: ClusterFacts): PlannedProbe {
  const loadBalancers = findLoadBalancers(facts);
  const namespaces = [...Map.groupBy(loadBalancers, ({ service }) => service.namespace).values()];
  const share = <T>(itemsOf: (loadBalancer: LoadBalancer) => readonly T[], limit: Limit): Share<T> =>
    takeFirst(inTurns(namespaces.map((own) => inTurns(own.map(itemsOf)))), limit);
  const ports = share(({ service, ...rest }) => {
    const dials = service.ports.map((port) => dialsAt({ service, ...rest }, port, facts));
    return dials.filter((each) => each.length > 0);
  }, LIMITS.ports);
  const names = share(
    ({ names: served, service }) => [
      ...served.slice(0, MAX_NAMES_EACH),
      ...service.entries.flatMap(({ hostname }) => hostname ?? []),
    ],
    LIMITS.names,
  );
  const own = share(({ addresses }) => addresses, LIMITS.own);
  const leftOut = Object.entries({ ports, names, addresses: own }).flatMap(([what, { taken, left }]) =>
    left === 0 ? [] : `${left} of ${taken.length + left} ${what}`,
  );
  return { plan: { dials: ports.taken.flat(), names: names.taken, own: own.taken }, leftOut };
}

/** One item of each list in turn. */
function inTurns<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, turn) => lists.flatMap((list) => list.slice(turn, turn + 1))).flat();
}

interface Share<T> {
  readonly taken: T[];
  readonly left: number;
}

/** The first items that fit, each once. */
function takeFirst<T>(items: readonly T[], { count, bytes }: Limit): Share<T> {
  const unique = new Map(items.map((item) => [JSON.stringify(item), item]));
  const taken: T[] = [];
  let size = 0;
  for (const [text, item] of unique) {
    size += Buffer.byteLength(text) + ",".length;
    if (taken.length === count || size > bytes) break;
    taken.push(item);
  }
  return { taken, left: unique.size - taken.length };
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
  // Of a load balancer with both families, kube-proxy may leave one alone.
  const [balancer = addresses[0]] = shortCircuited(loadBalancer);
  return [
    ...(["none", "v1", "v2"] as const).flatMap((header) => at("service", service.clusterIPs[0], header)),
    // kube-proxy may give pods the address of a node there: the answer may be another than to a pod's own address.
    ...(["none", "v1"] as const).flatMap((header) => at("balancer", balancer, header)),
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
