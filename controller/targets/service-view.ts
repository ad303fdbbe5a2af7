import { isIP } from "node:net";
import { shortHash } from "#hostmap/hash.ts";
import { compareNames, foldCase, show } from "#hostmap/hostnames.ts";
import { MAP_KEY, PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import type { RawService } from "#lib/kube/services.ts";
import { softwareOf } from "../sources/known-software.ts";
import { PROTOCOLS, type Protocol, type StatedBy, statedProtocol } from "./proxy-protocol-annotations.ts";

/** When the names of a Service are mapped: `auto`, if kube-proxy short-circuits its load balancer, or `always`. */
type MapWhen = "auto" | "always";

/**
 * A TCP port of a Service. `protocol` is the stated protocol, or else the assumed one. `stated` is set if the ingress
 * controller is asked. Then its answer decides, unless `stated` is `annotation`: then the switchback.dev annotation
 * decides. `invalid`: nobody is asked, and nothing decides until that annotation is corrected.
 */
export interface ServicePort {
  readonly port: number;
  readonly protocol: Protocol;
  readonly stated?: StatedBy | "nobody" | "invalid";
  /** The annotation that states the protocol, with its value. Set if the ingress controller is asked as well. */
  readonly says?: string;
}

/** The projection of a Service that kube-proxy may short-circuit, or that is the upstream of a configured target. */
export interface ServiceView {
  readonly namespace: string;
  readonly name: string;
  readonly created: string;
  /** The name of its target if it is discovered. See `foundName`. */
  readonly target: string;
  /** The configured target whose upstream it is. */
  readonly configured?: TargetConfig;
  /** Whether kube-proxy may short-circuit its addresses. If not, it is only the upstream of a configured target. */
  readonly exposed: boolean;
  /** Whether another service proxy serves it, so that its ClusterIPs may lead nowhere. */
  readonly foreign: boolean;
  /** Whether it is reachable only inside the cluster: type ClusterIP without `externalIPs`. */
  readonly inside: boolean;
  /** `namespace/name` of the Gateway that it was made for, according to its labels. */
  readonly gateway: string | undefined;
  /** The GatewayClass whose Gateways it serves, all of them, according to its labels. */
  readonly gatewayClass: string | undefined;
  /** IP addresses that kube-proxy short-circuits: its `externalIPs`, and those of its load balancer. */
  readonly addresses: readonly string[];
  /** Those of its load balancer. Anybody who may write its `externalIPs` chooses the others. */
  readonly assigned: readonly string[];
  /** Addresses that kube-proxy leaves alone: `ipMode: Proxy` (KEP-1860), or not of a family of its ClusterIPs. */
  readonly leftAlone: readonly string[];
  /** Host names of its load balancer. */
  readonly hostnames: readonly string[];
  readonly map: MapWhen;
  readonly clusterIPs: readonly string[];
  /** TCP ports with the expected protocol. */
  readonly ports: readonly ServicePort[];
  /** An invalid value of an annotation. */
  readonly flaw?: Reason;
  readonly selector: Readonly<Record<string, string>>;
  /** Title of the ingress controller that its labels and selector identify. */
  readonly software: string | undefined;
}

/**
 * The name of the Gateway, on objects that an implementation makes for it (GEP-1762). Envoy Gateway and Contour use
 * their own keys.
 */
const GATEWAY_LABELS = [
  "gateway.networking.k8s.io/gateway-name",
  "gateway.envoyproxy.io/owning-gateway-name",
  "projectcontour.io/owning-gateway-name",
];
/** The namespace of the Gateway, because Envoy Gateway makes its Services in its own namespace. */
const GATEWAY_NAMESPACE_LABEL = "gateway.envoyproxy.io/owning-gateway-namespace";

/**
 * The GatewayClass, on the Service that Envoy Gateway makes for all Gateways of a class (`mergeGateways`). It has no
 * label of a Gateway (envoyproxy/gateway, internal/gatewayapi/helpers.go, `OwnerLabels`).
 */
const MERGED_LABEL = "gateway.envoyproxy.io/owning-gatewayclass";
/**
 * Another service proxy serves a Service with this label, whatever its value. kube-proxy does not even list it
 * (kubernetes, cmd/kube-proxy/app/server.go, `noProxyName`), nor do Cilium (pkg/k8s, `K8sServiceProxyName`), Antrea
 * (antrea-io/antrea#4973), kube-router (cloudnativelabs/kube-router#979) and OVN-Kubernetes.
 */
export const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";

/**
 * Whether kube-proxy may short-circuit addresses of the Service. kube-proxy handles `externalIPs` of any type. It
 * skips headless Services (kubernetes, pkg/proxy/util/utils.go, ShouldSkipService, and pkg/proxy/serviceport.go), and
 * those of another service proxy.
 */
export function isExposed(raw: RawService): boolean {
  const { spec } = raw;
  const isHeadless = (spec?.clusterIPs?.[0] ?? spec?.clusterIP) === "None";
  if (isForeign(raw) || isHeadless || spec?.type === "ExternalName") return false;
  if (spec?.type === "LoadBalancer") return true;
  return (spec?.externalIPs ?? []).length > 0 && literalIPs(spec).length > 0;
}

/** Whether another service proxy serves the Service. */
export function isForeign({ metadata }: RawService): boolean {
  return metadata?.labels?.[PROXY_NAME_LABEL] !== undefined;
}

/**
 * The addresses of a Service, as kube-proxy sees them. kube-proxy handles each entry of the load balancer status
 * separately, and ignores the entry's `ports`.
 */
function addressesOfService(raw: RawService) {
  const { spec, status } = raw;
  const entries = spec?.type === "LoadBalancer" && isExposed(raw) ? (status?.loadBalancer?.ingress ?? []) : [];
  const external = isExposed(raw) ? ipsOf(spec?.externalIPs ?? []) : [];
  const ipsOfMode = (isProxy: boolean) =>
    ipsOf(entries.flatMap(({ ip, ipMode }) => ((ipMode === "Proxy") === isProxy ? (ip ?? []) : [])));
  const clusterIPs = literalIPs(spec);
  const isHandled = (address: string) => hasFamilyOf(clusterIPs, address);
  const vips = [...ipsOfMode(false), ...external];
  const addresses = new Set(vips.filter(isHandled));
  return {
    addresses: [...addresses],
    assigned: ipsOfMode(false).filter(isHandled),
    leftAlone: [...new Set([...ipsOfMode(true), ...vips]).difference(addresses)],
    hostnames: entries.flatMap(({ hostname }) => hostname || []),
  };
}

/**
 * Projects a Service. `fallback` applies if no annotation sets the protocol, and `map` if none sets when to map. With
 * the fallback `auto`, ingress controllers are asked. A typing error must not remove working names. So an invalid
 * `map` counts as `always`, and an invalid protocol is not known: names stay as they are.
 */
export function viewService(raw: RawService, fallback: Protocol | "auto", map: MapWhen = "auto"): ServiceView {
  const { metadata, spec } = raw;
  const { annotations = {} } = metadata ?? {};
  const mapped = annotations[MAP_KEY] ?? map;
  const ofProtocol = flawOf(annotations, PROXY_PROTOCOL_KEY, PROTOCOLS);
  const flaw = ofProtocol ?? flawOf(annotations, MAP_KEY, ["auto", "always"]);
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    created: metadata?.creationTimestamp ?? "",
    target: foundName(metadata?.namespace ?? "", metadata?.name ?? ""),
    exposed: isExposed(raw),
    foreign: isForeign(raw),
    inside: !isExposed(raw) && (spec?.type ?? "ClusterIP") === "ClusterIP",
    gateway: gatewayOfService(raw),
    gatewayClass: metadata?.labels?.[MERGED_LABEL],
    ...addressesOfService(raw),
    map: mapped === "auto" ? "auto" : "always",
    clusterIPs: literalIPs(spec),
    ports: portsOf(raw, fallback, ofProtocol === undefined),
    ...(flaw && { flaw }),
    selector: spec?.selector ?? {},
    software: softwareOf({ labels: metadata?.labels, selector: spec?.selector })?.title,
  };
}

/**
 * The ports of an object whose kind has no ports, such as an Ingress. Traefik also serves its Gateways on these
 * ports, whatever their listeners specify.
 */
export const HTTP_PORTS: readonly number[] = [80, 443];

/** Whether a Service has one of these TCP ports. */
export function hasPort(view: ServiceView, ports: readonly number[]): boolean {
  return ports.some((port) => portOf(view, port) !== undefined);
}

/** The name of the target that a Service is, or would be. */
export function nameOf({ configured, target }: ServiceView): string {
  return configured?.name ?? target;
}

/** Whether the configured target of a Service serves only the classes that it lists. */
export function isOfClasses({ configured }: ServiceView): boolean {
  return configured !== undefined && configured.classes.length > 0;
}

/** The TCP port of a Service; undefined if the Service has no such port. */
export function portOf({ ports }: ServiceView, number: number) {
  return ports.find(({ port }) => port === number);
}

/** `namespace/name` of the Gateway that a Service was made for. */
function gatewayOfService({ metadata }: RawService): string | undefined {
  const labels = metadata?.labels ?? {};
  const name = GATEWAY_LABELS.map((label) => labels[label]).find((value) => value !== undefined);
  return name === undefined ? undefined : `${labels[GATEWAY_NAMESPACE_LABEL] ?? metadata?.namespace ?? ""}/${name}`;
}

/** Why the value of an annotation means nothing. Undefined: it is valid, or missing. */
function flawOf(annotations: Readonly<Record<string, string>>, key: string, accepted: readonly string[]) {
  const { [key]: value = accepted[0] ?? "" } = annotations;
  const text = `${key} is ${show(value)}; accepted are ${accepted.join(", ")}`;
  return accepted.includes(value) ? undefined : { code: "annotation-invalid", text };
}

/** The IP addresses among addresses and host names. */
export function literalsOf(addresses: readonly string[]): string[] {
  return addresses.filter((address) => isIP(address) !== 0);
}

/** The same, each in the form of `canonicalIp`. */
export function ipsOf(addresses: readonly string[]): string[] {
  return literalsOf(addresses).map(canonicalIp);
}

/**
 * Whether kube-proxy handles an address of a Service with these ClusterIPs, judging by the address family. Each
 * family has its own proxier. A proxier skips Services without a ClusterIP of its family, and addresses of the other
 * family (kubernetes, pkg/proxy/servicechangetracker.go, `serviceToServiceMap`; pkg/proxy/serviceport.go,
 * `newBaseServiceInfo`). If the ClusterIPs are not known, this returns true.
 */
export function hasFamilyOf(clusterIPs: readonly string[], address: string): boolean {
  return clusterIPs.length === 0 || clusterIPs.some((clusterIP) => isIP(clusterIP) === isIP(address));
}

/** The IP addresses in clusterIPs, which contains `None` for a headless Service. */
export function literalIPs(spec: RawService["spec"]): readonly string[] {
  return literalsOf(spec?.clusterIPs ?? [spec?.clusterIP ?? ""]);
}

/** The TCP ports. If there are too many, those of HTTP stay. `isValid`: the switchback.dev annotation is. */
function portsOf(
  { metadata, spec }: RawService,
  fallback: Protocol | "auto",
  isValid: boolean,
): readonly ServicePort[] {
  const { annotations = {} } = metadata ?? {};
  const usual = fallback === "auto" ? "v1" : fallback;
  const all = (spec?.ports ?? []).flatMap(({ port, protocol: transport = "TCP" }): ServicePort[] => {
    if (port === undefined || transport !== "TCP") return [];
    if (!isValid) return [{ port, protocol: usual, stated: "invalid" }];
    const { protocol = usual, by = "nobody", says } = statedProtocol(annotations, port) ?? {};
    return [{ port, protocol, ...(fallback === "auto" && { stated: by, ...(says && { says }) }) }];
  });
  const isWeb = ({ port }: ServicePort) => HTTP_PORTS.includes(port);
  if (all.length <= MAX_TARGET_PORTS) return all;
  return all.sort((one, other) => Number(isWeb(other)) - Number(isWeb(one))).slice(0, MAX_TARGET_PORTS);
}

/** Normalizes an address: `2001:DB8:0::1` and `2001:db8::1` are the same (RFC 5952). Other text is unchanged. */
export function canonicalIp(address: string): string {
  return isIP(address) === 6 && !address.includes("%") ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;
}

/**
 * Maximum length of the readable part. A Service name has 52 bytes after `switchback-`, and the unique hash needs 13.
 */
const READABLE_BYTES = 39;

/**
 * The target name of a Service. It is readable, and derived only from the Service's namespace and name. So it is the
 * same in every replica and after every restart. The hash distinguishes `a-b/c` from `a/b-c`, and truncated names.
 */
export function foundName(namespace: string, name: string): string {
  const readable = name.startsWith(namespace) ? name : `${namespace}-${name}`;
  const head = readable.slice(0, READABLE_BYTES).replace(/[^a-z0-9]+$/, "");
  return `${head.replace(/[^a-z0-9-]/g, "-")}-${shortHash(`${namespace}/${name}`)}`;
}

/** All addresses of a Service, short-circuited or not, in the form of `canonicalAddress`. */
export function allAddressesOf(view: ServiceView | undefined): string[] {
  return view === undefined ? [] : [...view.addresses, ...view.leftAlone, ...view.hostnames.map(foldCase)];
}

/** Normalizes an address. Host names are compared without regard to case. */
export function canonicalAddress(address: string): string {
  return canonicalIp(foldCase(address));
}

/** The key of a Service. */
export function keyOf({ namespace = "", name = "" }: NonNullable<RawService["metadata"]>): string {
  return `${namespace}/${name}`;
}

/** Those that pass the test. If none does, all of them. */
export function preferred<Item>(all: readonly Item[], test: (item: Item) => boolean): readonly Item[] {
  const some = all.filter(test);
  return some.length > 0 ? some : all;
}

/**
 * The oldest Service, of those to which a load balancer gave one of the addresses, else of all. Anybody who may write
 * `externalIPs` adds an address to an old Service. Found in one pass, because a tenant can add many Services.
 */
export function firstOf(services: readonly ServiceView[], addresses: readonly string[]): ServiceView | undefined {
  const isOlder = (one: ServiceView, other: ServiceView) =>
    (compareNames(one.created, other.created) || compareNames(keyOf(one), keyOf(other))) < 0;
  return preferred(services, (view) => isAssigned(view, addresses)).reduce<ServiceView | undefined>(
    (oldest, one) => (oldest === undefined || isOlder(one, oldest) ? one : oldest),
    undefined,
  );
}

/** Whether a load balancer gave one of the addresses to the Service. */
export function isAssigned({ assigned }: ServiceView, addresses: readonly string[]): boolean {
  return addresses.some((address) => assigned.includes(address));
}
