import { MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import { copied, listOf, mapOf, originOf, type Raw, textMapOf, textsOf } from "../raw-object.ts";

/**
 * Maximum number of Gateways that are read per VirtualService. A tenant may name a thousand, each with a thousand
 * hosts.
 */
const MAX_GATEWAYS = 8;
/** Maximum number of namespaces in `exportTo` and of labels in a selector that are read. Objects have few. */
const MAX_ENTRIES = 32;
/** Maximum length of a text that is kept: more than a namespace and a name have, or the key of a label. */
const MAX_TEXT = 512;

export type ServerHost = ReturnType<typeof serverHost>;
export type GatewayView = ReturnType<typeof viewGateway>;
export type VirtualServiceView = ReturnType<typeof viewVirtualService>;

/** Keeps at most one host more than an object may claim, so that the excess is reported. */
export function viewGateway(raw: Raw) {
  const own = originOf("Gateway", raw);
  const spec = mapOf(raw.spec);
  const hosts: ServerHost[] = [];
  for (const entry of listOf(spec.servers)) {
    const server = mapOf(entry);
    if (!hasPublicNames(server)) continue;
    for (const text of textsOf(server.hosts)) {
      if (hosts.length > MAX_NAMES_PER_OBJECT) break;
      hosts.push(serverHost(short(text), own.ref.namespace));
    }
  }
  return { ...own, selector: selectorOf(spec.selector), hosts };
}

/**
 * Istio ignores a server without a port (istio/istio, pilot/pkg/model/gateway.go, mergeGateways). A server with
 * AUTO_PASSTHROUGH routes by names of the mesh (pilot/pkg/networking/core/gateway.go,
 * builtAutoPassthroughFilterChains).
 */
function hasPublicNames({ port, tls }: Raw): boolean {
  return mapOf(port).number !== undefined && mapOf(tls).mode !== "AUTO_PASSTHROUGH";
}

/** The labels of the pods that serve a Gateway, sorted. Undefined: the value is no map of labels, or is too large. */
function selectorOf(value: unknown): Readonly<Record<string, string>> | undefined {
  const labels = Object.entries(textMapOf(value)).sort();
  const isLong = labels.flat().some(({ length }) => length > MAX_TEXT);
  const isOther = isLong || labels.length > MAX_ENTRIES || labels.length < Object.keys(mapOf(value)).length;
  return isOther ? undefined : Object.fromEntries(labels);
}

export function viewVirtualService(raw: Raw) {
  const own = originOf("VirtualService", raw);
  const spec = mapOf(raw.spec);
  const named = textsOf(spec.gateways).filter((name) => name !== "mesh");
  const keys = new Set(named.map((name) => gatewayKey(short(name), own.ref.namespace)));
  const routed = routedGateways(spec, own.ref.namespace);
  return {
    ...own,
    hosts: [...new Set(textsOf(spec.hosts))].slice(0, MAX_NAMES_PER_OBJECT + 1).map(short),
    /** `namespace/name` of its Gateways that a rule is for. The mesh does not count. */
    gateways: [...keys].filter((key) => routed === "all" || routed.has(key)).slice(0, MAX_GATEWAYS),
    exportedTo: exportedTo(spec.exportTo, own.ref.namespace),
  };
}

/**
 * The Gateways that the rules are for. A rule without `match` is for all Gateways, and so is a match without
 * `gateways`. Istio builds no route for other Gateways (istio/istio, pilot/pkg/networking/core/route/route.go,
 * sourceMatchHTTP and BuildHTTPRoutesForVirtualService; pilot/pkg/networking/core/gateway.go, isGatewayMatch). Istio
 * admits no VirtualService without a rule.
 */
function routedGateways(spec: Raw, own: string): ReadonlySet<string> | "all" {
  const rules = [spec.http, spec.tls, spec.tcp].flatMap(listOf).map(mapOf);
  const matches = rules.map(({ match }) => listOf(match).map(mapOf));
  if (matches.some((list) => list.length === 0) || rules.length === 0) return "all";
  const named = matches.flat().map(({ gateways }) => textsOf(gateways));
  if (named.some((list) => list.length === 0)) return "all";
  return new Set(named.flat().map((name) => (name === "mesh" ? name : gatewayKey(short(name), own))));
}

/**
 * The namespaces whose proxies get a VirtualService, or undefined for all: `*` is all, `~` none, `.` its own
 * (istio/istio, pilot/pkg/model/push_context.go, initVirtualServices and VirtualServicesForGateway). The namespace of a
 * gateway is that of its pods, not of the Gateway object. A mesh may have another default than all,
 * `defaultVirtualServiceExportTo`, which is not read.
 */
function exportedTo(value: unknown, own: string): readonly string[] | undefined {
  const names = textsOf(value);
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
