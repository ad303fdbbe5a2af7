import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { ClaimList } from "../claim-list.ts";
import type { GraphClaims } from "../graph-source.ts";
import { ignoredBy, withChoice } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import { ServerHosts, virtualHosts } from "./hosts.ts";
import type { GatewayView, VirtualServiceView } from "./view.ts";

export type IstioObject = GatewayView | VirtualServiceView;

/** A Gateway, with the hints and hosts that its VirtualServices need. */
interface KnownGateway {
  readonly view: GatewayView;
  readonly hosts: ServerHosts;
  readonly hints: RoutingHints | Reason;
}

/** The class that a configured target must list. */
const CLASS = "istio";
const WILDCARDS = { anyDepth: true };
/** What was prepared of each Gateway that has not changed. */
const KNOWN = new WeakMap<GatewayView, KnownGateway>();

/** The claims of each object. `gateways`: whether Gateways claim the hosts of their servers. */
export function* istioClaims(
  objects: ReadonlyMap<string, IstioObject>,
  { gateways }: { readonly gateways: boolean },
): GraphClaims {
  const gatewayAt = (key: string) => {
    const view = objects.get(`Gateway ${key}`);
    return view !== undefined && "selector" in view ? knownGateway(view) : undefined;
  };
  for (const [object, view] of objects) {
    if (!("selector" in view)) yield [object, () => claimsOfVirtualService(view, gatewayAt)];
    else if (gateways) yield [object, () => claimsOfGateway(knownGateway(view))];
  }
}

function knownGateway(view: GatewayView): KnownGateway {
  const known = KNOWN.get(view) ?? { view, hosts: new ServerHosts(view.hosts), hints: hintsOf(view) };
  KNOWN.set(view, known);
  return known;
}

/** The hints of a Gateway about the Service that serves it. They come from its spec, because its status has none. */
function hintsOf(view: GatewayView): RoutingHints | Reason {
  const { ref, ignored, selector } = view;
  if (ignored) return ignoredBy(ref.kind);
  const text = "the selector of its Gateway is no map of labels, or has too many";
  if (selector === undefined) return { code: "no-gateway-service", text };
  return withChoice({ className: CLASS, addresses: [], admitted: true, selector }, view);
}

/** A Gateway claims the hosts of its servers. A single `*` claims no name. */
function claimsOfGateway({ view, hints }: KnownGateway): View[] {
  const claims = new ClaimList(view, WILDCARDS);
  for (const { name } of view.hosts) if (isName(name)) claims.add(name, hints);
  return claims.all;
}

/** A VirtualService claims the names that it has in common with its Gateways. */
function claimsOfVirtualService(view: VirtualServiceView, gateway: (key: string) => KnownGateway | undefined): View[] {
  const claims = new ClaimList(view, WILDCARDS);
  if (view.gateways.length === 0 && view.unrouted === undefined) return [];
  const refusal = refusalOf(view);
  if (refusal !== undefined) return claims.refuseAll(view.hosts.filter(isName), refusal).all;
  const gateways = view.gateways.flatMap((key) => gateway(key) ?? []);
  const hosts = virtualHosts(view.hosts);
  const matched = new Set<string>();
  const equal = new Map<string, RoutingHints | Reason>();
  for (const one of gateways) {
    const hints = shared(equal, withChoice(exported(one.hints, view), view));
    for (const [host, name] of one.hosts.common(hosts, view.ref.namespace)) {
      matched.add(host);
      if (isName(name)) claims.add(name, hints);
    }
  }
  const reason = gateways.length > 0 ? noMatch(view) : noGateway(view);
  for (const host of view.hosts) if (isName(host) && !matched.has(host)) claims.add(host, reason);
  return claims.all;
}

/** Why no Gateway can serve a VirtualService. */
function refusalOf({ ref, ignored, exportedTo, gateways, unrouted = "" }: VirtualServiceView): Reason | undefined {
  if (ignored) return ignoredBy(ref.kind);
  if (exportedTo?.length === 0) return { code: "not-allowed", text: "`exportTo` is ~: no Gateway has it" };
  if (gateways.length > 0) return undefined;
  const text = `\`match.gateways\` of its rules leaves out its Gateway ${show(unrouted)}`;
  return { code: "no-matching-listener", text };
}

function exported(hints: RoutingHints | Reason, { exportedTo }: VirtualServiceView): RoutingHints | Reason {
  return "code" in hints || exportedTo === undefined ? hints : { ...hints, exportedTo };
}

/** Returns the hints of an earlier Gateway if they are equal, because the list of claims compares hints by identity. */
function shared(known: Map<string, RoutingHints | Reason>, hints: RoutingHints | Reason): RoutingHints | Reason {
  const key = JSON.stringify("code" in hints ? hints : [Object.entries(hints.selector ?? {}).sort(), hints.chosen]);
  const before = known.get(key);
  if (before === undefined) known.set(key, hints);
  return before ?? hints;
}

function isName(host: string): boolean {
  return host !== "" && host !== "*";
}

function noGateway({ gateways: [first = ""] }: VirtualServiceView): Reason {
  return { code: "gateway-not-found", text: `there is no Gateway ${show(first)} of Istio` };
}

function noMatch({ gateways, hasMore, ref }: VirtualServiceView): Reason {
  const ignored = hasMore ? `; of its Gateways only the first ${gateways.length} are read` : "";
  const text = `no server of its Gateways has this host for VirtualServices of the namespace ${ref.namespace}`;
  return { code: "no-matching-listener", text: text + ignored };
}
