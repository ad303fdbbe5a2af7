import { foldCase } from "#hostmap/hostnames.ts";
import {
  listOf,
  mapOf,
  numberOf,
  type ObjectOrigin,
  originOf,
  type Raw,
  textOf,
  textsOf,
  withChoice,
} from "../raw-object.ts";
import type { RoutingHints } from "../types.ts";
import { insideCluster } from "./inside-cluster.ts";

export const GATEWAY_GROUP = "gateway.networking.k8s.io";
/**
 * The group of experimental kinds. Its XListenerSet has the fields of ListenerSet (kubernetes-sigs/gateway-api,
 * apisx/v1alpha1/xlistenerset_types.go), and both may exist while users migrate.
 */
export const EXPERIMENTAL_GROUP = "gateway.networking.x-k8s.io";

/** The kinds of routes whose requests have a hostname that a client resolves. */
const ROUTE_KINDS = ["HTTPRoute", "GRPCRoute", "TLSRoute"] as const;
export type RouteKind = (typeof ROUTE_KINDS)[number];

/** The projection of a GatewayClass. */
export interface ClassView extends Pick<ObjectOrigin, "ref" | "created"> {
  readonly controller: string | undefined;
  /** That of the parameters of its implementation (`spec.parametersRef`). */
  readonly namespace: string | undefined;
}

/** The projection of a Gateway (gateway.networking.k8s.io/v1). */
export interface GatewayView extends ObjectOrigin {
  /** Whether its controller has accepted it. If not, `refusal` may have the controller's reason and message. */
  readonly accepted: boolean;
  readonly refusal: string | undefined;
  readonly hints: RoutingHints;
  readonly listeners: readonly ListenerView[];
  /** The namespaces whose ListenerSets may attach. */
  readonly allowedSets: NamespaceChoice;
}

/** The projection of a ListenerSet or XListenerSet (GEP-1713): further listeners of a Gateway. */
export interface ListenerSetView extends ObjectOrigin {
  /** See `GatewayView`. */
  readonly accepted: boolean;
  readonly refusal: string | undefined;
  /** `namespace/name` of its Gateway; undefined if its parent is of another kind. */
  readonly gateway: string | undefined;
  readonly listeners: readonly ListenerView[];
}

/** Namespaces from which objects may attach. */
export interface NamespaceChoice {
  readonly from: "Same" | "All" | "Selector" | "None";
  /** The selected namespaces, with `from: Selector`. */
  readonly selector: unknown;
}

/** A listener with a protocol that uses hostnames. */
export interface ListenerView extends NamespaceChoice {
  readonly name: string;
  readonly port: number | undefined;
  /** As written, or undefined for all names. */
  readonly hostname: string | undefined;
  /** `hostname` in lower case. */
  readonly folded: string | undefined;
  readonly kinds: readonly RouteKind[];
  /** Whether the controller rejects this listener, for instance because another one has its hostname and port. */
  readonly refused: boolean;
}

/** The projection of a route. */
export interface RouteView extends ObjectOrigin {
  readonly kind: RouteKind;
  /** As written, without duplicates. If empty, the route uses the hostnames of its listeners. */
  readonly hostnames: readonly string[];
  /** Its parents that are Gateways or ListenerSets. */
  readonly parents: readonly ParentView[];
}

/** The kinds of objects that add listeners to a Gateway, each with its group. */
const SET_GROUPS = { ListenerSet: GATEWAY_GROUP, XListenerSet: EXPERIMENTAL_GROUP } as const;
export type SetKind = keyof typeof SET_GROUPS;
/** The groups of the kinds of parents with listeners. */
const PARENT_GROUPS: ReadonlyMap<unknown, string> = new Map([
  ["Gateway", GATEWAY_GROUP],
  ...Object.entries(SET_GROUPS),
]);

/** A Gateway or a ListenerSet, or one of its listeners, that a route attaches to. */
export interface ParentView {
  readonly kind: "Gateway" | SetKind;
  /** `namespace/name`. */
  readonly key: string;
  readonly sectionName: string | undefined;
  readonly port: number | undefined;
  readonly accepted: boolean;
  /** The controller's reason and message if it rejected the route. */
  readonly refusal: string | undefined;
}

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

export function viewClass(raw: Raw): ClassView {
  const { ref, created } = originOf("GatewayClass", raw);
  const { controllerName, parametersRef } = mapOf(raw.spec);
  return { ref, created, controller: textOf(controllerName), namespace: textOf(mapOf(parametersRef).namespace) };
}

/** Projects a Gateway. The projections of two versions are deeply equal if all used fields are the same. */
export function viewGateway(
  raw: Raw,
  { clusterDomain }: { readonly clusterDomain?: string | undefined } = {},
): GatewayView {
  const spec = mapOf(raw.spec);
  const own = viewListeners(raw);
  const addresses = listOf(mapOf(raw.status).addresses).flatMap(addressOf);
  const inside = insideCluster(raw, addresses, clusterDomain);
  const allowed = mapOf(mapOf(spec.allowedListeners).namespaces);
  const origin = originOf("Gateway", raw, { namespace: "default" });
  const hints: RoutingHints = {
    className: textOf(spec.gatewayClassName),
    isGatewayClass: true,
    addresses: [...new Set(addresses)],
    ...portsOf(own.listeners),
    admitted: addresses.length > 0 || own.accepted,
    gateway: { namespace: origin.ref.namespace, name: origin.ref.name },
    ...(inside && { inside }),
  };
  return {
    ...origin,
    ...own,
    hints: withChoice(hints, origin),
    allowedSets: choiceOf(allowed, "None"),
  };
}

/** Projects a ListenerSet, like `viewGateway`. */
export function viewListenerSet(raw: Raw, kind: SetKind = "ListenerSet"): ListenerSetView {
  const own = originOf(kind, raw, { namespace: "default" });
  const parent = mapOf(mapOf(raw.spec).parentRef);
  const gateway = parentKindOf(parent) === "Gateway" ? parentKey(parent, own.ref.namespace) : undefined;
  return { ...own, ...viewListeners(raw), gateway };
}

/** The ports of listeners, in the form of routing hints. */
export function portsOf(listeners: readonly ListenerView[]): Pick<RoutingHints, "ports"> {
  const ports = new Set(listeners.flatMap(({ port }) => port ?? []));
  return ports.size > 0 ? { ports: [...ports].sort((a, b) => a - b) } : {};
}

/** The fields that Gateways and ListenerSets have in common. */
function viewListeners(raw: Raw): Pick<GatewayView, "accepted" | "refusal" | "listeners"> {
  const status = mapOf(raw.status);
  const accepted = conditionOf(status.conditions, "Accepted");
  const refused = new Set(
    listOf(status.listeners)
      .filter(isRefused)
      .map((listener) => mapOf(listener).name),
  );
  const listeners = listOf(mapOf(raw.spec).listeners).flatMap((listener) => viewListener(mapOf(listener), refused));
  return { accepted: accepted.status === "True", refusal: accepted.words, listeners };
}

function viewListener(raw: Raw, refused: ReadonlySet<unknown>): ListenerView[] {
  const allowed = mapOf(raw.allowedRoutes);
  const kinds = kindsOf(textOf(raw.protocol) ?? "", listOf(allowed.kinds));
  if (kinds.length === 0) return [];
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

/**
 * With an implementation-specific protocol, the listener allows the kinds that it lists. With a standard one, only
 * kinds that can work.
 */
function kindsOf(protocol: string, listed: readonly unknown[]): readonly RouteKind[] {
  const possible = Object.hasOwn(KINDS_OF_PROTOCOL, protocol) ? KINDS_OF_PROTOCOL[protocol] : undefined;
  if (listed.length === 0) return possible ?? [];
  const names = listed
    .map(mapOf)
    .filter(({ group }) => group === undefined || group === GATEWAY_GROUP)
    .map(({ kind }) => kind);
  return (possible ?? ROUTE_KINDS).filter((kind) => names.includes(kind));
}

/** Maximum length of a selector, as JSON. It is kept as it is, and may be as long as an object. */
const MAX_SELECTOR = 16_384;

/** Reads where objects may attach from. An unknown value, or a selector that is too long, allows no namespace. */
function choiceOf({ from, selector }: Raw, usual: "Same" | "None"): NamespaceChoice {
  const value = from === undefined ? usual : from;
  const known = value === "Same" || value === "All" || value === "Selector" ? value : "None";
  if (known !== "Selector") return { from: known, selector: undefined };
  const isLong = (JSON.stringify(selector) ?? "").length > MAX_SELECTOR;
  return isLong ? { from: "None", selector: undefined } : { from: known, selector };
}

function addressOf(raw: unknown): string[] {
  const { type, value } = mapOf(raw);
  const known = type === undefined || type === "IPAddress" || type === "Hostname";
  const text = known ? textOf(value) : undefined;
  return text === undefined ? [] : [text];
}

/** Projects a route. */
export function viewRoute(kind: RouteKind, raw: Raw): RouteView {
  const spec = mapOf(raw.spec);
  const own = originOf(kind, raw, { namespace: "default" });
  const { namespace } = own.ref;
  const statuses = statusesByParent(listOf(mapOf(raw.status).parents).map(mapOf), namespace);
  const refs = listOf(spec.parentRefs)
    .map(mapOf)
    .filter((ref) => parentKindOf(ref) !== undefined);
  // The API allows no two equal parents. Without this check, a CRD without limits could turn them into as many claims.
  const parents = new Map(refs.map((ref) => [refKey(ref, namespace), ref]));
  return {
    kind,
    ...own,
    hostnames: [...new Set(textsOf(spec.hostnames))],
    parents: [...parents].map(([key, ref]) => viewParent(ref, statuses.get(key) ?? [], namespace)),
  };
}

/** The statuses of each parent with listeners, by its `refKey`. Several controllers may have written a status. */
function statusesByParent(statuses: readonly Raw[], namespace: string): ReadonlyMap<string, readonly Raw[]> {
  const relevant = statuses.filter(({ parentRef }) => parentKindOf(mapOf(parentRef)) !== undefined);
  return Map.groupBy(relevant, ({ parentRef }) => refKey(mapOf(parentRef), namespace));
}

function viewParent(raw: Raw, statuses: readonly Raw[], namespace: string): ParentView {
  // It is enough if one controller accepts the route.
  const conditions = statuses.map((status) => conditionOf(status.conditions, "Accepted"));
  const accepted = conditions.some(({ status }) => status === "True");
  return {
    kind: parentKindOf(raw) ?? "Gateway",
    key: parentKey(raw, namespace),
    sectionName: textOf(raw.sectionName),
    port: numberOf(raw.port),
    accepted,
    refusal: accepted ? undefined : conditions.find(({ words }) => words !== undefined)?.words,
  };
}

/**
 * Group and kind have defaults (`ParentReference`). A parent that is a Service is for a mesh. Other kinds are
 * unknown.
 */
function parentKindOf({ group = GATEWAY_GROUP, kind = "Gateway" }: Raw): ParentView["kind"] | undefined {
  return PARENT_GROUPS.get(kind) === group ? (kind as ParentView["kind"]) : undefined;
}

function parentKey({ namespace, name }: Raw, own: string): string {
  return `${textOf(namespace) ?? own}/${textOf(name) ?? ""}`;
}

function refKey(ref: Raw, own: string): string {
  const { sectionName, port } = ref;
  const parts = [parentKindOf(ref), textOf(ref.namespace) ?? own, ref.name, textOf(sectionName), numberOf(port)];
  return JSON.stringify(parts);
}

function isRefused(listener: unknown): boolean {
  const { conditions } = mapOf(listener);
  return (
    conditionOf(conditions, "Accepted").status === "False" || conditionOf(conditions, "Conflicted").status === "True"
  );
}

/** A condition's status, and its reason and message if it is not True. */
function conditionOf(conditions: unknown, type: string): { status: unknown; words: string | undefined } {
  const found = listOf(conditions)
    .map(mapOf)
    .find((condition) => condition.type === type);
  const { status, reason, message } = found ?? {};
  const words = [textOf(reason), textOf(message)].filter((text) => text !== undefined);
  return { status, words: status === "True" || words.length === 0 ? undefined : words.join(": ") };
}
