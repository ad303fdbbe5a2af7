import { foldCase, show } from "#hostmap/hostnames.ts";
import { IGNORE_KEY } from "#hostmap/metadata-keys.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import { ClaimList } from "../claim-list.ts";
import { withChoice } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import { narrowerOf } from "./hostname-intersection.ts";
import { type Labels, matchesSelector } from "./selector.ts";
import {
  type GatewayView,
  type ListenerSetView,
  type ListenerView,
  type NamespaceChoice,
  type ParentView,
  portsOf,
  type RouteView,
} from "./view.ts";

/**
 * The other objects and options that decide about the claims of a route or a ListenerSet. Keys are `namespace/name`.
 */
export interface AttachmentContext {
  gateway(key: string): GatewayView | undefined;
  listenerSet(parent: Pick<ParentView, "kind" | "key">): ListenerSetView | undefined;
  /** Labels by namespace, or undefined while they are unknown. */
  readonly namespaces: Pick<ReadonlyMap<string, Labels>, "get"> | undefined;
  /** Use only Gateways and routes that their controllers have accepted. */
  readonly requireAccepted: boolean;
}

/** How far a route got with one parent. If no parent works, the one where it got furthest provides the reason. */
type Attachment =
  | { readonly listeners: readonly ListenerView[]; readonly hints: RoutingHints | Reason; readonly stage: number }
  | { readonly reason: Reason; readonly stage: number }
  | "unknown";

/** Maximum number of listeners in a reason. */
const MAX_SHOWN = 4;

const STAGES = { parent: 0, listener: 1, allowed: 2, hostname: 3, accepted: 4 } as const;

/**
 * The claims of a route. For each parent, they are the names that both route and listener cover, or the reason why
 * there are none. Undefined while a listener selects namespaces whose labels are not known yet.
 */
export function claimsOfRoute(route: RouteView, around: AttachmentContext): View[] | undefined {
  const claims = new ClaimList(route, { anyDepth: true });
  if (route.ignored) return claims.refuseAll(route.hostnames, ignored(route.ref)).all;
  const attachments = route.parents.map((parent) => attach(route, parent, around));
  if (attachments.includes("unknown")) return undefined;
  const known = withChoices(
    attachments.filter((attachment) => attachment !== "unknown"),
    route,
  );
  // A route without hostnames uses those of its listeners.
  for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
    claimOne(hostname, route, known, claims);
  }
  return claims.all;
}

/**
 * A route's own choice takes precedence over those of its parents. Hints are compared by identity, so equal ones must
 * stay one object.
 */
function withChoices(
  attachments: readonly Exclude<Attachment, "unknown">[],
  route: RouteView,
): readonly Exclude<Attachment, "unknown">[] {
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
  attachments: readonly Exclude<Attachment, "unknown">[],
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

function attach(route: RouteView, parent: ParentView, around: AttachmentContext): Attachment {
  const owner = ownerOf(parent, around);
  if (owner === "unknown" || "code" in owner) {
    return owner === "unknown" ? owner : { stage: STAGES.parent, reason: owner };
  }
  const named = owner.listeners.filter((listener) => isNamed(listener, parent));
  if (named.length === 0) {
    const text =
      `its parent, the ${describe(parent)}, has no listener for hostnames with the name and port that the route ` +
      "specifies";
    return { stage: STAGES.listener, reason: { code: "no-matching-listener", text } };
  }
  const decisions = named.map((listener) => allows(listener, route, owner.ref.namespace, around));
  // If a listener is still undecided, one that allows the route is not enough, because the names of both are used.
  if (decisions.includes("unknown")) return "unknown";
  const listeners = named.filter((_, index) => decisions[index] === true);
  if (listeners.length === 0) {
    const text = `no listener of the ${describe(parent)} allows a ${route.kind} from this namespace`;
    return { stage: STAGES.allowed, reason: { code: "not-allowed", text } };
  }
  return { stage: STAGES.accepted, listeners, hints: refusalOf(parent, owner, around) ?? owner.hints };
}

function describe({ kind, key }: Pick<ParentView, "kind" | "key">): string {
  return `${kind} ${show(key)}`;
}

/**
 * The object with the listeners that a route attaches to. It is only the parent itself: a Gateway does not include
 * its ListenerSets.
 */
interface ListenerOwner extends Pick<GatewayView, "ref" | "hints" | "listeners"> {
  /** The parent or its Gateway, whichever has the ignore annotation. */
  readonly ignoredBy: ObjectRef | undefined;
}

function ownerOf(parent: ParentView, around: AttachmentContext): ListenerOwner | Reason | "unknown" {
  const of = `its parent, the ${describe(parent)},`;
  if (parent.kind === "Gateway") {
    const gateway = around.gateway(parent.key);
    if (gateway === undefined) return { code: "gateway-not-found", text: `${of} does not exist` };
    return { ...gateway, ignoredBy: gateway.ignored ? gateway.ref : undefined };
  }
  const set = around.listenerSet(parent);
  if (set === undefined) return { code: "gateway-not-found", text: `${of} does not exist` };
  const gateway = gatewayOfSet(set, around);
  if (gateway === "unknown") return gateway;
  if ("code" in gateway) return { ...gateway, text: `${of} has no Gateway: ${gateway.text}` };
  const ignoredBy = [set, gateway].find((object) => object.ignored)?.ref;
  return { ref: set.ref, listeners: set.listeners, hints: hintsOfSet(set, gateway), ignoredBy };
}

/**
 * The Gateway that a ListenerSet attaches to, if it exists and allows that. By default a Gateway allows no ListenerSet.
 */
function gatewayOfSet(set: ListenerSetView, around: AttachmentContext): GatewayView | Reason | "unknown" {
  if (set.gateway === undefined) return { code: "gateway-not-found", text: "its parent is of another kind" };
  const gateway = around.gateway(set.gateway);
  if (gateway === undefined) {
    return { code: "gateway-not-found", text: `the Gateway ${show(set.gateway)} does not exist` };
  }
  const allowed = selects(gateway.allowedSets, set.ref.namespace, gateway.ref.namespace, around);
  if (allowed === "unknown") return allowed;
  if (allowed) return gateway;
  const text = `\`allowedListeners\` of the Gateway ${show(set.gateway)} does not allow ListenerSets of this namespace`;
  return { code: "not-allowed", text };
}

/**
 * The hints of a ListenerSet are those of its Gateway. If the Gateway has no listeners, the ports are those of the
 * set.
 */
function hintsOfSet(set: ListenerSetView, { hints }: GatewayView): RoutingHints {
  const { listeners } = set;
  return withChoice(hints.ports === undefined ? { ...hints, ...portsOf(listeners) } : hints, set);
}

/** If both name and port are set, both must match (`ParentReference`). */
function isNamed(listener: ListenerView, { sectionName, port }: ParentView): boolean {
  return (sectionName === undefined || sectionName === listener.name) && (port === undefined || port === listener.port);
}

function allows(
  listener: ListenerView,
  route: RouteView,
  ownNamespace: string,
  around: AttachmentContext,
): boolean | "unknown" {
  if (listener.refused || !listener.kinds.includes(route.kind)) return false;
  return selects(listener, route.ref.namespace, ownNamespace, around);
}

/** Whether objects of `namespace` may attach to an object of `own`. */
function selects(
  { from, selector }: NamespaceChoice,
  namespace: string,
  own: string,
  { namespaces }: AttachmentContext,
): boolean | "unknown" {
  if (from === "Same") return namespace === own;
  if (from !== "Selector") return from === "All";
  if (namespaces === undefined) return "unknown";
  const labels = namespaces.get(namespace);
  return labels !== undefined && matchesSelector(selector, labels);
}

function refusalOf(
  parent: ParentView,
  { ignoredBy }: ListenerOwner,
  { requireAccepted }: AttachmentContext,
): Reason | undefined {
  if (ignoredBy !== undefined) return ignored(ignoredBy);
  if (!requireAccepted || parent.accepted) return undefined;
  const words = parent.refusal === undefined ? "its controller has written no status" : show(parent.refusal);
  return { code: "not-accepted", text: `the ${describe(parent)} has not accepted the route: ${words}` };
}

/**
 * The claims of a Gateway itself: its listeners' hostnames, even before a route exists. cert-manager requests
 * certificates for them, and its self-check runs before any route is accepted.
 */
export function claimsOfGateway(gateway: GatewayView, requireAccepted: boolean): View[] {
  return claimsOfListeners(gateway, objectRefusal(gateway, requireAccepted) ?? gateway.hints);
}

/**
 * The claims of a ListenerSet itself. Undefined while its Gateway selects namespaces whose labels are not known yet.
 */
export function claimsOfListenerSet(set: ListenerSetView, around: AttachmentContext): View[] | undefined {
  const gateway = gatewayOfSet(set, around);
  if (gateway === "unknown") return undefined;
  if ("code" in gateway) return claimsOfListeners(set, set.ignored ? ignored(set.ref) : gateway);
  const { requireAccepted } = around;
  const refusal = objectRefusal(set, requireAccepted) ?? objectRefusal(gateway, requireAccepted);
  return claimsOfListeners(set, refusal ?? hintsOfSet(set, gateway));
}

function claimsOfListeners(object: GatewayView | ListenerSetView, hints: RoutingHints | Reason): View[] {
  const claims = new ClaimList(object, { anyDepth: true });
  for (const { hostname, refused } of object.listeners) {
    if (hostname === undefined) continue;
    claims.add(hostname, refused ? listenerRefused(object.ref, hostname) : hints);
  }
  return claims.all;
}

function objectRefusal(
  { ref, ignored: isIgnored, accepted, refusal }: GatewayView | ListenerSetView,
  requireAccepted: boolean,
): Reason | undefined {
  if (isIgnored) return ignored(ref);
  if (!requireAccepted || accepted) return undefined;
  const words = refusal === undefined ? "there is no status" : show(refusal);
  return { code: "not-accepted", text: `no controller has accepted the ${ref.kind}: ${words}` };
}

function noGateway({ kind }: ObjectRef): Reason {
  return { code: "gateway-not-found", text: `the ${kind} has no Gateway or ListenerSet among its parents` };
}

function noMatchingHostname(listeners: readonly ListenerView[]): Reason {
  const taken = listSome(listeners, MAX_SHOWN, ({ hostname }) => show(hostname ?? "*"));
  return { code: "no-matching-listener", text: `no listener accepts this name; they accept ${taken}` };
}

function listenerRefused({ kind }: ObjectRef, hostname: string): Reason {
  return { code: "not-accepted", text: `the ${kind}'s controller rejects the listener for ${show(hostname)}` };
}

function ignored({ kind, namespace, name }: ObjectRef): Reason {
  return { code: "ignored", text: `the ${kind} ${namespace}/${name} carries ${IGNORE_KEY}: "true"` };
}
