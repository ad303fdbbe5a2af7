import { show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import { ClaimList } from "../claim-list.ts";
import type { ClaimsOf } from "../kinds-source.ts";
import { ignoredBy, withChoice } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import type { GatewayView, ServerHost, VirtualServiceView } from "./view.ts";

export type IstioObject = GatewayView | VirtualServiceView;

/** What the VirtualServices of a Gateway need of it. */
interface KnownGateway {
  readonly hosts: ServerHosts;
  readonly hints: RoutingHints | Reason;
}

/** The class that a configured target must list. */
const CLASS = "istio";

/** Prepares the evaluation of all objects. `gateways`: whether Gateways claim the hosts of their servers. */
export function istioClaims(
  objects: ReadonlyMap<string, IstioObject>,
  { gateways }: { readonly gateways: boolean },
): ClaimsOf<IstioObject> {
  const known = new Map<string, KnownGateway>();
  const gatewayAt = (key: string) => {
    const view = objects.get(`Gateway ${key}`);
    if (view === undefined || !("selector" in view)) return undefined;
    return getOrAdd(known, key, () => ({ hosts: serverHosts(view.hosts), hints: hintsOf(view) }));
  };
  return (view) => {
    if (!("selector" in view)) return claimsOfVirtualService(view, gatewayAt);
    return gateways ? claimsOfGateway(view) : [];
  };
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
function claimsOfGateway(view: GatewayView): View[] {
  const names = view.hosts.map(({ name }) => name).filter(isName);
  return new ClaimList(view, { anyDepth: true }).addAll(names, hintsOf(view)).all;
}

/** A VirtualService claims the names that it has in common with its Gateways. */
function claimsOfVirtualService(view: VirtualServiceView, gateway: (key: string) => KnownGateway | undefined): View[] {
  const claims = new ClaimList(view, { anyDepth: true });
  const { ref, gateways: keys, exportedTo } = view;
  const [first = ""] = keys;
  if (keys.length === 0) return [];
  if (view.ignored) return claims.addAll(view.hosts.filter(isName), ignoredBy(ref.kind)).all;
  const gateways = keys.flatMap((key) => gateway(key) ?? []);
  const hosts = virtualHosts(view.hosts);
  const matched = new Set<string>();
  for (const one of gateways) {
    const own = "code" in one.hints || exportedTo === undefined ? one.hints : { ...one.hints, exportedTo };
    const hints = withChoice(own, view);
    for (const [host, name] of commonNames(one.hosts, hosts, ref.namespace)) {
      matched.add(host);
      if (isName(name)) claims.add(name, hints);
    }
  }
  const others = view.hosts.filter((host) => isName(host) && !matched.has(host));
  const unmatched = `no server of its Gateways has this host for VirtualServices of the namespace ${ref.namespace}`;
  const reason =
    gateways.length > 0
      ? { code: "no-matching-listener", text: unmatched }
      : { code: "gateway-not-found", text: `there is no Gateway ${show(first)} of Istio` };
  return claims.addAll(others, reason).all;
}

function isName(host: string): boolean {
  return host !== "" && host !== "*";
}

/**
 * The policy refuses longer or deeper names (`lib/hostmap/hostnames.ts`), so they need no match. A wildcard has two
 * bytes more than the name below it.
 */
const MAX_BYTES = 255;
const MAX_LABELS = 33;
/**
 * The wildcards that cover a host, without the host itself. A wildcard covers any number of labels, and `*` covers
 * everything. Letter case matters (istio/istio, pkg/config/host/name.go, SubsetOf). Istio also reads
 * `*-x.example.com`. It is no name that could be mapped, so it covers nothing here.
 */
function wildcardsAbove(host: string): readonly string[] {
  if (host === "*" || host.length > MAX_BYTES) return [];
  const above: string[] = [];
  for (let dot = host.indexOf("."); dot !== -1; dot = host.indexOf(".", dot + 1)) {
    if (above.length === MAX_LABELS) return [];
    const wildcard = `*${host.slice(dot)}`;
    if (wildcard !== host) above.push(wildcard);
  }
  above.push("*");
  return above;
}

/** The hosts of a Gateway's servers: the namespaces whose VirtualServices may have each, or undefined for all. */
export type ServerHosts = ReadonlyMap<string, readonly (string | undefined)[]>;

export function serverHosts(hosts: readonly ServerHost[]): ServerHosts {
  const byName = Map.groupBy(hosts, ({ name }) => name);
  return new Map([...byName].map(([name, all]) => [name, all.map(({ namespace }) => namespace)]));
}

/** The hosts of a VirtualService, each with the wildcards that cover it. */
export type VirtualHosts = ReadonlyMap<string, readonly string[]>;

export function virtualHosts(hosts: readonly string[]): VirtualHosts {
  return new Map(hosts.map((host) => [host, wildcardsAbove(host)]));
}

/**
 * The names that a VirtualService's hosts and a Gateway's hosts have in common. Each has the host of the VirtualService
 * that it comes from. If two hosts match, the narrower one is the common name (istio/istio,
 * pilot/pkg/networking/core/gateway.go, pickMatchingGatewayHosts; pkg/config/host/names.go, Intersection).
 */
export function* commonNames(
  servers: ServerHosts,
  hosts: VirtualHosts,
  namespace: string,
): Generator<readonly [host: string, name: string]> {
  const isOpen = (name: string) =>
    servers.get(name)?.some((allowed) => allowed === undefined || allowed === namespace) === true;
  let hasWildcard = false;
  for (const [host, above] of hosts) {
    if (isOpen(host) || above.some(isOpen)) yield [host, host];
    hasWildcard ||= host.startsWith("*");
  }
  if (!hasWildcard) return;
  for (const name of servers.keys())
    for (const wildcard of wildcardsAbove(name)) if (hosts.has(wildcard) && isOpen(name)) yield [wildcard, name];
}
