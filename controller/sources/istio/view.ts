import { MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import { copied, listOf, mapOf, type ObjectOrigin, originOf, type Raw, textMapOf, textsOf } from "../raw-object.ts";
import { type ServerHost, serverHost } from "./hosts.ts";

/**
 * Maximum number of Gateways that are read per VirtualService. A tenant may name a thousand, each with a thousand
 * hosts.
 */
const MAX_GATEWAYS = 8;
/** Maximum number of namespaces that are read from `exportTo`. */
const MAX_NAMESPACES = 32;
/** Maximum number of labels in a selector. Objects have few labels. */
const MAX_LABELS = 32;
/** Maximum length of a text that is kept: more than a namespace and a name have, or the key of a label. */
const MAX_TEXT = 512;

const IN_DEFAULT = { namespace: "default" };

/** The projection of a Gateway (networking.istio.io). */
export interface GatewayView extends ObjectOrigin {
  /** The labels of the pods that serve it; undefined if the selector is not a map of labels, or is too large. */
  readonly selector: Readonly<Record<string, string>> | undefined;
  /** At most one more than an object may claim, so that the excess is reported. */
  readonly hosts: readonly ServerHost[];
}

/** The projection of a VirtualService (networking.istio.io). */
export interface VirtualServiceView extends ObjectOrigin {
  readonly hosts: readonly string[];
  /** `namespace/name` of its Gateways that a rule is for. The mesh does not count. */
  readonly gateways: readonly string[];
  /** The first Gateway that it names, but that no rule is for. */
  readonly unrouted: string | undefined;
  /** The namespaces whose proxies get it; undefined: all namespaces. */
  readonly exportedTo: readonly string[] | undefined;
  /** Whether it names more Gateways, which are ignored. */
  readonly hasMore: boolean;
}

export function viewGateway(raw: Raw): GatewayView {
  const own = originOf("Gateway", raw, IN_DEFAULT);
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

function selectorOf(value: unknown): GatewayView["selector"] {
  const labels = textMapOf(value);
  const count = Object.keys(labels).length;
  const isLong = Object.entries(labels)
    .flat()
    .some(({ length }) => length > MAX_TEXT);
  return isLong || count > MAX_LABELS || count < Object.keys(mapOf(value)).length ? undefined : labels;
}

export function viewVirtualService(raw: Raw): VirtualServiceView {
  const own = originOf("VirtualService", raw, IN_DEFAULT);
  const spec = mapOf(raw.spec);
  const named = textsOf(spec.gateways)
    .filter((name) => name !== "mesh")
    .map(short);
  const keys = new Set(named.map((name) => gatewayKey(name, own.ref.namespace)));
  const routed = routedGateways(spec, own.ref.namespace);
  const gateways = [...keys].filter((key) => routed === "all" || routed.has(key));
  return {
    ...own,
    hosts: [...new Set(textsOf(spec.hosts))].slice(0, MAX_NAMES_PER_OBJECT + 1).map(short),
    gateways: gateways.slice(0, MAX_GATEWAYS),
    unrouted: [...keys].find((key) => routed !== "all" && !routed.has(key)),
    exportedTo: exportedTo(spec.exportTo, own.ref.namespace),
    hasMore: gateways.length > MAX_GATEWAYS,
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
 * The namespaces whose proxies get a VirtualService: `*` is all, `~` none, `.` its own (istio/istio,
 * pilot/pkg/model/push_context.go, initVirtualServices and VirtualServicesForGateway). The namespace of a gateway is
 * that of its pods, not of the Gateway object. A mesh may have another default than all,
 * `defaultVirtualServiceExportTo`, which is not read.
 */
function exportedTo(value: unknown, own: string): readonly string[] | undefined {
  const names = textsOf(value);
  if (names.length === 0 || names.includes("*")) return undefined;
  if (names.includes("~")) return [];
  return [...new Set(names.map((name) => (name === "." ? own : short(name))))].sort().slice(0, MAX_NAMESPACES);
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
