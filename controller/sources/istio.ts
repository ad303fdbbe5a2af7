import { parentsOf, show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { PresetName } from "#lib/config/sources.ts";
import type { Read } from "#lib/kube/shapes.ts";
import { ClaimList, MAX_NAMES_PER_OBJECT } from "./claim-list.ts";
import type { Kind } from "./kinds-source.ts";
import { type ClaimsOf, KindsSource, namesOf, type SourceDeps } from "./kinds-source.ts";
import { copied, ignoredBy, viewer, withChoice } from "./raw-object.ts";
import type { RoutingHints, Source, View } from "./types.ts";

/**
 * Maximum number of Gateways that are read per VirtualService. A tenant may name a thousand, each with a thousand
 * hosts.
 */
const MAX_GATEWAYS = 8;
/** Maximum number of namespaces in `exportTo` and of labels in a selector that are read. Objects have few. */
const MAX_ENTRIES = 32;
/** Maximum length of a text that is kept: more than a namespace and a name have, or the key of a label. */
const MAX_TEXT = 512;

type ServerHost = ReturnType<typeof serverHost>;
type GatewayView = ReturnType<typeof viewGateway>;
type VirtualServiceView = ReturnType<typeof viewVirtualService>;

const SERVER = { hosts: "texts", port: { number: "number" }, tls: { mode: "word" } } as const;
export const GATEWAY_FIELDS = { spec: { selector: "map", servers: [SERVER] } } as const;

/** Keeps at most one host more than an object may claim, so that the excess is reported. */
export const viewGateway = viewer("Gateway", GATEWAY_FIELDS, (origin, { spec }) => {
  const servers = (spec?.servers ?? []).filter(hasPublicNames);
  const hosts = servers.flatMap(({ hosts = [] }) => hosts).slice(0, MAX_NAMES_PER_OBJECT + 1);
  return {
    ...origin,
    selector: selectorOf(spec?.selector),
    hosts: hosts.map((host) => serverHost(short(host), origin.ref.namespace)),
  };
});

/**
 * Istio ignores a server without a port (istio/istio, pilot/pkg/model/gateway.go, mergeGateways). A server with
 * AUTO_PASSTHROUGH routes by names of the mesh (pilot/pkg/networking/core/gateway.go,
 * builtAutoPassthroughFilterChains).
 */
function hasPublicNames({ port, tls }: Read<typeof SERVER>): boolean {
  return port?.number !== undefined && tls?.mode !== "AUTO_PASSTHROUGH";
}

/** The labels of the pods that serve a Gateway, sorted. Undefined: they are too large. */
function selectorOf(selector: Readonly<Record<string, string>> = {}) {
  const labels = Object.entries(selector).sort();
  const isLong = labels.flat().some(({ length }) => length > MAX_TEXT);
  return isLong || labels.length > MAX_ENTRIES ? undefined : Object.fromEntries(labels);
}

const RULES = [{ match: [{ gateways: "texts" }] }] as const;
export const VIRTUAL_SERVICE_FIELDS = {
  spec: { hosts: "texts", gateways: "texts", exportTo: "texts", http: RULES, tls: RULES, tcp: RULES },
} as const;

export const viewVirtualService = viewer("VirtualService", VIRTUAL_SERVICE_FIELDS, (origin, { spec = {} }) => {
  const own = origin.ref.namespace;
  const named = (spec.gateways ?? []).filter((name) => name !== "mesh");
  const keys = new Set(named.map((name) => gatewayKey(short(name), own)));
  const routed = routedGateways(spec, own);
  return {
    ...origin,
    hosts: [...new Set(spec.hosts)].slice(0, MAX_NAMES_PER_OBJECT + 1).map(short),
    /** `namespace/name` of its Gateways that a rule is for. The mesh does not count. */
    gateways: [...keys].filter((key) => routed === "all" || routed.has(key)).slice(0, MAX_GATEWAYS),
    exportedTo: exportedTo(spec.exportTo, own),
  };
});

/**
 * The Gateways that the rules are for. A rule without `match` is for all Gateways, and so is a match without
 * `gateways`. Istio builds no route for other Gateways (istio/istio, pilot/pkg/networking/core/route/route.go,
 * sourceMatchHTTP and BuildHTTPRoutesForVirtualService; pilot/pkg/networking/core/gateway.go, isGatewayMatch). Istio
 * admits no VirtualService without a rule.
 */
function routedGateways(
  { http = [], tls = [], tcp = [] }: Read<typeof VIRTUAL_SERVICE_FIELDS.spec>,
  own: string,
): ReadonlySet<string> | "all" {
  const matches = [...http, ...tls, ...tcp].map(({ match = [] }) => match);
  if (matches.some((list) => list.length === 0) || matches.length === 0) return "all";
  const named = matches.flat().map(({ gateways = [] }) => gateways);
  if (named.some((list) => list.length === 0)) return "all";
  return new Set(named.flat().map((name) => (name === "mesh" ? name : gatewayKey(short(name), own))));
}

/**
 * The namespaces whose proxies get a VirtualService, or undefined for all: `*` is all, `~` none, `.` its own
 * (istio/istio, pilot/pkg/model/push_context.go, initVirtualServices and VirtualServicesForGateway). The namespace of a
 * gateway is that of its pods, not of the Gateway object. A mesh may have another default than all,
 * `defaultVirtualServiceExportTo`, which is not read.
 */
function exportedTo(names: readonly string[] = [], own: string): readonly string[] | undefined {
  if (names.length === 0 || names.includes("*")) return undefined;
  if (names.includes("~")) return ["~"];
  return [...new Set(names.map((name) => (name === "." ? own : short(name))))].sort().slice(0, MAX_ENTRIES);
}

/**
 * Reads `[namespace/]dnsName` of a server. The namespace is that of the VirtualServices that may use the name or
 * wildcard; undefined: any. `.` is the namespace of the Gateway, `*` any (istio/istio, pilot/pkg/model/gateway.go,
 * sanitizeServerHostNamespace).
 */
export function serverHost(text: string, own: string): { name: string; namespace: string | undefined } {
  const [namespace, name] = text.split("/", 2);
  if (name === undefined) return { name: text, namespace: undefined };
  if (namespace === "*") return { name, namespace: undefined };
  return { name, namespace: namespace === "." ? own : namespace };
}

function short(text: string): string {
  return copied(text, MAX_TEXT);
}

/**
 * Reads the name of a Gateway: `namespace/name`, `name` in the namespace of the VirtualService, or the former
 * `name.namespace[.svc.cluster.local]` (istio/istio, pilot/pkg/model/config.go, resolveGatewayName).
 */
export function gatewayKey(text: string, own: string): string {
  if (text.startsWith("./")) return `${own}${text.slice(1)}`;
  if (text.includes("/")) return text;
  const [name = "", namespace] = text.split(".", 2);
  return `${namespace ?? own}/${name}`;
}

export type IstioObject = GatewayView | VirtualServiceView;

/** What the VirtualServices of a Gateway need of it. Undefined: it does not exist. */
type GatewayAt = (key: string) => { hosts: ServerHosts; hints: RoutingHints | Reason } | undefined;

/** Prepares the evaluation of all objects. `gateways`: whether Gateways claim the hosts of their servers. */
export function istioClaims(
  objects: ReadonlyMap<string, IstioObject>,
  { gateways }: { readonly gateways: boolean },
): ClaimsOf<IstioObject> {
  const known = new Map<string, ReturnType<GatewayAt>>();
  const gatewayAt: GatewayAt = (key) => {
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
  if (ignored) return ignoredBy(ref);
  const text = "the selector of its Gateway has too many labels";
  if (selector === undefined) return { code: "no-gateway-service", text };
  return withChoice({ className: "istio", addresses: [], admitted: true, selector }, view);
}

/** A Gateway claims the hosts of its servers. A single `*` claims no name. */
function claimsOfGateway(view: GatewayView): View[] {
  const names = view.hosts.map(({ name }) => name).filter(isName);
  return new ClaimList(view, { anyDepth: true }).addAll(names, hintsOf(view)).all;
}

/** A VirtualService claims the names that it has in common with its Gateways. */
function claimsOfVirtualService(view: VirtualServiceView, gatewayAt: GatewayAt): View[] {
  const claims = new ClaimList(view, { anyDepth: true });
  const { ref, gateways: keys, exportedTo } = view;
  const [first = ""] = keys;
  if (keys.length === 0) return [];
  if (view.ignored) return claims.addAll(view.hosts.filter(isName), ignoredBy(ref)).all;
  const gateways = keys.flatMap((key) => gatewayAt(key) ?? []);
  const hosts = new Set(view.hosts);
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
  const above = parentsOf(host).flatMap((parent) => (host === `*.${parent}` ? [] : `*.${parent}`));
  return above.length > MAX_LABELS ? [] : [...above, "*"];
}

/** The hosts of a Gateway's servers: the namespaces whose VirtualServices may have each, or undefined for all. */
type ServerHosts = ReadonlyMap<string, readonly (string | undefined)[]>;

export function serverHosts(hosts: readonly ServerHost[]): ServerHosts {
  const byName = Map.groupBy(hosts, ({ name }) => name);
  return new Map([...byName].map(([name, all]) => [name, all.map(({ namespace }) => namespace)]));
}

/**
 * The names that a VirtualService's hosts and a Gateway's hosts have in common. Each has the host of the VirtualService
 * that it comes from. If two hosts match, the narrower one is the common name (istio/istio,
 * pilot/pkg/networking/core/gateway.go, pickMatchingGatewayHosts; pkg/config/host/names.go, Intersection).
 */
export function* commonNames(
  servers: ServerHosts,
  hosts: ReadonlySet<string>,
  namespace: string,
): Generator<readonly [host: string, name: string]> {
  const isOpen = (name: string) =>
    servers.get(name)?.some((allowed) => allowed === undefined || allowed === namespace) === true;
  let hasWildcard = false;
  for (const host of hosts) {
    if (isOpen(host) || wildcardsAbove(host).some(isOpen)) yield [host, host];
    hasWildcard ||= host.startsWith("*");
  }
  if (!hasWildcard) return;
  for (const name of servers.keys())
    for (const wildcard of wildcardsAbove(name)) if (hosts.has(wildcard) && isOpen(name)) yield [wildcard, name];
}

const GROUP = ["networking.istio.io", ["v1", "v1beta1", "v1alpha3"]] as const;
/** The presets that this source reads. */
export const ISTIO_KINDS = {
  "istio-gateway": namesOf("Gateway", ...GROUP),
  "istio-virtualservice": namesOf("VirtualService", ...GROUP),
} as const;
export type IstioPreset = keyof typeof ISTIO_KINDS;

export function isIstio(preset: PresetName): preset is IstioPreset {
  return Object.hasOwn(ISTIO_KINDS, preset);
}

const GATEWAYS: Kind<GatewayView> = {
  ...ISTIO_KINDS["istio-gateway"],
  named: true,
  isShared: true,
  project: viewGateway,
  pick: (view, keeps) => ({ ...view, hosts: view.hosts.filter(({ name }) => keeps(name)) }),
};
const VIRTUAL_SERVICES: Kind<VirtualServiceView> = {
  ...ISTIO_KINDS["istio-virtualservice"],
  named: true,
  project: viewVirtualService,
  pick: (view, keeps) => ({ ...view, hosts: view.hosts.filter(keeps) }),
};

/**
 * Istio's Gateways and VirtualServices; undefined: no preset names them. Gateways are read for VirtualServices too,
 * because they have the hosts and the selector of the Service.
 */
export function istioSource(deps: SourceDeps & { readonly config: Config["sources"] }): Source | undefined {
  const { presets } = deps.config;
  if (!presets.some(isIstio)) return undefined;
  return new KindsSource<IstioObject>(deps, {
    kinds: presets.includes("istio-virtualservice") ? [GATEWAYS, VIRTUAL_SERVICES] : [GATEWAYS],
    prepare: (objects) => istioClaims(objects, { gateways: presets.includes("istio-gateway") }),
  });
}
