import { foldCase, show } from "../../../hostmap/hostnames.ts";
import { IGNORE_KEY } from "../../../hostmap/metadata-keys.ts";
import type { ObjectRef, Reason } from "../../../hostmap/types.ts";
import { ClaimList } from "../claim-list.ts";
import type { RoutingHints, UnresolvedClaim } from "../types.ts";
import { narrowerOf } from "./hostnames.ts";
import { type Labels, matchesSelector } from "./selector.ts";
import type { GatewayView, ListenerView, ParentView, RouteView } from "./view.ts";

/** The other objects and options that a route's claims depend on. */
export interface AttachmentContext {
  gateway(key: string): GatewayView | undefined;
  /** Labels by namespace, or undefined while they are unknown. */
  readonly namespaces: ReadonlyMap<string, Labels> | undefined;
  /** Use only Gateways and routes that their controllers have accepted. */
  readonly requireAccepted: boolean;
}

/** How far a route got with one parent. The parent where it got furthest provides the reason. */
type Attachment =
  | { readonly listeners: readonly ListenerView[]; readonly hints: RoutingHints | Reason; readonly stage: number }
  | { readonly reason: Reason; readonly stage: number }
  | "unknown";

/** The number of listeners in a reason. */
const MAX_SHOWN = 4;

const STAGES = { gateway: 0, listener: 1, allowed: 2, hostname: 3, accepted: 4 } as const;

/**
 * The claims of a route: for each of its parents the names that both route and listener cover, or why there are none. Undefined
 * while a listener selects namespaces and their labels are not known yet.
 */
export function claimsOfRoute(route: RouteView, around: AttachmentContext): UnresolvedClaim[] | undefined {
  const claims = new ClaimList(route, { anyDepth: true });
  if (route.ignored) return claims.refuseAll(route.hostnames, ignored(route.ref));
  const attachments = route.parents.map((parent) => attach(route, parent, around));
  if (attachments.includes("unknown")) return undefined;
  const known = attachments.filter((attachment) => attachment !== "unknown");
  // A route without hostnames has those of its listeners.
  for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
    claimOne(hostname, route, known, claims);
  }
  return claims.all;
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
  const gateway = around.gateway(parent.gateway);
  const of = `its parent, the Gateway ${show(parent.gateway)},`;
  if (gateway === undefined) {
    return { stage: STAGES.gateway, reason: { code: "gateway-not-found", text: `${of} does not exist` } };
  }
  const named = gateway.listeners.filter((listener) => isNamed(listener, parent));
  if (named.length === 0) {
    const text = `${of} has no listener for hostnames with the name and port that the route specifies`;
    return { stage: STAGES.listener, reason: { code: "no-matching-listener", text } };
  }
  const verdicts = named.map((listener) => allows(listener, route, gateway, around));
  // One listener that allows the route is not enough while another is undecided: the names of both are used.
  if (verdicts.includes("unknown")) return "unknown";
  const listeners = named.filter((_, index) => verdicts[index] === true);
  if (listeners.length === 0) {
    const text = `no listener of the Gateway ${show(parent.gateway)} allows a ${route.kind} from this namespace`;
    return { stage: STAGES.allowed, reason: { code: "not-allowed", text } };
  }
  return { stage: STAGES.accepted, listeners, hints: refusalOf(parent, gateway, around) ?? gateway.hints };
}

/** If both name and port are set, both must match (`ParentReference`). */
function isNamed(listener: ListenerView, { sectionName, port }: ParentView): boolean {
  return (sectionName === undefined || sectionName === listener.name) && (port === undefined || port === listener.port);
}

function allows(
  listener: ListenerView,
  route: RouteView,
  gateway: GatewayView,
  { namespaces }: AttachmentContext,
): boolean | "unknown" {
  const { namespace } = route.ref;
  if (listener.refused || !listener.kinds.includes(route.kind)) return false;
  if (listener.from === "Same") return namespace === gateway.ref.namespace;
  if (listener.from !== "Selector") return listener.from === "All";
  if (namespaces === undefined) return "unknown";
  const labels = namespaces.get(namespace);
  return labels !== undefined && matchesSelector(listener.selector, labels);
}

function refusalOf(
  parent: ParentView,
  gateway: GatewayView,
  { requireAccepted }: AttachmentContext,
): Reason | undefined {
  if (gateway.ignored) return ignored(gateway.ref);
  if (!requireAccepted || parent.accepted) return undefined;
  const words = parent.refusal === undefined ? "its controller has written no status" : show(parent.refusal);
  return { code: "not-accepted", text: `the Gateway ${show(parent.gateway)} has not accepted the route: ${words}` };
}

/**
 *  * The claims of a Gateway itself: its listeners' hostnames, also before a route exists. cert-manager requests certificates for
 * them, and its self-check runs before any route is accepted.
 */
export function claimsOfGateway(gateway: GatewayView, requireAccepted: boolean): UnresolvedClaim[] {
  const claims = new ClaimList(gateway, { anyDepth: true });
  const hints = gatewayRefusal(gateway, requireAccepted) ?? gateway.hints;
  for (const { hostname, refused } of gateway.listeners) {
    if (hostname === undefined) continue;
    claims.add(hostname, refused ? listenerRefused(hostname) : hints);
  }
  return claims.all;
}

function gatewayRefusal(gateway: GatewayView, requireAccepted: boolean): Reason | undefined {
  if (gateway.ignored) return ignored(gateway.ref);
  if (!requireAccepted || gateway.accepted) return undefined;
  const words = gateway.refusal === undefined ? "there is no status" : show(gateway.refusal);
  return { code: "not-accepted", text: `no controller has accepted the Gateway: ${words}` };
}

function noGateway({ kind }: ObjectRef): Reason {
  return { code: "no-gateway", text: `the ${kind} has no Gateway among its parents` };
}

function noMatchingHostname(listeners: readonly ListenerView[]): Reason {
  const taken = listeners.slice(0, MAX_SHOWN).map(({ hostname }) => show(hostname ?? "*"));
  const more = listeners.length > MAX_SHOWN ? ` and ${listeners.length - MAX_SHOWN} more` : "";
  return {
    code: "no-matching-hostname",
    text: `no listener accepts this name; they accept ${taken.join(", ")}${more}`,
  };
}

function listenerRefused(hostname: string): Reason {
  return { code: "listener-refused", text: `the Gateway's controller rejects the listener for ${show(hostname)}` };
}

function ignored({ kind, namespace, name }: ObjectRef): Reason {
  return { code: "ignored", text: `the ${kind} ${namespace}/${name} carries ${IGNORE_KEY}: "true"` };
}
