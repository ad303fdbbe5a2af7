import { foldCase, show } from "#hostmap/hostnames.ts";
import { IGNORE_KEY } from "#hostmap/metadata-keys.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import { ClaimList } from "../claim-list.ts";
import type { ClaimsOf } from "../kinds-source.ts";
import { listOf, mapOf, textMapOf, textOf, withChoice } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import {
  type ClassView,
  type GatewayView,
  type ListenerSetView,
  type ListenerView,
  type NamespaceChoice,
  type ParentView,
  portsOf,
  type RouteView,
} from "./view.ts";

export type GatewayObject = ClassView | GatewayView | ListenerSetView | RouteView;
export type Labels = Readonly<Record<string, string>>;
/** By kind and key: `HTTPRoute shop/web`. */
export type GatewayObjects = ReadonlyMap<string, GatewayObject>;

/** What else decides about the claims. */
export interface GatewayOptions {
  /** Use only Gateways and routes that their controllers have accepted. */
  readonly requireAccepted: boolean;
  /** Whether Gateways and ListenerSets claim the hostnames of their listeners. */
  readonly listeners: boolean;
  /** The labels of a namespace. Undefined: it does not exist. */
  labelsOf(namespace: string): Labels | undefined;
}

/**
 * A Gateway or ListenerSet, to whose listeners routes attach. A Gateway does not include the listeners of its
 * ListenerSets.
 */
interface Owner {
  readonly ref: ObjectRef;
  readonly created: string;
  readonly listeners: readonly ListenerView[];
  /** A reason: it has no Gateway. */
  readonly hints: RoutingHints | Reason;
  /** Set if the object or its Gateway has the ignore annotation. */
  readonly ignored: Reason | undefined;
  /** Why its controller does not serve it, if acceptance is required. */
  readonly refusal: Reason | undefined;
}

/** By kind and key. */
type Owners = ReadonlyMap<string, Owner>;

/** What became of a route at one parent: the hints or the reason of its names at these listeners. */
interface Attachment {
  /** How far it got. If no parent works, the one where it got furthest provides the reason. */
  readonly stage: number;
  readonly hints: RoutingHints | Reason;
  /** Undefined: it got to no listener. */
  readonly listeners?: readonly ListenerView[];
}

/** Maximum number of listeners in a reason. */
const MAX_SHOWN = 4;

const STAGES = { none: 0, parent: 1, listener: 2, allowed: 3, hostname: 4, accepted: 5 } as const;

/** Prepares the evaluation of all objects. */
export function gatewayClaims(objects: GatewayObjects, options: GatewayOptions): ClaimsOf<GatewayObject> {
  const owners = new Map<string, Owner>();
  for (const [object, view] of objects) {
    if ("listeners" in view) owners.set(object, ownerOf(view, objects, options));
  }
  return (view, object) => {
    if ("parents" in view) return claimsOfRoute(view, owners, options);
    const owner = owners.get(object);
    return owner !== undefined && options.listeners ? claimsOfOwner(owner) : [];
  };
}

/**
 * The claims of a Gateway or ListenerSet itself: its listeners' hostnames, even before a route exists. cert-manager
 * requests certificates for them, and its self-check runs before any route is accepted.
 */
function claimsOfOwner(owner: Owner): View[] {
  const { ref, hints, ignored, refusal } = owner;
  const claims = new ClaimList(owner, { anyDepth: true });
  for (const { hostname, refused } of owner.listeners) {
    if (hostname === undefined) continue;
    const text = `the ${ref.kind}'s controller rejects the listener for ${show(hostname)}`;
    claims.add(hostname, refused ? { code: "not-accepted", text } : (ignored ?? refusal ?? hints));
  }
  return claims.all;
}

/**
 * The claims of a route. For each parent, they are the names that both route and listener cover, or the reason why
 * there are none.
 */
function claimsOfRoute(route: RouteView, owners: Owners, options: GatewayOptions): View[] {
  const claims = new ClaimList(route, { anyDepth: true });
  if (route.ignored) return claims.addAll(route.hostnames, ignoredReason(route.ref)).all;
  const text = `the ${route.kind} has no Gateway or ListenerSet among its parents`;
  const none: Attachment = { stage: STAGES.none, hints: { code: "gateway-not-found", text } };
  const attachments = [none, ...route.parents.map((parent) => attach(route, parent, owners, options))];
  // A route without hostnames uses those of its listeners.
  for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
    const found = attachments.map((attachment) => named(attachment, hostname));
    const working = found.filter(({ hints }) => !("code" in hints));
    const furthest = found.reduce((best, one) => (one.stage > best.stage ? one : best));
    for (const { names, hints } of working.length > 0 ? working : [furthest]) claims.addAll(names, hints);
  }
  return claims.all;
}

/** Adds the names that a hostname of the route shares with the listeners. */
function named(attachment: Attachment, hostname: string | undefined): Attachment & { readonly names: string[] } {
  const own = hostname === undefined ? [] : [hostname];
  const { listeners } = attachment;
  if (listeners === undefined) return { ...attachment, names: own };
  const names = commonNames(listeners, hostname);
  if (names.length > 0) return { ...attachment, names };
  const taken = listSome(listeners, MAX_SHOWN, (listener) => show(listener.hostname ?? "*"));
  const text = `no listener accepts this name; they accept ${taken}`;
  return { stage: STAGES.hostname, hints: { code: "no-matching-listener", text }, names: own };
}

function commonNames(listeners: readonly ListenerView[], hostname: string | undefined): string[] {
  const names = new Map<string | undefined, string>();
  const folded = hostname && foldCase(hostname);
  for (const listener of listeners) {
    const side = narrowerOf(listener.folded, folded);
    const name = side === "listener" ? listener.hostname : hostname;
    if (side !== undefined && name !== undefined) names.set(side === "listener" ? listener.folded : folded, name);
  }
  return [...names.values()];
}

function attach(route: RouteView, parent: ParentView, owners: Owners, options: GatewayOptions): Attachment {
  const { kind, key, sectionName, port, accepted, refusal } = parent;
  const owner = owners.get(`${kind} ${key}`);
  const own = `${kind} ${show(key)}`;
  const refused = (stage: keyof typeof STAGES, code: string, text: string) => ({
    stage: STAGES[stage],
    hints: { code, text },
  });
  if (owner === undefined) return refused("parent", "gateway-not-found", `its parent, the ${own}, does not exist`);
  const { hints, ignored } = owner;
  if ("code" in hints) return refused("parent", hints.code, `its parent, the ${own}, has no Gateway: ${hints.text}`);
  // If both name and port are set, both must match (`ParentReference`).
  const ofName = owner.listeners.filter(({ name }) => sectionName === undefined || sectionName === name);
  const meant = ofName.filter((listener) => port === undefined || port === listener.port);
  if (meant.length === 0) {
    const text = `its parent, the ${own}, has no listener for hostnames with the route's name and port`;
    return refused("listener", "no-matching-listener", text);
  }
  const listeners = meant.filter(
    (one) =>
      !one.refused && one.kinds.includes(route.kind) && selects(one, route.ref.namespace, owner.ref.namespace, options),
  );
  if (listeners.length === 0) {
    return refused("allowed", "not-allowed", `no listener of the ${own} allows a ${route.kind} from this namespace`);
  }
  const words = refusal === undefined ? "its controller has written no status" : show(refusal);
  const text = `the ${own} has not accepted the route: ${words}`;
  const unaccepted = options.requireAccepted && !accepted ? { code: "not-accepted", text } : undefined;
  return { stage: STAGES.accepted, listeners, hints: ignored ?? unaccepted ?? withChoice(hints, route) };
}

/** The hints of a ListenerSet are those of its Gateway. If the Gateway has no listeners, the ports are the set's. */
function ownerOf(view: GatewayView | ListenerSetView, objects: GatewayObjects, options: GatewayOptions): Owner {
  const { ref, created, listeners } = view;
  const gateway = "gateway" in view ? gatewayOfSet(view, objects, options) : view;
  const known = "code" in gateway ? gateway : hintsOfGateway(gateway, objects);
  const hints = "code" in known || known.ports !== undefined ? known : { ...known, ...portsOf(listeners) };
  const both = "code" in gateway ? [view] : [view, gateway];
  const ignored = both.find((one) => one.ignored)?.ref;
  const unaccepted = options.requireAccepted && both.length === 2 ? both.find(({ accepted }) => !accepted) : undefined;
  return {
    ...{ ref, created, listeners },
    hints: withChoice(hints, view),
    ignored: ignored && ignoredReason(ignored),
    refusal: unaccepted && notAccepted(unaccepted),
  };
}

/** Adds what the GatewayClass knows: its controller, and the namespace of the parameters of its implementation. */
function hintsOfGateway({ ref, hints }: GatewayView, objects: GatewayObjects): RoutingHints {
  const found = objects.get(`GatewayClass ${hints.className}`);
  if (found === undefined || !("controller" in found)) return hints;
  const { controller, namespace: classNamespace } = found;
  const gateway = { namespace: ref.namespace, name: ref.name, ...(classNamespace && { classNamespace }) };
  return { ...hints, ...(controller && { controller }), gateway };
}

/**
 * The Gateway that a ListenerSet attaches to, if it exists and allows that. By default a Gateway allows no ListenerSet.
 */
function gatewayOfSet(set: ListenerSetView, objects: GatewayObjects, options: GatewayOptions): GatewayView | Reason {
  if (set.gateway === undefined) return { code: "gateway-not-found", text: "its parent is of another kind" };
  const gateway = objects.get(`Gateway ${set.gateway}`);
  if (gateway === undefined || !("allowedSets" in gateway)) {
    return { code: "gateway-not-found", text: `the Gateway ${show(set.gateway)} does not exist` };
  }
  if (selects(gateway.allowedSets, set.ref.namespace, gateway.ref.namespace, options)) return gateway;
  const text = `\`allowedListeners\` of the Gateway ${show(set.gateway)} does not allow ListenerSets of this namespace`;
  return { code: "not-allowed", text };
}

/** Whether objects of `namespace` may attach to an object of `own`. */
function selects(
  { from, selector }: NamespaceChoice,
  namespace: string,
  own: string,
  { labelsOf }: GatewayOptions,
): boolean {
  if (from === "Same") return namespace === own;
  if (from !== "Selector") return from === "All";
  const labels = labelsOf(namespace);
  return labels !== undefined && matchesSelector(selector, labels);
}

function notAccepted({ ref: { kind }, refusal }: GatewayView | ListenerSetView): Reason {
  const words = refusal === undefined ? "there is no status" : show(refusal);
  return { code: "not-accepted", text: `no controller has accepted the ${kind}: ${words}` };
}

function ignoredReason({ kind, namespace, name }: ObjectRef): Reason {
  return { code: "ignored", text: `the ${kind} ${namespace}/${name} carries ${IGNORE_KEY}: "true"` };
}

/**
 * Which hostname is the intersection of a listener's and a route's hostname; undefined: they do not intersect. Either
 * may be a wildcard, which covers every name below it, at any depth, but not the name itself. An undefined hostname
 * covers all names (gateway.networking.k8s.io/v1: `HTTPRouteSpec.hostnames`, `Listener.hostname`). Names must already
 * be in lower case, because a Gateway with many listeners calls this very often.
 */
function narrowerOf(listener: string | undefined, route: string | undefined): "listener" | "route" | undefined {
  if (listener === undefined || route === undefined) return route === undefined ? "listener" : "route";
  if (covers(listener, route)) return "route";
  return covers(route, listener) ? "listener" : undefined;
}

/** Whether `wide` covers every name that `narrow` covers. */
function covers(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith("*.") && narrow.endsWith(wide.slice(1)));
}

/**
 * Whether labels match a `LabelSelector` (meta/v1). An empty selector matches all labels. An unknown operator matches
 * no labels.
 */
export function matchesSelector(selector: unknown, labels: Labels): boolean {
  const { matchLabels, matchExpressions } = mapOf(selector);
  return (
    Object.entries(textMapOf(matchLabels)).every(([key, value]) => labelOf(labels, key) === value) &&
    listOf(matchExpressions).every((expression) => matchesExpression(expression, labels))
  );
}

function matchesExpression(expression: unknown, labels: Labels): boolean {
  const { key, operator, values } = mapOf(expression);
  const value = labelOf(labels, textOf(key) ?? "");
  switch (operator) {
    case "In":
      return value !== undefined && listOf(values).includes(value);
    case "NotIn":
      // As in Kubernetes, `In` does not match an object without the label.
      return value === undefined || !listOf(values).includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}

function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
