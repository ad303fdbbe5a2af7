import { foldCase } from "#hostmap/hostnames.ts";
import type { Read } from "#lib/kube/shapes.ts";
import { type Kind, namesOf } from "../kinds-source.ts";
import { viewer, withChoice } from "../raw-object.ts";
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
const KINDS_OF_PROTOCOL: Readonly<Record<string, readonly string[]>> = {
  HTTP: ["HTTPRoute", "GRPCRoute"],
  HTTPS: ["HTTPRoute", "GRPCRoute"],
  TLS: ["TLSRoute"],
  TCP: [],
  UDP: [],
};

const CONDITIONS = [{ type: "word", status: "word", reason: "word", message: "text" }] as const;
const SELECTOR = {
  matchLabels: "map",
  matchExpressions: [{ key: "text", operator: "word", values: "texts or empty" }],
} as const;
const NAMESPACES = { from: "word", selector: SELECTOR } as const;
const ALLOWED_ROUTES = { namespaces: NAMESPACES, kinds: [{ group: "text or empty", kind: "word" }] } as const;
const PORT = { name: "text", hostname: "text", port: "number", protocol: "word" } as const;
const LISTENER = { ...PORT, allowedRoutes: ALLOWED_ROUTES } as const;
const OBJECT = { group: "text or empty", kind: "word", namespace: "text", name: "text" } as const;
const PARENT = { ...OBJECT, sectionName: "text", port: "number" } as const;
const LISTENING = { conditions: CONDITIONS, listeners: [{ name: "text", conditions: CONDITIONS }] } as const;

export const CLASS_FIELDS = { spec: { controllerName: "text", parametersRef: { namespace: "text" } } } as const;
export const GATEWAY_FIELDS = {
  spec: { gatewayClassName: "text", listeners: [LISTENER], allowedListeners: { namespaces: NAMESPACES } },
  status: { addresses: [{ type: "word", value: "text" }], ...LISTENING },
} as const;
export const LISTENER_SET_FIELDS = { spec: { parentRef: PARENT, listeners: [LISTENER] }, status: LISTENING } as const;
export const ROUTE_FIELDS = {
  spec: { hostnames: "texts", parentRefs: [PARENT] },
  status: { parents: [{ parentRef: PARENT, conditions: CONDITIONS }] },
} as const;

type Conditions = Read<typeof CONDITIONS>;
type ParentRef = Read<typeof PARENT>;
export type Selector = Read<typeof SELECTOR>;

export const viewClass = viewer("GatewayClass", CLASS_FIELDS, (origin, { spec }) => ({
  ...origin,
  controller: spec?.controllerName,
  /** That of the parameters of its implementation. */
  namespace: spec?.parametersRef?.namespace,
}));

export const viewGateway = viewer("Gateway", GATEWAY_FIELDS, (origin, { metadata, spec, status }) => {
  const own = viewListeners(spec?.listeners, status);
  const addresses = (status?.addresses ?? []).flatMap(addressOf);
  const asksInside = metadata?.annotations?.[SERVICE_TYPE] === "ClusterIP";
  const { namespace, name } = origin.ref;
  const hints: RoutingHints = {
    className: spec?.gatewayClassName,
    isGatewayClass: true,
    addresses: [...new Set(addresses)],
    ...portsOf(own.listeners),
    admitted: addresses.length > 0 || own.accepted,
    gateway: { namespace, name, ...(asksInside && { asksInside }) },
  };
  return {
    ...origin,
    ...own,
    hints: withChoice(hints, origin),
    /** The namespaces whose ListenerSets may attach. */
    allowedSets: choiceOf(spec?.allowedListeners?.namespaces, "None"),
  };
});

/**
 * Annotation of a Gateway: the type of the Service that Istio makes for it (istio,
 * pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go). An egress gateway asks for ClusterIP.
 */
const SERVICE_TYPE = "networking.istio.io/service-type";

export const viewListenerSet = viewer("ListenerSet", LISTENER_SET_FIELDS, (origin, { spec, status }) => {
  const parent = spec?.parentRef ?? {};
  /** `namespace/name` of its Gateway; undefined if its parent is of another kind. */
  const gateway = parentKindOf(parent) === "Gateway" ? parentKey(parent, origin.ref.namespace) : undefined;
  return { ...origin, ...viewListeners(spec?.listeners, status), gateway };
});

/** The ports of listeners, in the form of routing hints. */
export function portsOf(listeners: readonly ListenerView[]): Pick<RoutingHints, "ports"> {
  const ports = new Set(listeners.flatMap(({ port }) => port ?? []));
  return ports.size > 0 ? { ports: [...ports].sort((a, b) => a - b) } : {};
}

/** What Gateways and ListenerSets have in common. */
function viewListeners(
  listeners: readonly Read<typeof LISTENER>[] = [],
  { conditions, listeners: statuses = [] }: Read<typeof LISTENING> = {},
) {
  const refused = new Set(statuses.filter(isRefused).map(({ name }) => name));
  return {
    ...acceptanceOf([conditions]),
    listeners: listeners.flatMap((listener) => viewListener(listener, refused)),
  };
}

/** A listener with a protocol that uses hostnames. `refused` has the names that the controller rejects. */
function viewListener(
  { name, hostname, port, protocol = "", allowedRoutes }: Read<typeof LISTENER>,
  refused: ReadonlySet<unknown>,
) {
  const kinds = kindsOf(protocol, allowedRoutes?.kinds);
  if (kinds.length === 0) return [];
  return [
    {
      name: name ?? "",
      // 0 is the default of an XListenerSet: the implementation chooses the port.
      port: port || undefined,
      /** As written, or undefined for all names. */
      hostname,
      folded: hostname && foldCase(hostname),
      kinds,
      ...choiceOf(allowedRoutes?.namespaces, "Same"),
      refused: refused.has(name),
    },
  ];
}

/** Whether a controller rejects a listener, for instance because another one has its hostname and port. */
function isRefused({ conditions }: Read<typeof LISTENING.listeners>[number]): boolean {
  const isOf = (type: string, status: string) => conditionOf(conditions, type)?.status === status;
  return isOf("Accepted", "False") || isOf("Conflicted", "True");
}

/**
 * With an implementation-specific protocol, the listener allows the kinds that it lists. With a standard one, only
 * kinds that can work.
 */
function kindsOf(protocol: string, listed: Read<typeof ALLOWED_ROUTES.kinds> = []): readonly string[] {
  const possible = Object.hasOwn(KINDS_OF_PROTOCOL, protocol) ? KINDS_OF_PROTOCOL[protocol] : undefined;
  if (listed.length === 0) return possible ?? [];
  const own = listed.filter(({ group }) => group === undefined || group === GATEWAY_GROUP);
  return (possible ?? ROUTE_KINDS).filter((kind) => own.some((each) => each.kind === kind));
}

/** Maximum length of a selector, as JSON. It is kept whole, and may be as long as an object. */
const MAX_SELECTOR = 16_384;

/** Reads where objects may attach from. An unknown value, or a selector that is too long, allows no namespace. */
function choiceOf({ from, selector }: Read<typeof NAMESPACES> = {}, usual: "Same" | "None") {
  const value = from ?? usual;
  const text = value === "Selector" ? JSON.stringify(selector ?? {}) : "";
  const isLong = text.length > MAX_SELECTOR;
  const known = (["Same", "All", "Selector"] as const).find((each) => each === value && !isLong) ?? "None";
  // A copy that is read from JSON takes less memory than one that a schema has built.
  return { from: known, selector: known === "Selector" ? (JSON.parse(text) as Selector) : undefined };
}

function addressOf({ type = "IPAddress", value }: { type?: string | undefined; value?: string | undefined }) {
  return type === "IPAddress" || type === "Hostname" ? (value ?? []) : [];
}

export const viewRoute = viewer("HTTPRoute", ROUTE_FIELDS, (origin, { spec, status }) => {
  const { namespace } = origin.ref;
  // Several controllers may have written a status for a parent.
  const statuses = Map.groupBy(status?.parents ?? [], ({ parentRef = {} }) => refKey(parentRef, namespace));
  const listsOf = (key: string) => (statuses.get(key) ?? []).map(({ conditions }) => conditions);
  const refs = (spec?.parentRefs ?? []).filter((ref) => parentKindOf(ref) !== undefined);
  // The API allows no two equal parents. Without this check, a CRD without limits could turn them into as many claims.
  const parents = new Map(refs.map((ref) => [refKey(ref, namespace), ref]));
  return {
    ...origin,
    /** As written, without duplicates. If empty, the route uses the hostnames of its listeners. */
    hostnames: [...new Set(spec?.hostnames)],
    /** Its parents that are Gateways or ListenerSets. */
    parents: [...parents].map(([key, ref]) => viewParent(ref, listsOf(key), namespace)),
  };
});

/** A Gateway or a ListenerSet, or one of its listeners, that a route attaches to. */
function viewParent(ref: ParentRef, lists: readonly (Conditions | undefined)[], namespace: string) {
  return {
    kind: parentKindOf(ref) ?? "Gateway",
    key: parentKey(ref, namespace),
    sectionName: ref.sectionName,
    port: ref.port,
    ...acceptanceOf(lists),
  };
}

/**
 * Group and kind have defaults (`ParentReference`). A parent that is a Service is for a mesh. Other kinds are
 * unknown.
 */
function parentKindOf({ group = GATEWAY_GROUP, kind = "Gateway" }: ParentRef): "Gateway" | SetKind | undefined {
  return PARENT_GROUPS.get(kind) === group ? (kind as "Gateway" | SetKind) : undefined;
}

/** `namespace/name`. */
function parentKey({ namespace, name = "" }: ParentRef, own: string): string {
  return `${namespace ?? own}/${name}`;
}

function refKey(ref: ParentRef, own: string): string {
  const { namespace = own, name, sectionName, port } = ref;
  return JSON.stringify([parentKindOf(ref), namespace, name, sectionName, port]);
}

/** Whether one of several controllers has accepted an object, or else the first reason and message of a refusal. */
function acceptanceOf(lists: readonly (Conditions | undefined)[]) {
  const found = lists.flatMap((conditions) => conditionOf(conditions, "Accepted") ?? []);
  if (found.some(({ status }) => status === "True")) return { accepted: true, refusal: undefined };
  const words = found.map(({ reason, message }) => [reason, message].filter(Boolean).join(": "));
  return { accepted: false, refusal: words.find((text) => text !== "") };
}

function conditionOf(conditions: Conditions = [], type: string) {
  return conditions.find((condition) => condition.type === type);
}

/** The kinds, with the versions that are read of each. TLSRoute was the last one to become `v1`. */
export function gatewayKinds(): Kind<GatewayObject>[] {
  const parent = { isShared: true, pick: pickListeners } as const;
  return [
    { ...namesOf("GatewayClass", GATEWAY_GROUP), isShared: true, project: viewClass },
    { ...namesOf("Gateway", GATEWAY_GROUP), ...parent, project: viewGateway },
    { ...namesOf("ListenerSet", GATEWAY_GROUP), ...parent, project: viewListenerSet },
    { ...namesOf("XListenerSet", EXPERIMENTAL_GROUP, ["v1alpha1"]), ...parent, project: viewListenerSet },
    ...ROUTE_KINDS.map((kind) => ({
      ...namesOf(kind, GATEWAY_GROUP, kind === "TLSRoute" ? ["v1", "v1alpha3", "v1alpha2"] : ["v1"]),
      project: viewRoute,
      pick: (view: RouteView, keeps: Keeps) => ({ ...view, hostnames: view.hostnames.filter(keeps) }),
    })),
  ];
}

type Keeps = (name: string) => boolean;

function pickListeners<V extends GatewayView | ListenerSetView>(view: V, keeps: Keeps): V {
  return { ...view, listeners: view.listeners.filter(({ hostname }) => keeps(hostname ?? "")) };
}
