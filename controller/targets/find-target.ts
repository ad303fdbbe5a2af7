import { show } from "#hostmap/hostnames.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { listSome } from "#lib/errors/printable.ts";
import { softwareNamed } from "../sources/known-software.ts";
import type { ChosenTarget, RoutingHints } from "../sources/types.ts";
import {
  type Holding,
  isReached,
  isReason,
  MAY_BE_A_NODE,
  serviceAt,
  serviceOfClass,
  whetherShortCircuited,
} from "./match-service.ts";
import { allAddressesOf, canonicalIp, ipsOf, keyOf, literalsOf, preferred, type ServiceView } from "./service-view.ts";
import type { TargetTable } from "./target-table.ts";

/** What the hints of an object say about its target. See `Claim` for the fields. */
export type Found = Pick<Claim, "target" | "undecided" | "maybe" | "lacking" | "warning">;

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
 * several targets are possible, the one that it has counts. DNS may give a name whose evidence is missing its first
 * target.
 */
export function findTarget(hints: RoutingHints, holding: Holding, table: TargetTable): Found {
  const { held } = holding;
  const warned = (target: string): Pick<Found, "warning"> => {
    const warning = table.warningOf(target, hints.ports);
    return warning === undefined ? {} : { warning };
  };
  const target = byEvidence(hints, holding, table);
  if (typeof target === "string") return { target, ...warned(target) };
  const { service, selector, chosen } = hints;
  const isFixed = service !== undefined || selector !== undefined || chosen !== undefined || !table.discovers;
  const mayGetOne = MAY_BE_MISSING.has(target.code) && !isFixed;
  const lacking = { byClass: mayGetOne ? targetOfClass(hints, holding, table) : undefined };
  if (held !== undefined && table.has(held) && isOnlyMissing(target, held, hints, table))
    return { target, undecided: true, maybe: held, lacking, ...warned(held) };
  return mayGetOne ? { target, lacking } : { target };
}

/** The target of the only Service that the class of an object leads to. Undefined: no Service, or several. */
function targetOfClass(hints: RoutingHints, holding: Holding, table: TargetTable): string | undefined {
  const service = serviceOfClass(hints, holding, table);
  const target = service === undefined || isReason(service) ? undefined : table.targetOf(service);
  return typeof target === "string" ? target : undefined;
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
function byEvidence(hints: RoutingHints, holding: Holding, table: TargetTable): string | Reason {
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
function byService(hints: RoutingHints, holding: Holding, table: TargetTable): string | Reason {
  const atAddress = serviceAt(hints, holding.held, table);
  if (!isReason(atAddress)) return table.targetOf(atAddress);
  const { code } = atAddress;
  if (hints.service !== undefined || code === "several-services" || !MAY_BE_MISSING.has(code)) return atAddress;
  const ofClass = serviceOfClass(hints, holding, table);
  if (ofClass !== undefined && isReason(ofClass)) return ofClass;
  if (ofClass !== undefined && isReached(ofClass, hints)) return table.targetOf(ofClass);
  return withoutService(hints, table, atAddress);
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
  const chosen = isAllowed ? targetNamed(target, table) : undefined;
  if (chosen !== undefined) return chosen;
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
  if (configured !== undefined) return refusedOr(configured, table);
  const view = table.viewOf(target);
  if (view === undefined) return undefined;
  const reached = whetherShortCircuited(view, allAddressesOf(view));
  return isReason(reached) ? reached : table.targetOf(view);
}

/** The name of a configured target, unless its Service serves nothing. */
function refusedOr(target: TargetConfig | Reason, table: TargetTable): string | Reason {
  return "code" in target ? target : (table.refusalOf(target) ?? target.name);
}

/**
 * Why a Gateway is not ingress, but an egress gateway or one of a mesh: it asks for a Service of type ClusterIP, the
 * Service that was made for it has this type, or its status has only ClusterIPs or names of Services. Istio reports the
 * name of the Service if that has no external address (istio/istio, pilot/pkg/config/kube/gateway/conversion.go,
 * `reportGatewayStatus`). A Service that was made for a Gateway has the label of GEP-1762 and is in its namespace. An
 * address of a load balancer is evidence of ingress.
 */
function insideCluster({ gateway, addresses }: RoutingHints, table: TargetTable): Reason | undefined {
  const reason = (text: string) => ({ code: "gateway-inside-cluster", text });
  if (gateway === undefined) return undefined;
  if (gateway.asksInside) return reason("the Gateway asks for a ClusterIP Service by networking.istio.io/service-type");
  // The owner of any Service may choose the host name of its load balancer.
  if (addresses.some((one) => !table.isServiceName(one) && table.at(one).length > 0)) return undefined;
  const services = [...table.services.values()];
  // Anybody can label a Service with the names of others.
  const made = services.filter((view) => view.gateway === keyOf(gateway) && view.namespace === gateway.namespace);
  const [first] = made;
  if (first !== undefined && made.every((view) => view.inside))
    return reason(`the Service ${keyOf(first)} of the Gateway is of type ClusterIP`);
  const [address] = addresses;
  const clusterIPs = new Set(services.flatMap((view) => (view.inside ? view.clusterIPs.map(canonicalIp) : [])));
  const isInside = (one: string) => clusterIPs.has(canonicalIp(one)) || table.isServiceName(one);
  if (address === undefined || !addresses.every(isInside)) return undefined;
  return reason(`the Gateway's only address is ${show(address)}, which is inside the cluster`);
}

/** The target of an object without a Service. `reason`: why no Service was found, if Services are read. */
function withoutService(hints: RoutingHints, table: TargetTable, reason?: Reason): string | Reason {
  const { byDefault: only } = table;
  const isActive = only !== undefined && table.refusalOf(only) === undefined;
  const last = isActive ? byDefault(hints, only, table) : unlisted(hints, table, reason);
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
  const what =
    controller === undefined ? `its class ${show(className ?? "")} is` : `its controller ${show(controller)} is`;
  const other = otherSoftware(hints, service);
  if (other !== undefined) return another(`${what} of ${other}`);
  const saysNothing = className === undefined && controller === undefined;
  const isKnown = service?.software === undefined || softwareNamed(hints) !== undefined || saysNothing;
  return isKnown ? target.name : another(`${what} not known to be of ${service.software}`);
}

/** What serves an object instead of the software of a Service, if its class or its controller says so. */
function otherSoftware(hints: RoutingHints, service: ServiceView | undefined): string | undefined {
  const named = softwareNamed(hints);
  if (named === "outside") return "a load balancer outside the cluster";
  const isOther = named !== undefined && service?.software !== undefined && !named.has(service.software);
  return isOther ? [...named].join(" or ") : undefined;
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
 * it is a class or controller of other software, or of a load balancer outside the cluster. So is an IP in the
 * object's status that the target does not have, if the target has any IP, and, if no Services are read, a class that
 * no target lists.
 */
function isOnlyMissing({ code }: Reason, held: string, hints: RoutingHints, table: TargetTable): boolean {
  if (!MAY_BE_MISSING.has(code) || hints.service !== undefined || hints.chosen !== undefined) return false;
  if (!table.discovers && hints.className !== undefined) return false;
  const service = table.viewOf(held);
  const own = [...(service?.addresses ?? []), ...(service?.leftAlone ?? [])];
  const ips = ipsOf(hints.addresses);
  if (own.length > 0 && ips.length > 0 && !ips.some((ip) => own.includes(ip))) return false;
  return otherSoftware(hints, service) === undefined;
}

type Labels = Readonly<Record<string, string>>;

/**
 * The configured target whose Service selects the pods that serve an object, and is in a namespace that the object is
 * exported to. If there are several, the one that lists the object's class wins. Discovered targets do not count: an
 * egress gateway may have a LoadBalancer Service, and tenants can copy labels. A host outside the cluster selects
 * nothing, so it counts if it lists the class, or if it is the target without classes.
 */
function targetOfPods(
  { className, exportedTo }: RoutingHints,
  selector: Labels,
  table: TargetTable,
): TargetConfig | Reason {
  const { targets } = table.config;
  const lists = ({ classes }: TargetConfig) => className !== undefined && classes.includes(className);
  const ofPods = targets.filter((target) => selects(table.serviceOf(target)?.selector, selector));
  const selecting = ofPods.filter(
    ({ upstream }) =>
      exportedTo === undefined || !("service" in upstream) || exportedTo.includes(upstream.service.namespace),
  );
  const names = ofPods.map(({ name }) => name).join(", ");
  if (selecting.length === 0 && ofPods.length > 0) {
    const list = listSome(exportedTo ?? [], 3, show);
    const text = `\`exportTo\` allows the namespaces ${list}, and the Service of ${names} is in none of them`;
    return { code: "not-allowed", text };
  }
  const [one, ...others] = preferred(selecting, lists);
  if (one !== undefined && others.length > 0) {
    const what = `the Services of several targets (${names}) have ${showSelector(selector)}`;
    return { code: "several-services", text: `${what}; list the class istio in one` };
  }
  const outside = targets.find((target) => "host" in target.upstream && (lists(target) || target === table.byDefault));
  const found = one ?? outside;
  if (found !== undefined) return found;
  const text =
    Object.keys(selector).length === 0
      ? "its Gateway has no selector, so it is not known which Service serves it"
      : `no configured target's Service has all labels of ${showSelector(selector)} in its own selector`;
  return { code: "no-gateway-service", text };
}

/** Whether a Service selects the pods of `selector`: its own selector has all these labels, and there is any. */
function selects(service: Labels | undefined, selector: Labels): boolean {
  const wanted = Object.entries(selector);
  return wanted.length > 0 && wanted.every(([key, value]) => service?.[key] === value);
}

/** Shows up to three labels of a selector in a reason. */
function showSelector(selector: Labels): string {
  const labels = Object.entries(selector).map((label) => label.join("="));
  const more = labels.length > 3 ? ` and ${labels.length - 3} more` : "";
  return `the selector ${show(labels.slice(0, 3).join(","))}${more} of its Gateway`;
}
