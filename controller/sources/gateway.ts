import { isDeepStrictEqual } from "node:util";
import { foldCase, show } from "#hostmap/hostnames.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { listSome } from "#lib/errors/printable.ts";
import { ClaimList } from "./claim-list.ts";
import {
  type GatewayObject,
  type GatewayView,
  gatewayKinds,
  type ListenerSetView,
  type ListenerView,
  type NamespaceChoice,
  type ParentView,
  portsOf,
  type RouteView,
  type Selector,
} from "./gateway/view.ts";
import { type ClaimsOf, KindsSource, type SourceDeps } from "./kinds-source.ts";
import type { Namespaces } from "./namespaces.ts";
import { ignoredBy, withChoice } from "./raw-object.ts";
import type { RoutingHints, Source, View } from "./types.ts";

/** The GatewayClasses, Gateways, ListenerSets and routes of a cluster that may have Gateway API. */
export function gatewaySource(
  deps: SourceDeps & {
    /** Their labels decide which routes a listener takes. */
    readonly namespaces: Pick<Namespaces, "follow" | "of">;
    readonly config: Config["sources"];
  },
): Source {
  const { config, namespaces } = deps;
  const labelsOf = (namespace: string) => namespaces.of(namespace)?.labels;
  const source = new KindsSource<GatewayObject>(deps, {
    kinds: gatewayKinds(),
    prepare: (objects) => gatewayClaims(objects, { ...config.gateway, labelsOf }),
  });
  namespaces.follow((_name, before, after) => {
    if (!isDeepStrictEqual(before?.labels, after?.labels)) source.changed();
  });
  return source;
}

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
  readonly hints: RoutingHints | Reason;
  /** Undefined: it got to no listener. */
  readonly listeners?: readonly ListenerView[];
}

/** Maximum number of listeners in a reason. */
const MAX_SHOWN = 4;

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
 * The claims of a route: the names that both route and listener cover at its parents. A name that works at no parent
 * has the reason of the first one.
 */
function claimsOfRoute(route: RouteView, owners: Owners, options: GatewayOptions): View[] {
  const claims = new ClaimList(route, { anyDepth: true });
  if (route.ignored) return claims.addAll(route.hostnames, ignoredBy(route.ref)).all;
  const text = `the ${route.ref.kind} has no Gateway or ListenerSet among its parents`;
  const none: Attachment = { hints: { code: "gateway-not-found", text } };
  const attachments = route.parents.map((parent) => attach(route, parent, owners, options));
  // A route without hostnames uses those of its listeners.
  for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
    const [first = named(none, hostname), ...others] = attachments.map((attachment) => named(attachment, hostname));
    const working = [first, ...others].filter(({ hints }) => !("code" in hints));
    for (const { names, hints } of working.length > 0 ? working : [first]) claims.addAll(names, hints);
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
  return { hints: { code: "no-matching-listener", text }, names: own };
}

/**
 * The names that a listener and a hostname of a route have in common: of each two, the narrower one. Either may be a
 * wildcard, which covers every name below it, at any depth, but not the name itself. An undefined hostname covers all
 * names (gateway.networking.k8s.io/v1: `HTTPRouteSpec.hostnames`, `Listener.hostname`).
 */
function commonNames(listeners: readonly ListenerView[], hostname: string | undefined): string[] {
  const names = new Map<string | undefined, string | undefined>();
  const route = hostname && foldCase(hostname);
  for (const { folded: own, hostname: written } of listeners) {
    if (own === undefined || (route !== undefined && covers(own, route))) names.set(route, hostname);
    else if (route === undefined || covers(route, own)) names.set(own, written);
  }
  return [...names.values()].filter((name) => name !== undefined);
}

function attach(route: RouteView, parent: ParentView, owners: Owners, options: GatewayOptions): Attachment {
  const { kind, key, sectionName, port, accepted, refusal } = parent;
  const owner = owners.get(`${kind} ${key}`);
  const own = `${kind} ${show(key)}`;
  const refused = (code: string, text: string) => ({ hints: { code, text } });
  if (owner === undefined) return refused("gateway-not-found", `its parent, the ${own}, does not exist`);
  const { hints, ignored } = owner;
  if ("code" in hints) return refused(hints.code, `its parent, the ${own}, has no Gateway: ${hints.text}`);
  // If both name and port are set, both must match (`ParentReference`).
  const ofName = owner.listeners.filter(({ name }) => sectionName === undefined || sectionName === name);
  const meant = ofName.filter((listener) => port === undefined || port === listener.port);
  if (meant.length === 0) {
    const text = `its parent, the ${own}, has no listener for hostnames with the route's name and port`;
    return refused("no-matching-listener", text);
  }
  const listeners = meant.filter(
    (one) =>
      !one.refused &&
      one.kinds.includes(route.ref.kind) &&
      selects(one, route.ref.namespace, owner.ref.namespace, options),
  );
  if (listeners.length === 0) {
    return refused("not-allowed", `no listener of the ${own} allows a ${route.ref.kind} from this namespace`);
  }
  const words = refusal === undefined ? "its controller has written no status" : show(refusal);
  const text = `the ${own} has not accepted the route: ${words}`;
  const unaccepted = options.requireAccepted && !accepted ? { code: "not-accepted", text } : undefined;
  return { listeners, hints: ignored ?? unaccepted ?? withChoice(hints, route) };
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
    ignored: ignored && ignoredBy(ignored),
    refusal: unaccepted && notAccepted(unaccepted),
  };
}

/** Adds what the GatewayClass knows: its controller, and the namespace of the parameters of its implementation. */
function hintsOfGateway({ hints }: GatewayView, objects: GatewayObjects): RoutingHints {
  const found = objects.get(`GatewayClass ${hints.className}`);
  if (found === undefined || !("controller" in found)) return hints;
  const { controller, namespace: classNamespace } = found;
  const gateway = hints.gateway && { ...hints.gateway, ...(classNamespace && { classNamespace }) };
  return { ...hints, ...(controller && { controller }), ...(gateway && { gateway }) };
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

/**
 * Whether `wide` covers every name that `narrow` covers. Both must be in lower case already: a Gateway with many
 * listeners calls this very often.
 */
function covers(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith("*.") && narrow.endsWith(wide.slice(1)));
}

/**
 * Whether labels match a `LabelSelector` (meta/v1). An empty selector matches all labels. An unknown operator matches
 * no labels.
 */
export function matchesSelector({ matchLabels = {}, matchExpressions = [] }: Selector = {}, labels: Labels): boolean {
  const own = new Map(Object.entries(labels));
  const ofLabels = Object.entries(matchLabels).map(([key, value]) => ({ key, operator: "In", values: [value] }));
  return [...ofLabels, ...matchExpressions].every((expression) => matchesExpression(expression, own));
}

type Expression = NonNullable<Selector["matchExpressions"]>[number];

function matchesExpression({ key = "", operator, values = [] }: Expression, labels: Map<string, string>): boolean {
  const value = labels.get(key);
  const isIn = value !== undefined && values.includes(value);
  if (operator === "In") return isIn;
  // As in Kubernetes, `In` does not match an object without the label, and `NotIn` does.
  if (operator === "NotIn") return !isIn;
  if (operator === "Exists") return value !== undefined;
  return operator === "DoesNotExist" && value === undefined;
}
