import { isIP } from "node:net";
import { shortHash } from "#hostmap/hash.ts";
import { show } from "#hostmap/hostnames.ts";
import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { softwareByLabels } from "./known-software.ts";
import { type Protocol, type Stated, type StatedBy, statedProtocol } from "./proxy-protocol-annotations.ts";

/** When the names of a Service are mapped: if kube-proxy short-circuits its load balancer, or in any case. */
type MapWhen = "auto" | "always";
const MAP_WHEN: readonly MapWhen[] = ["auto", "always"];

/**
 * A TCP port of a Service. `protocol` is what is stated, or else what is assumed. `stated` is there if the ingress
 * controller is asked: then its answer decides, unless `annotation` says that the switchback.dev annotation does.
 */
interface ServicePort {
  readonly port: number;
  readonly protocol: Protocol;
  readonly stated?: StatedBy | "nobody";
  /** The annotation that states it, with its value, if the ingress controller is asked all the same. */
  readonly says?: string;
}

/** The projection of a Service that kube-proxy may short-circuit, or that a configured target has as its upstream. */
export interface ServiceView {
  readonly namespace: string;
  readonly name: string;
  readonly created: string;
  /** Whether kube-proxy may short-circuit addresses of it; else it is only the upstream of a configured target. */
  readonly exposed: boolean;
  /** Whether it is reached inside the cluster alone: a Service of type ClusterIP without `externalIPs`. */
  readonly inside: boolean;
  /** `namespace/name` of the Gateway that an implementation made it for, as its labels say. */
  readonly gateway: string | undefined;
  /** IP addresses that kube-proxy short-circuits: its `externalIPs`, and those of its load balancer. */
  readonly addresses: readonly string[];
  /** Addresses that kube-proxy leaves alone: `ipMode: Proxy` (KEP-1860), or not of a family of its ClusterIPs. */
  readonly leftAlone: readonly string[];
  /** Host names of its load balancer. */
  readonly hostnames: readonly string[];
  readonly map: MapWhen;
  readonly clusterIPs: readonly string[];
  /** TCP ports with the expected protocol, or the reason why that is unknown: an annotation has an invalid value. */
  readonly ports: readonly ServicePort[] | Reason;
  readonly selector: Readonly<Record<string, string>>;
  /** Title of the ingress controller that its labels and selector name. */
  readonly software: string | undefined;
}

/** On what an implementation makes for a Gateway (GEP-1762): the name of its class. */
const GATEWAY_CLASS_LABEL = "gateway.networking.k8s.io/gateway-class-name";
/** The same for the name of the Gateway; Envoy Gateway and Contour have keys of their own. */
const GATEWAY_LABELS = [
  "gateway.networking.k8s.io/gateway-name",
  "gateway.envoyproxy.io/owning-gateway-name",
  "projectcontour.io/owning-gateway-name",
];
/** Envoy Gateway makes its Services in its own namespace. */
const GATEWAY_NAMESPACE_LABEL = "gateway.envoyproxy.io/owning-gateway-namespace";

/** The fields of a Service that are read. */
export interface RawService {
  readonly metadata?: {
    readonly name?: string;
    readonly namespace?: string;
    readonly creationTimestamp?: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: {
    readonly type?: string;
    readonly externalIPs?: readonly string[];
    readonly selector?: Readonly<Record<string, string>> | null;
    readonly clusterIP?: string;
    readonly clusterIPs?: readonly string[];
    readonly ports?: ReadonlyArray<{ readonly port?: number; readonly protocol?: string }>;
  };
  readonly status?: {
    readonly loadBalancer?: {
      readonly ingress?: ReadonlyArray<{ readonly ip?: string; readonly hostname?: string; readonly ipMode?: string }>;
    };
  };
}

/**
 * Whether kube-proxy may short-circuit addresses of the Service. It handles `externalIPs` of any type, and skips
 * headless Services (kubernetes, pkg/proxy/util/utils.go, ShouldSkipService, and pkg/proxy/serviceport.go).
 */
export function isExposed({ spec }: RawService): boolean {
  if (spec?.type === "LoadBalancer") return true;
  return (spec?.externalIPs ?? []).length > 0 && literalIPs(spec).length > 0;
}

/**
 * The addresses of a Service as kube-proxy sees them. It handles each entry of the load balancer status by itself;
 * the entry's `ports` do not count.
 */
function addressesOfService({ spec, status }: RawService): Pick<ServiceView, "addresses" | "leftAlone" | "hostnames"> {
  const entries = spec?.type === "LoadBalancer" ? (status?.loadBalancer?.ingress ?? []) : [];
  const withIp = entries.filter(({ ip }) => isIP(ip ?? "") !== 0);
  const isProxied = ({ ipMode }: { readonly ipMode?: string }) => ipMode === "Proxy";
  const ips = (list: typeof withIp) => list.map(({ ip }) => canonicalIp(ip ?? ""));
  const external = literalsOf(spec?.externalIPs ?? []).map(canonicalIp);
  const vips = [...ips(withIp.filter((entry) => !isProxied(entry))), ...external];
  const clusterIPs = literalIPs(spec);
  const addresses = new Set(vips.filter((address) => hasFamilyOf(clusterIPs, address)));
  const others = new Set([...ips(withIp.filter(isProxied)), ...vips]);
  return {
    addresses: [...addresses],
    leftAlone: [...others].filter((address) => !addresses.has(address)),
    hostnames: entries.flatMap(({ hostname }) => hostname || []),
  };
}

/**
 * Projects a Service. `fallback` and `map` apply if no annotation sets the protocol, or when to map; with the fallback
 * `auto` ingress controllers are asked. One that takes v1 only if configured to gets v2 instead.
 */
export function viewService(raw: RawService, fallback: Protocol | "auto", map: MapWhen = "auto"): ServiceView {
  const { metadata, spec } = raw;
  const mapped = mapWhen(metadata?.annotations?.[MAP_KEY], map);
  const isValid = typeof mapped === "string";
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    created: metadata?.creationTimestamp ?? "",
    exposed: isExposed(raw),
    inside: !isExposed(raw) && (spec?.type ?? "ClusterIP") === "ClusterIP",
    gateway: gatewayOfService(raw),
    ...addressesOfService(raw),
    map: isValid ? mapped : map,
    clusterIPs: literalIPs(spec),
    ports: isValid ? portsOf(raw, fallback) : mapped,
    selector: spec?.selector ?? {},
    software: softwareOfService(raw),
  };
}

/**
 * The ports of an object whose kind has none, such as an Ingress; Traefik's Gateways are served there too, whatever
 * their listeners say.
 */
export const HTTP_PORTS: readonly number[] = [80, 443];

/** Whether a Service has one of these TCP ports. Ports that are not known hide no Service: the reason is reported. */
export function mayHavePort(view: ServiceView, ports: readonly number[]): boolean {
  return "code" in view.ports || ports.some((port) => portOf(view, port) !== undefined);
}

/** The TCP port of a Service; undefined if it has none of that number, or its ports are not known. */
export function portOf({ ports }: ServiceView, number: number) {
  return "code" in ports ? undefined : ports.find(({ port }) => port === number);
}

/** Title of the ingress controller that the labels and the selector of a Service name. */
function softwareOfService({ metadata, spec }: RawService): string | undefined {
  return softwareByLabels({ labels: metadata?.labels ?? {}, selector: spec?.selector ?? {} })?.title;
}

/** `namespace/name` of the Gateway that a Service was made for. */
function gatewayOfService({ metadata }: RawService): string | undefined {
  const labels = metadata?.labels ?? {};
  const name = GATEWAY_LABELS.map((label) => labels[label]).find((value) => value !== undefined);
  return name === undefined ? undefined : `${labels[GATEWAY_NAMESPACE_LABEL] ?? metadata?.namespace ?? ""}/${name}`;
}

/** As the Service of an ingress controller, or of a Gateway. */
export function isLabelled(raw: RawService): boolean {
  return softwareOfService(raw) !== undefined || gatewayOfService(raw) !== undefined;
}

function mapWhen(annotation: string | undefined, fallback: MapWhen): MapWhen | Reason {
  if (annotation === undefined) return fallback;
  const text = `${MAP_KEY} is ${show(String(annotation))}; accepted are ${MAP_WHEN.join(", ")}`;
  return MAP_WHEN.find((value) => value === annotation) ?? { code: "annotation-invalid", text };
}

/** The IP addresses among addresses and host names. */
export function literalsOf(addresses: readonly string[]): string[] {
  return addresses.filter((address) => isIP(address) !== 0);
}

/**
 * Whether kube-proxy handles an address of a Service with these ClusterIPs, as far as its family decides. Each family
 * has its proxier. It skips Services without a ClusterIP of this family, and addresses of the other family (kubernetes,
 * pkg/proxy/servicechangetracker.go, `serviceToServiceMap`; pkg/proxy/serviceport.go, `newBaseServiceInfo`). Without
 * ClusterIPs nothing is known: it does.
 */
export function hasFamilyOf(clusterIPs: readonly string[], address: string): boolean {
  return clusterIPs.length === 0 || clusterIPs.some((clusterIP) => isIP(clusterIP) === isIP(address));
}

/** The IP addresses in clusterIPs, which contains `None` for a headless Service. */
export function literalIPs(spec: RawService["spec"]): readonly string[] {
  return literalsOf(spec?.clusterIPs ?? [spec?.clusterIP ?? ""]);
}

function portsOf({ metadata, spec }: RawService, fallback: Protocol | "auto"): ServiceView["ports"] {
  const ports: ServicePort[] = [];
  const isAsked = fallback === "auto";
  const assumed = isAsked ? "v1" : fallback;
  const usual = assumed === "v1" && takesOnlyV2(metadata?.labels) ? "v2" : assumed;
  for (const { port, protocol: transport } of spec?.ports ?? []) {
    if (port === undefined || (transport ?? "TCP") !== "TCP") continue;
    const stated = statedProtocol(metadata?.annotations, port);
    if (stated !== undefined && "code" in stated) return stated;
    ports.push({ port, protocol: stated?.protocol ?? usual, ...(isAsked && sayingOf(stated)) });
  }
  if (ports.length > MAX_TARGET_PORTS) {
    const text = `it has ${ports.length} TCP ports; a target has at most ${MAX_TARGET_PORTS}`;
    return { code: "too-many-ports", text };
  }
  return ports;
}

function sayingOf(stated: Stated | undefined): Pick<ServicePort, "stated" | "says"> {
  return stated === undefined ? { stated: "nobody" } : { stated: stated.by, says: stated.says };
}

/**
 * agentgateway makes a Service for each Gateway; its `proxyProtocol` takes version 2 unless the policy names another.
 */
function takesOnlyV2(labels: Readonly<Record<string, string>> | undefined): boolean {
  return (
    labels?.["app.kubernetes.io/managed-by"] === "agentgateway" || labels?.[GATEWAY_CLASS_LABEL] === "agentgateway"
  );
}

/** Normalizes an address: `2001:DB8:0::1` and `2001:db8::1` are the same (RFC 5952). Other text is unchanged. */
export function canonicalIp(address: string): string {
  return isIP(address) === 6 && !address.includes("%") ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;
}

/** A Service name has 52 bytes after `switchback-`; 13 of them are for the hash that makes it unique. */
const READABLE_BYTES = 39;

/**
 * The target name of a Service: readable, and derived only from its namespace and name, so that it is the same in
 * every replica and after every restart. The hash distinguishes `a-b/c` from `a/b-c`, and truncated names.
 */
export function foundName(namespace: string, name: string): string {
  const readable = name.startsWith(namespace) ? name : `${namespace}-${name}`;
  const head = readable.slice(0, READABLE_BYTES).replace(/[^a-z0-9]+$/, "");
  return `${head.replace(/[^a-z0-9-]/g, "-")}-${shortHash(`${namespace}/${name}`)}`;
}

/**
 * A discovered target. The proxies relay to these addresses only: what the name of its Service resolves to is its
 * tenant's choice.
 */
export interface FoundTarget extends TargetConfig {
  /** The ClusterIPs of its Service. */
  readonly upstreamIPs: readonly string[];
  readonly ports: FoundPort[];
}

type FoundPort = TargetConfig["ports"][number] & {
  /** As in `ServicePort`. */
  readonly stated?: ServicePort["stated"];
  readonly says?: ServicePort["says"];
  /** Of a port that another Service has at the same address: the ClusterIPs of that one. */
  readonly upstreamIPs?: readonly string[];
};

/** Returns the target of a Service, or the reason why it cannot be one. */
export function targetOfService(view: ServiceView): FoundTarget | Reason {
  const { namespace, name, ports, clusterIPs } = view;
  if ("code" in ports) return { ...ports, text: `the Service ${namespace}/${name}: ${ports.text}` };
  if (ports.length === 0) {
    return { code: "service-without-port", text: `the Service ${namespace}/${name} has no TCP port` };
  }
  const direct = ports.every(({ protocol }) => protocol === "none");
  return {
    name: foundName(namespace, name),
    upstream: { service: { namespace, name } },
    upstreamIPs: clusterIPs,
    classes: [],
    ports: [...ports],
    clusterIPs: direct ? [...clusterIPs] : [],
  };
}
