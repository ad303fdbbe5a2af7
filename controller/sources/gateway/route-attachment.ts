import { isDeepStrictEqual } from "node:util";
import { foldCase, show } from "#hostmap/hostnames.ts";
import { IGNORE_KEY } from "#hostmap/metadata-keys.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import { ClaimList } from "../claim-list.ts";
import type { GraphClaims } from "../graph-source.ts";
import { withChoice } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import { narrowerOf } from "./hostname-intersection.ts";
import { type Labels, matchesSelector } from "./selector.ts";
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
  /** The object or its Gateway, whichever has the ignore annotation. */
  readonly ignoredBy: ObjectRef | undefined;
  /** Why its controller does not serve it, if acceptance is required. */
  readonly refusal: Reason | undefined;
}

/** By kind and key. */
export type Owners = ReadonlyMap<string, Owner>;

/** How far a route got with one parent. If no parent works, the one where it got furthest provides the reason. */
type Attachment =
  | { readonly listeners: readonly ListenerView[]; readonly hints: RoutingHints | Reason; readonly stage: number }
  | { readonly reason: Reason; readonly stage: number };

/** Maximum number of listeners in a reason. */
const MAX_SHOWN = 4;

const STAGES = { parent: 0, listener: 1, allowed: 2, hostname: 3, accepted: 4 } as const;

/**
 * The claims of all objects. `before` are the owners of the last evaluation: equal hints stay one object, so that
 * claims without news are found at once.
 */
export function gatewayClaims(
  objects: GatewayObjects,
  options: GatewayOptions,
  before: Owners = new Map(),
): { readonly owners: Owners; readonly all: GraphClaims } {
  const owners = new Map<string, Owner>();
  for (const [object, view] of objects) {
    if (!("listeners" in view)) continue;
    const owner = "gateway" in view ? ownerOfSet(view, objects, options) : ownerOfGateway(view, objects, options);
    const known = before.get(object)?.hints;
    owners.set(object, isDeepStrictEqual(known, owner.hints) && known ? { ...owner, hints: known } : owner);
  }
  return { owners, all: claimsOfAll(objects, owners, options) };
}

function* claimsOfAll(objects: GatewayObjects, owners: Owners, options: GatewayOptions): GraphClaims {
  for (const [object, owner] of options.listeners ? owners : []) yield [object, () => claimsOfOwner(owner)];
  for (const [object, view] of objects)
    if ("parents" in view) yield [object, () => claimsOfRoute(view, owners, options)];
}

/**
 * The claims of a Gateway or ListenerSet itself: its listeners' hostnames, even before a route exists. cert-manager
 * requests certificates for them, and its self-check runs before any route is accepted.
 */
function claimsOfOwner(owner: Owner): View[] {
  const { ref, hints, ignoredBy, refusal } = owner;
  const own = ignoredBy === undefined ? (refusal ?? hints) : ignored(ignoredBy);
  const claims = new ClaimList(owner, { anyDepth: true });
  for (const { hostname, refused } of owner.listeners) {
    if (hostname !== undefined) claims.add(hostname, refused ? listenerRefused(ref, hostname) : own);
  }
  return claims.all;
}

/**
 * The claims of a route. For each parent, they are the names that both route and listener cover, or the reason why
 * there are none.
 */
function claimsOfRoute(route: RouteView, owners: Owners, options: GatewayOptions): View[] {
  const claims = new ClaimList(route, { anyDepth: true });
  if (route.ignored) return claims.refuseAll(route.hostnames, ignored(route.ref)).all;
  const attachments = withChoices(
    route.parents.map((parent) => attach(route, parent, owners, options)),
    route,
  );
  // A route without hostnames uses those of its listeners.
  for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
    claimOne(hostname, route, attachments, claims);
  }
  return claims.all;
}

/**
 * A route's own choice takes precedence over those of its parents. Hints are compared by identity, so equal ones must
 * stay one object.
 */
function withChoices(attachments: readonly Attachment[], route: RouteView): readonly Attachment[] {
  if (route.chosen === undefined) return attachments;
  const chosen = new Map<RoutingHints | Reason, RoutingHints | Reason>();
  return attachments.map((attachment) => {
    if ("reason" in attachment) return attachment;
    const hints = chosen.get(attachment.hints) ?? withChoice(attachment.hints, route);
    chosen.set(attachment.hints, hints);
    return { ...attachment, hints };
  });
}

function claimOne(
  hostname: string | undefined,
  { ref }: RouteView,
  attachments: readonly Attachment[],
  claims: ClaimList,
): void {
  const own = hostname === undefined ? [] : [hostname];
  let furthest = { stage: -1, reason: noGateway(ref), names: own };
  let leads = false;
  const failed = (stage: number, reason: Reason, names: string[]) => {
    if (stage > furthest.stage) furthest = { stage, reason, names };
  };
  for (const attachment of attachments) {
    if ("reason" in attachment) {
      failed(attachment.stage, attachment.reason, own);
      continue;
    }
    const names = commonNames(attachment.listeners, hostname);
    if (names.length === 0) failed(STAGES.hostname, noMatchingHostname(attachment.listeners), own);
    else if ("code" in attachment.hints) failed(attachment.stage, attachment.hints, names);
    else {
      leads = true;
      for (const name of names) claims.add(name, attachment.hints);
    }
  }
  if (!leads) claims.refuseAll(furthest.names, furthest.reason);
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
  const owner = owners.get(`${parent.kind} ${parent.key}`);
  const own = describe(parent);
  if (owner === undefined) {
    return {
      stage: STAGES.parent,
      reason: { code: "gateway-not-found", text: `its parent, the ${own}, does not exist` },
    };
  }
  const { hints, listeners: all } = owner;
  if ("code" in hints) {
    const text = `its parent, the ${own}, has no Gateway: ${hints.text}`;
    return { stage: STAGES.parent, reason: { code: hints.code, text } };
  }
  const named = all.filter((listener) => isNamed(listener, parent));
  if (named.length === 0) {
    const text = `its parent, the ${own}, has no listener for hostnames with the route's name and port`;
    return { stage: STAGES.listener, reason: { code: "no-matching-listener", text } };
  }
  const listeners = named.filter((listener) => allows(listener, route, owner.ref.namespace, options));
  if (listeners.length === 0) {
    const text = `no listener of the ${own} allows a ${route.kind} from this namespace`;
    return { stage: STAGES.allowed, reason: { code: "not-allowed", text } };
  }
  const refusal = refusalOf(parent, owner, options);
  return { stage: STAGES.accepted, listeners, hints: refusal ?? hints };
}

function describe({ kind, key }: Pick<ParentView, "kind" | "key">): string {
  return `${kind} ${show(key)}`;
}

function ownerOfGateway(view: GatewayView, objects: GatewayObjects, options: GatewayOptions): Owner {
  const { ref, created, listeners } = view;
  const hints = hintsOfGateway(view, objects);
  return {
    ref,
    created,
    listeners,
    hints,
    ignoredBy: view.ignored ? ref : undefined,
    refusal: notAccepted(view, options),
  };
}

/**
 * The hints of a ListenerSet are those of its Gateway. If the Gateway has no listeners, the ports are those of the
 * set.
 */
function ownerOfSet(set: ListenerSetView, objects: GatewayObjects, options: GatewayOptions): Owner {
  const { ref, created, listeners } = set;
  const gateway = gatewayOfSet(set, objects, options);
  const ignoredBy = [set, gateway].find((object) => "ignored" in object && object.ignored);
  const owner = { ref, created, listeners, ignoredBy: ignoredBy && "ref" in ignoredBy ? ignoredBy.ref : undefined };
  if ("code" in gateway) return { ...owner, hints: gateway, refusal: undefined };
  const hints = hintsOfGateway(gateway, objects);
  const withPorts = hints.ports === undefined ? { ...hints, ...portsOf(listeners) } : hints;
  return {
    ...owner,
    hints: withChoice(withPorts, set),
    refusal: notAccepted(set, options) ?? notAccepted(gateway, options),
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
  if (set.gateway === undefined) return { code: "no-gateway", text: "its parent is of another kind" };
  const gateway = objects.get(`Gateway ${set.gateway}`);
  if (gateway === undefined || !("allowedSets" in gateway)) {
    return { code: "gateway-not-found", text: `the Gateway ${show(set.gateway)} does not exist` };
  }
  if (selects(gateway.allowedSets, set.ref.namespace, gateway.ref.namespace, options)) return gateway;
  const text = `\`allowedListeners\` of the Gateway ${show(set.gateway)} does not allow ListenerSets of this namespace`;
  return { code: "listener-set-not-allowed", text };
}

/** If both name and port are set, both must match (`ParentReference`). */
function isNamed(listener: ListenerView, { sectionName, port }: ParentView): boolean {
  return (sectionName === undefined || sectionName === listener.name) && (port === undefined || port === listener.port);
}

function allows(listener: ListenerView, route: RouteView, ownNamespace: string, options: GatewayOptions): boolean {
  if (listener.refused || !listener.kinds.includes(route.kind)) return false;
  return selects(listener, route.ref.namespace, ownNamespace, options);
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

function refusalOf(parent: ParentView, { ignoredBy }: Owner, { requireAccepted }: GatewayOptions): Reason | undefined {
  if (ignoredBy !== undefined) return ignored(ignoredBy);
  if (!requireAccepted || parent.accepted) return undefined;
  const words = parent.refusal === undefined ? "its controller has written no status" : show(parent.refusal);
  return { code: "not-accepted", text: `the ${describe(parent)} has not accepted the route: ${words}` };
}

function notAccepted(
  { ref, accepted, refusal }: GatewayView | ListenerSetView,
  { requireAccepted }: GatewayOptions,
): Reason | undefined {
  if (!requireAccepted || accepted) return undefined;
  const words = refusal === undefined ? "there is no status" : show(refusal);
  return { code: "not-accepted", text: `no controller has accepted the ${ref.kind}: ${words}` };
}

function noGateway({ kind }: ObjectRef): Reason {
  return { code: "no-gateway", text: `the ${kind} has no Gateway or ListenerSet among its parents` };
}

function noMatchingHostname(listeners: readonly ListenerView[]): Reason {
  const taken = listSome(listeners, MAX_SHOWN, ({ hostname }) => show(hostname ?? "*"));
  return { code: "no-matching-hostname", text: `no listener accepts this name; they accept ${taken}` };
}

function listenerRefused({ kind }: ObjectRef, hostname: string): Reason {
  return { code: "listener-refused", text: `the ${kind}'s controller rejects the listener for ${show(hostname)}` };
}

function ignored({ kind, namespace, name }: ObjectRef): Reason {
  return { code: "ignored", text: `the ${kind} ${namespace}/${name} carries ${IGNORE_KEY}: "true"` };
}
