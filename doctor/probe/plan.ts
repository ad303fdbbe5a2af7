import { type ClusterFacts, objectKey, type ServicePort } from "../facts.ts";
import { findLoadBalancers, type LoadBalancer, shortCircuited } from "../load-balancers.ts";
import { entryFor } from "../targets.ts";
import type { ProbeDial, ProbePlan } from "./result.ts";

/** Maximum number of names to look up for one load balancer. */
const MAX_NAMES_EACH = 20;
/** A name that cannot exist (RFC 6761). */
const INVALID_NAME = "switchback-doctor.invalid";

/**
 * The plan is one argument of the pod. Linux accepts 128 KiB for one argument; a longer one makes the start fail with
 * E2BIG (MAX_ARG_STRLEN, include/uapi/linux/binfmts.h). These limits add up to 112 KiB.
 */
const LIMITS = {
  names: { count: 200, bytes: 32 * 1024 },
  own: { count: 400, bytes: 16 * 1024 },
  /** One port needs up to six dials. */
  ports: { count: 40, bytes: 64 * 1024 },
} as const satisfies Record<string, Limit>;

interface Limit {
  readonly count: number;
  /** Maximum size as JSON. */
  readonly bytes: number;
}

interface PlannedProbe {
  readonly plan: ProbePlan;
  /** What did not fit into the plan, in words; empty if nothing was left out. */
  readonly leftOut: readonly string[];
}

/**
 * Plans the probe: dials to each web port on each route, and lookups of each load balancer's names. If the limits are
 * exceeded, namespaces take turns, and so do the load balancers of each namespace. So none crowds out another.
 */
export function planProbe(facts: ClusterFacts): PlannedProbe {
  const loadBalancers = findLoadBalancers(facts);
  const namespaces = [...Map.groupBy(loadBalancers, ({ service }) => service.namespace).values()];
  const share = <T>(itemsOf: (loadBalancer: LoadBalancer) => readonly T[], limit: Limit): Share<T> =>
    takeFirst(inTurns(namespaces.map((own) => inTurns(own.map(itemsOf)))), limit);
  const ports = share(({ service, ...rest }) => {
    const dials = service.ports.map((port) => dialsAt({ service, ...rest }, port));
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

/** Takes one item of each list in turn. */
function inTurns<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, turn) => lists.flatMap((list) => list.slice(turn, turn + 1))).flat();
}

interface Share<T> {
  readonly taken: T[];
  readonly left: number;
}

/** The first items that fit, without duplicates. */
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

function dialsAt(loadBalancer: LoadBalancer, port: ServicePort): ProbeDial[] {
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
  const front = frontOf(loadBalancer, port);
  // If the load balancer has both families, kube-proxy may short-circuit only one of them.
  const [balancer = addresses[0]] = shortCircuited(loadBalancer);
  return [
    ...(["none", "v1", "v2"] as const).flatMap((header) => at("service", service.clusterIPs[0], header)),
    // On this route, kube-proxy may give pods the address of a node. So the answer may differ from the one to a pod's
    // own address.
    ...(["none", "v1"] as const).flatMap((header) => at("balancer", balancer, header)),
    ...at("front", front?.address, "none", front?.port),
  ];
}

/** The address (if any) and port of the front Service for a port; undefined if the port is not relayed. */
function frontOf(
  { target }: LoadBalancer,
  { port }: ServicePort,
): { address: string | undefined; port: number } | undefined {
  const entry = entryFor(target, port);
  return entry && { address: target?.clusterIPs[0], port: entry.port };
}

/** Infers a port's protocol from its number, name or appProtocol; undefined if the port is not probed. */
function protocolOf({ port, name, appProtocol }: ServicePort): ProbeDial["speaks"] | undefined {
  if (port === 443 || port === 8443 || /https|tls|websecure/i.test(`${name} ${appProtocol}`)) return "tls";
  return port === 80 || port === 8080 || /http|web/i.test(`${name} ${appProtocol}`) ? "http" : undefined;
}
