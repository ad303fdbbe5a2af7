import { foldCase } from "#hostmap/hostnames.ts";
import { type Kind, namesOf } from "../kinds-source.ts";
import { listOf, mapOf, numberOf, originOf, type Raw, textOf, textsOf, withChoice } from "../raw-object.ts";
import type { RoutingHints } from "../types.ts";

// What is kept of the objects of Gateway API. The projections of two versions of an object are deeply equal if all used
// fields are the same.

export const GATEWAY_GROUP = "gateway.networking.k8s.io";
/**
 * The group of experimental kinds. Its XListenerSet has the fields of ListenerSet (kubernetes-sigs/gateway-api,
 * apisx/v1alpha1/xlistenerset_types.go), and both may exist while users migrate.
 */
export const EXPERIMENTAL_GROUP = "gateway.networking.x-k8s.io";

/** The kinds of routes whose requests have a hostname that a client resolves. */
const ROUTE_KINDS = ["HTTPRoute", "GRPCRoute", "TLSRoute"] as const;
export type RouteKind = (typeof ROUTE_KINDS)[number];
/** The kinds of objects that add listeners to a Gateway (GEP-1713). */
type SetKind = "ListenerSet" | "XListenerSet";
/** The groups of the kinds of parents with listeners. */
const PARENT_GROUPS: ReadonlyMap<unknown, string> = new Map([
  ["Gateway", GATEWAY_GROUP],
  ["ListenerSet", GATEWAY_GROUP],
  ["XListenerSet", EXPERIMENTAL_GROUP],
]);

type ClassView = ReturnType<typeof viewClass>;
export type GatewayView = ReturnType<typeof viewGateway>;
export type ListenerSetView = ReturnType<typeof viewListenerSet>;
export type ListenerView = ReturnType<typeof viewListener>[number];
export type RouteView = ReturnType<typeof viewRoute>;
export type ParentView = ReturnType<typeof viewParent>;
export type GatewayObject = ClassView | GatewayView | ListenerSetView | RouteView;
/** Namespaces from which objects may attach. */
export type NamespaceChoice = ReturnType<typeof choiceOf>;

/**
 * The kinds of routes that a listener allows by its protocol (`ProtocolType` and `AllowedRoutes.kinds`). TCP and
 * UDP have no hostnames.
 */
const KINDS_OF_PROTOCOL: Readonly<Record<string, readonly RouteKind[]>> = {
  HTTP: ["HTTPRoute", "GRPCRoute"],
  HTTPS: ["HTTPRoute", "GRPCRoute"],
  TLS: ["TLSRoute"],
  TCP: [],
  UDP: [],
};

export function viewClass(raw: Raw) {
  const { controllerName, parametersRef } = mapOf(raw.spec);
  return {
    ...originOf("GatewayClass", raw),
    controller: textOf(controllerName),
    /** That of the parameters of its implementation. */
    namespace: textOf(mapOf(parametersRef).namespace),
  };
}

export function viewGateway(raw: Raw) {
  const spec = mapOf(raw.spec);
  const own = viewListeners(raw);
  const addresses = listOf(mapOf(raw.status).addresses).flatMap(addressOf);
  const asksInside = mapOf(mapOf(raw.metadata).annotations)[SERVICE_TYPE] === "ClusterIP";
  const origin = originOf("Gateway", raw);
  const hints: RoutingHints = {
    className: textOf(spec.gatewayClassName),
    isGatewayClass: true,
    addresses: [...new Set(addresses)],
    ...portsOf(own.listeners),
    admitted: addresses.length > 0 || own.accepted,
    gateway: { namespace: origin.ref.namespace, name: origin.ref.name, ...(asksInside && { asksInside }) },
  };
  return {
    ...origin,
    ...own,
    hints: withChoice(hints, origin),
    /** The namespaces whose ListenerSets may attach. */
    allowedSets: choiceOf(mapOf(mapOf(spec.allowedListeners).namespaces), "None"),
  };
}

/**
 * Annotation of a Gateway: the type of the Service that Istio makes for it (istio,
 * pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go). An egress gateway asks for ClusterIP.
 */
const SERVICE_TYPE = "networking.istio.io/service-type";

export function viewListenerSet(raw: Raw, kind: SetKind = "ListenerSet") {
  const own = originOf(kind, raw);
  const parent = mapOf(mapOf(raw.spec).parentRef);
  /** `namespace/name` of its Gateway; undefined if its parent is of another kind. */
  const gateway = parentKindOf(parent) === "Gateway" ? parentKey(parent, own.ref.namespace) : undefined;
  return { ...own, ...viewListeners(raw), gateway };
}

/** The ports of listeners, in the form of routing hints. */
export function portsOf(listeners: readonly ListenerView[]): Pick<RoutingHints, "ports"> {
  const ports = new Set(listeners.flatMap(({ port }) => port ?? []));
  return ports.size > 0 ? { ports: [...ports].sort((a, b) => a - b) } : {};
}

/** The fields that Gateways and ListenerSets have in common. */
function viewListeners(raw: Raw) {
  const status = mapOf(raw.status);
  const refused = new Set(
    listOf(status.listeners)
      .map(mapOf)
      .filter(isRefused)
      .map(({ name }) => name),
  );
  return {
    ...acceptanceOf([status.conditions]),
    listeners: listOf(mapOf(raw.spec).listeners).flatMap((listener) => viewListener(mapOf(listener), refused)),
  };
}

/** A listener with a protocol that uses hostnames. `refused` has the names that the controller rejects. */
function viewListener(raw: Raw, refused: ReadonlySet<unknown>) {
  const allowed = mapOf(raw.allowedRoutes);
  const kinds = kindsOf(textOf(raw.protocol) ?? "", listOf(allowed.kinds));
  if (kinds.length === 0) return [];
  /** As written, or undefined for all names. */
  const hostname = textOf(raw.hostname);
  return [
    {
      name: textOf(raw.name) ?? "",
      // 0 is the default of an XListenerSet: the implementation chooses the port.
      port: numberOf(raw.port) || undefined,
      hostname,
      folded: hostname && foldCase(hostname),
      kinds,
      ...choiceOf(mapOf(allowed.namespaces), "Same"),
      refused: refused.has(raw.name),
    },
  ];
}

/** Whether a controller rejects a listener, for instance because another one has its hostname and port. */
function isRefused({ conditions }: Raw): boolean {
  const isOf = (type: string, status: string) => conditionOf(conditions, type)?.status === status;
  return isOf("Accepted", "False") || isOf("Conflicted", "True");
}

/**
 * With an implementation-specific protocol, the listener allows the kinds that it lists. With a standard one, only
 * kinds that can work.
 */
function kindsOf(protocol: string, listed: readonly unknown[]): readonly RouteKind[] {
  const possible = Object.hasOwn(KINDS_OF_PROTOCOL, protocol) ? KINDS_OF_PROTOCOL[protocol] : undefined;
  if (listed.length === 0) return possible ?? [];
  const own = listed.map(mapOf).filter(({ group }) => group === undefined || group === GATEWAY_GROUP);
  return (possible ?? ROUTE_KINDS).filter((kind) => own.some((each) => each.kind === kind));
}

/** Maximum length of a selector, as JSON. It is kept as it is, and may be as long as an object. */
const MAX_SELECTOR = 16_384;

/** Reads where objects may attach from. An unknown value, or a selector that is too long, allows no namespace. */
function choiceOf({ from, selector }: Raw, usual: "Same" | "None") {
  const value = from === undefined ? usual : from;
  const isLong = value === "Selector" && (JSON.stringify(selector) ?? "").length > MAX_SELECTOR;
  const known = (["Same", "All", "Selector"] as const).find((each) => each === value && !isLong) ?? "None";
  return { from: known, selector: known === "Selector" ? selector : undefined };
}

function addressOf(raw: unknown): string[] {
  const { type, value } = mapOf(raw);
  return type === undefined || type === "IPAddress" || type === "Hostname" ? textsOf([value]) : [];
}

export function viewRoute(kind: RouteKind, raw: Raw) {
  const spec = mapOf(raw.spec);
  const own = originOf(kind, raw);
  const { namespace } = own.ref;
  // Several controllers may have written a status for a parent.
  const statuses = Map.groupBy(listOf(mapOf(raw.status).parents).map(mapOf), ({ parentRef }) =>
    refKey(mapOf(parentRef), namespace),
  );
  const refs = listOf(spec.parentRefs)
    .map(mapOf)
    .filter((ref) => parentKindOf(ref) !== undefined);
  // The API allows no two equal parents. Without this check, a CRD without limits could turn them into as many claims.
  const parents = new Map(refs.map((ref) => [refKey(ref, namespace), ref]));
  return {
    kind,
    ...own,
    /** As written, without duplicates. If empty, the route uses the hostnames of its listeners. */
    hostnames: [...new Set(textsOf(spec.hostnames))],
    /** Its parents that are Gateways or ListenerSets. */
    parents: [...parents].map(([key, ref]) => viewParent(ref, statuses.get(key) ?? [], namespace)),
  };
}

/** A Gateway or a ListenerSet, or one of its listeners, that a route attaches to. */
function viewParent(raw: Raw, statuses: readonly Raw[], namespace: string) {
  return {
    kind: parentKindOf(raw) ?? "Gateway",
    key: parentKey(raw, namespace),
    sectionName: textOf(raw.sectionName),
    port: numberOf(raw.port),
    ...acceptanceOf(statuses.map(({ conditions }) => conditions)),
  };
}

/**
 * Group and kind have defaults (`ParentReference`). A parent that is a Service is for a mesh. Other kinds are
 * unknown.
 */
function parentKindOf({ group = GATEWAY_GROUP, kind = "Gateway" }: Raw): "Gateway" | SetKind | undefined {
  return PARENT_GROUPS.get(kind) === group ? (kind as "Gateway" | SetKind) : undefined;
}

/** `namespace/name`. */
function parentKey({ namespace, name }: Raw, own: string): string {
  return `${textOf(namespace) ?? own}/${textOf(name) ?? ""}`;
}

function refKey(ref: Raw, own: string): string {
  const { sectionName, port } = ref;
  const parts = [parentKindOf(ref), textOf(ref.namespace) ?? own, ref.name, textOf(sectionName), numberOf(port)];
  return JSON.stringify(parts);
}

/** Whether one of several controllers has accepted an object, or else the first reason and message of a refusal. */
function acceptanceOf(lists: readonly unknown[]): { readonly accepted: boolean; readonly refusal: string | undefined } {
  const found = lists.map((conditions) => conditionOf(conditions, "Accepted") ?? {});
  if (found.some(({ status }) => status === "True")) return { accepted: true, refusal: undefined };
  const words = found.map(({ reason, message }) => textsOf([reason, message]).join(": "));
  return { accepted: false, refusal: words.find((text) => text !== "") };
}

function conditionOf(conditions: unknown, type: string): Raw | undefined {
  return listOf(conditions)
    .map(mapOf)
    .find((condition) => condition.type === type);
}

/** The kinds, with the versions that are read of each. TLSRoute was the last one to become `v1`. */
export function gatewayKinds(): Kind<GatewayObject>[] {
  const parent = { isShared: true, pick: pickListeners } as const;
  const setOf = (kind: SetKind) => ({ ...parent, project: (raw: Raw) => viewListenerSet(raw, kind) });
  return [
    { ...namesOf("GatewayClass", GATEWAY_GROUP), isShared: true, project: viewClass },
    { ...namesOf("Gateway", GATEWAY_GROUP), ...parent, project: viewGateway },
    { ...namesOf("ListenerSet", GATEWAY_GROUP), ...setOf("ListenerSet") },
    { ...namesOf("XListenerSet", EXPERIMENTAL_GROUP, ["v1alpha1"]), ...setOf("XListenerSet") },
    ...ROUTE_KINDS.map((kind) => ({
      ...namesOf(kind, GATEWAY_GROUP, kind === "TLSRoute" ? ["v1", "v1alpha3", "v1alpha2"] : ["v1"]),
      project: (raw: Raw) => viewRoute(kind, raw),
      pick: (view: RouteView, keeps: Keeps) => ({ ...view, hostnames: view.hostnames.filter(keeps) }),
    })),
  ];
}

type Keeps = (name: string) => boolean;

function pickListeners<V extends GatewayView | ListenerSetView>(view: V, keeps: Keeps): V {
  return { ...view, listeners: view.listeners.filter(({ hostname }) => keeps(hostname ?? "")) };
}
