import { show } from "#hostmap/hostnames.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { ChosenTarget, RoutingHints } from "../sources/types.ts";
import { softwareNamed } from "./known-software.ts";
import {
  type Holding,
  isReached,
  isReason,
  MAY_BE_A_NODE,
  serviceAt,
  serviceOfClass,
  whetherShortCircuited,
} from "./match-service.ts";
import { targetOfPods } from "./selectors.ts";
import { canonicalIp, ipsOf, literalsOf, type ServiceView } from "./service-view.ts";
import { allAddressesOf, keyOf, type TargetTable } from "./target-table.ts";

/** What the hints of an object say about its target. See `Claim` for the fields. */
export type Found = Pick<Claim, "target" | "undecided" | "maybe" | "lacking" | "warning">;

/** The reason of an object without a target that only lacks evidence. DNS may give it its first target. */
export interface LackingEvidence extends Reason {
  /** The target of the only Service that its class leads to. Undefined: there is no such Service, or several. */
  readonly byClass: string | undefined;
}

/**
 * Codes of the reasons that may only mean missing evidence. Every other code names the software that serves the
 * object, or a rule that forbids the mapping.
 */
const MAY_BE_MISSING: ReadonlySet<string> = new Set([
  "no-address",
  "no-service",
  "node-address",
  "no-class",
  "no-target",
  "several-services",
]);

/**
 * Finds the target of an object's names. A name that has one stays undecided if evidence for it is only missing. If
 * several targets are possible, the one that it has counts.
 */
export function findTarget(hints: RoutingHints, holding: Holding, table: TargetTable): Found {
  const { held } = holding;
  const warned = (target: string): Pick<Found, "warning"> => {
    const warning = table.warningOf(target, hints.ports);
    return warning === undefined ? {} : { warning };
  };
  const answer = byEvidence(hints, holding, table);
  if (typeof answer === "string") return { target: answer, ...warned(answer) };
  const target: Reason = { code: answer.code, text: answer.text };
  const lacking = "byClass" in answer ? { byClass: answer.byClass } : undefined;
  if (held !== undefined && table.has(held) && isOnlyMissing(answer, held, hints, table))
    return { target, undecided: true, maybe: held, lacking: lacking ?? { byClass: undefined }, ...warned(held) };
  return lacking === undefined ? { target } : { target, lacking };
}

/**
 * The name of the target, or the reason why there is none. The first of these that applies decides:
 *
 *   1. the target that the object chooses itself
 *   2. the configured target whose Service selects the pods that serve the object, if it names them
 *   3. the configured target that lists the class
 *   4. the Service that has an address of the object's status: the configured target whose upstream it is, else a
 *      discovered target
 *   5. the only Service of the controller that the object names
 *   6. the configured target without classes, unless there is evidence of another controller
 */
function byEvidence(hints: RoutingHints, holding: Holding, table: TargetTable): string | Reason | LackingEvidence {
  const { targets, policy } = table.config;
  // An Ingress that no controller serves may be a mistake, or an attack.
  if (policy.requireAdmitted && !hints.admitted) return NOT_ADMITTED;
  if (hints.chosen !== undefined) return chosenTarget(hints.chosen, table);
  if (hints.selector !== undefined && table.discovers)
    return refusedOr(targetOfPods(hints, hints.selector, table), table);
  const listing = targets.find(({ classes }) => hints.className !== undefined && classes.includes(hints.className));
  if (listing !== undefined) return refusedOr(listing, table);
  return (
    insideCluster(hints, table) ?? (table.discovers ? byService(hints, holding, table) : withoutService(hints, table))
  );
}

/** Steps 4 to 6. */
function byService(hints: RoutingHints, holding: Holding, table: TargetTable): string | Reason | LackingEvidence {
  const atAddress = serviceAt(hints, holding.held, table);
  if (!isReason(atAddress)) return table.targetOf(atAddress);
  if (hints.service !== undefined || !MAY_BE_MISSING.has(atAddress.code)) return atAddress;
  const ofClass = serviceOfClass(hints, holding, table);
  if (atAddress.code === "several-services") return lacking(atAddress, ofClass, table);
  if (ofClass !== undefined && isReason(ofClass)) return lacking(ofClass, undefined, table);
  if (ofClass !== undefined && isReached(ofClass, hints)) return table.targetOf(ofClass);
  const last = withoutService(hints, table, atAddress);
  return typeof last === "string" ? last : lacking(last, ofClass, table);
}

function lacking(
  reason: Reason,
  ofClass: ServiceView | Reason | undefined,
  table: TargetTable,
): Reason | LackingEvidence {
  if (!MAY_BE_MISSING.has(reason.code)) return reason;
  const byClass = ofClass === undefined || isReason(ofClass) ? undefined : table.targetOf(ofClass);
  return { ...reason, byClass: typeof byClass === "string" ? byClass : undefined };
}

const NOT_ADMITTED: Reason = {
  code: "not-admitted",
  text: "no controller has admitted its object: it has no load balancer status (policy.requireAdmitted)",
};

/** Maximum number of names in a reason. */
const LISTED = 8;
const ALL = "*";

/**
 * The target that an object chooses, if `policy.targets` allows that to its namespace. If the choice is not possible,
 * the names get no target, because another target is not what the owner asked for. The text is the same whether the
 * target exists or not: only a namespace that may choose a target learns whether it exists. It does not list discovered
 * targets, because their names are those of Services, which may belong to other tenants.
 */
function chosenTarget({ target, namespace }: ChosenTarget, table: TargetTable): string | Reason {
  const { policy, targets } = table.config;
  const ofNamespace = policy.targets.filter(
    ({ namespaces }) => namespaces.includes(ALL) || namespaces.includes(namespace),
  );
  const allowed = new Set(ofNamespace.flatMap((rule) => rule.targets));
  const isAllowed = allowed.has(ALL) || allowed.has(target);
  const found = isAllowed ? targetNamed(target, table) : undefined;
  if (found !== undefined) return found;
  const named = allowed.has(ALL) ? [...targets.map(({ name }) => name), "discovered targets"] : [...allowed];
  const accepted = named.length === 0 ? "it may choose no target" : `it may choose ${listSome(named, LISTED, String)}`;
  const why = isAllowed ? `there is no target ${show(target)}` : `the target ${show(target)} is not allowed`;
  const text = `${why} (${TARGET_KEY} in the namespace ${namespace}); ${accepted} (policy.targets)`;
  return { code: "target-not-allowed", text };
}

/**
 * The target of this name; undefined: no such target exists. A configured target serves every object that chooses it. A
 * discovered target must also be short-circuited by kube-proxy.
 */
function targetNamed(target: string, table: TargetTable): string | Reason | undefined {
  const configured = table.named(target);
  if (configured !== undefined) {
    if (configured !== table.byDefault || table.exists(configured)) return refusedOr(configured, table);
    const { name, upstream } = configured;
    const where = "service" in upstream ? keyOf(upstream.service) : upstream.host;
    return { code: "target-missing", text: `the Service ${where} of the target ${name} does not exist` };
  }
  const view = table.viewOf(target);
  if (view === undefined) return undefined;
  const reached = whetherShortCircuited(view, allAddressesOf(view));
  return isReason(reached) ? reached : table.targetOf(view);
}

/** The name of a configured target, unless its Service serves nothing. */
function refusedOr(target: TargetConfig | Reason, table: TargetTable): string | Reason {
  return "code" in target ? target : (table.refusalOf(target) ?? target.name);
}

const INSIDE = "gateway-inside-cluster";

/**
 * Why a Gateway is not ingress: it says so itself, its status has only ClusterIPs, or the Service that was made for
 * it is of type ClusterIP. Such a Service has the label of GEP-1762 and is in the namespace of its Gateway. An
 * address of a load balancer is evidence of ingress.
 */
function insideCluster({ gateway, inside, addresses }: RoutingHints, table: TargetTable): Reason | undefined {
  if (inside !== undefined || gateway === undefined) return inside;
  if (addresses.some((address) => table.at(address).length > 0)) return undefined;
  const services = [...table.services()];
  // Anybody can label a Service with the names of others.
  const made = services.filter((view) => view.gateway === keyOf(gateway) && view.namespace === gateway.namespace);
  const [first] = made;
  if (first !== undefined && made.every((view) => view.inside))
    return { code: INSIDE, text: `the Service ${keyOf(first)} of the Gateway is of type ClusterIP` };
  const [address] = addresses;
  const clusterIPs = new Set(services.flatMap((view) => (view.inside ? view.clusterIPs.map(canonicalIp) : [])));
  if (address === undefined || !addresses.every((one) => clusterIPs.has(canonicalIp(one)))) return undefined;
  return { code: INSIDE, text: `the Gateway's only address is ${show(address)}, a ClusterIP` };
}

/** The target of an object without a Service. `reason`: why no Service was found, if Services are read. */
function withoutService(hints: RoutingHints, table: TargetTable, reason?: Reason): string | Reason {
  const only = table.byDefault;
  const last = only && table.exists(only) ? byDefault(hints, only, table) : unlisted(hints, table, reason);
  return typeof last === "string" ? last : (nodeAddress(hints.addresses, table) ?? last);
}

/**
 * Whether the configured target without classes serves an object. It does so only if nothing indicates another
 * controller, and if its load balancer has no address, or one that is short-circuited.
 */
function byDefault(hints: RoutingHints, target: TargetConfig, table: TargetTable): string | Reason {
  const service = table.serviceOf(target);
  if (service !== undefined && service.hostnames.length + service.leftAlone.length > 0) {
    const reached = whetherShortCircuited(service, allAddressesOf(service));
    if (isReason(reached)) return reached;
  }
  const another = (text: string): Reason => ({
    code: "no-target",
    text: `${text}, not of the target ${target.name}`,
  });
  const ips = literalsOf(hints.addresses);
  if (table.discovers && "service" in target.upstream && ips.length > 0)
    return another(`its status has ${ips.join(", ")}, an address of no Service (${MAY_BE_A_NODE})`);
  const { className, controller } = hints;
  const named = softwareNamed(hints);
  const what =
    controller === undefined ? `its class ${show(className ?? "")} is` : `its controller ${show(controller)} is`;
  if (named === "outside") return another(`${what} of a load balancer outside the cluster`);
  const software = service?.software;
  if (software === undefined || named?.has(software)) return target.name;
  if (named !== undefined) return another(`${what} of ${[...named].join(" or ")}`);
  const saysNothing = className === undefined && controller === undefined;
  return saysNothing ? target.name : another(`${what} not known to be of ${software}`);
}

/** Why no target lists the class of an object. `className` is that of the object, or the cluster's default. */
function unlisted({ className }: RoutingHints, { config, byDefault: only }: TargetTable, reason?: Reason): Reason {
  const { targets } = config;
  if (reason !== undefined && (targets.length === 0 || only !== undefined)) return reason;
  const also = reason === undefined ? "" : `; ${reason.text}`;
  if (className === undefined)
    return { code: "no-class", text: `it names no ingress class and the cluster has no default IngressClass${also}` };
  const known = targets.flatMap(({ classes }) => classes);
  const accepted = known.length === 0 ? "no target lists any class" : `the targets list ${known.join(", ")}`;
  const text = `no target serves the ingress class ${JSON.stringify(className)}; ${accepted}${also}`;
  return { code: "no-target", text };
}

/**
 * Why an object is not mapped if its status has only IPs of nodes; undefined: it has other IPs, or nodes are not
 * known. Controllers on the host's network or behind NodePorts write such a status: ingress-nginx without
 * `--publish-service` (kubernetes/ingress-nginx, internal/ingress/status/status.go, `runningAddresses`), Traefik with a
 * published Service of type NodePort (traefik/traefik, pkg/provider/kubernetes/ingress/kubernetes.go,
 * `updateIngressStatus`), Cilium's Gateways in host network mode. Our controller does not read Nodes, because their
 * status changes all the time. A caller that has the list, such as the doctor, passes it.
 */
function nodeAddress(addresses: readonly string[], { nodes }: TargetTable): Reason | undefined {
  const ips = ipsOf(addresses);
  if (nodes === undefined || ips.length === 0 || !ips.every((ip) => nodes.has(ip))) return undefined;
  const text = `its status has ${ips.join(", ")}, of nodes: no Service has them, so pods reach them without a mapping`;
  return { code: "node-address", text };
}

/**
 * Whether evidence for the previous target of an object is only missing, and none speaks against it. Evidence against
 * it is a class or controller of other software, or of a load balancer outside the cluster. An IP in the object's
 * status that the target does not have is evidence too, if the target has any IP.
 */
function isOnlyMissing({ code }: Reason, held: string, hints: RoutingHints, table: TargetTable): boolean {
  if (!MAY_BE_MISSING.has(code) || hints.service !== undefined || hints.chosen !== undefined) return false;
  const service = table.viewOf(held);
  const own = [...(service?.addresses ?? []), ...(service?.leftAlone ?? [])];
  const ips = ipsOf(hints.addresses);
  if (own.length > 0 && ips.length > 0 && !ips.some((ip) => own.includes(ip))) return false;
  const named = softwareNamed(hints);
  if (named === "outside") return false;
  return named === undefined || service?.software === undefined || named.has(service.software);
}
