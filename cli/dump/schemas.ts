import * as v from "valibot";
import { isProtocolAnnotation } from "#controller/targets/proxy-protocol-annotations.ts";
import { ANNOUNCED, PROVIDERS } from "#doctor/providers.ts";
import { PREFIX } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import { finite, object, record, text } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";
import { pluralOf } from "./stored-objects.ts";

// The fields of each kind that doctor and controller read. `--from` reads no others, and a dump has no others. The
// marks are words that a redacted dump keeps, because a decision depends on them.

type Fields = v.ObjectEntries;

/** Marks a field: a redacted dump keeps these words in it. */
export function keeping<S extends Schema>(schema: S, words: string) {
  return v.pipe(schema, v.metadata({ words }));
}

// A field with a wrong type counts as missing, as in the readers of the sources.

const any = <S extends Schema>(schema: S) => v.fallback(v.optional(schema), undefined);
const string = any(v.string());
const words = (kept: string) => any(keeping(v.string(), kept));
const number = any(finite);
const strings = any(v.array(v.fallback(v.string(), "")));
const map = any(record(v.string(), v.fallback(v.string(), "")));
const group = <const E extends Fields>(fields: E) => any(object(fields));
const list = <const E extends Fields>(fields: E) => any(v.array(v.fallback(object(fields) as Schema, {})));

/** Annotations that doctor and controller read, besides Switchback's own and those about PROXY headers. */
export const READ_ANNOTATIONS: readonly string[] = [
  MIRROR_KEY,
  "kubernetes.io/ingress.class",
  "projectcontour.io/ingress.class",
  "ingressclass.kubernetes.io/is-default-class",
  "networking.istio.io/service-type",
  "nginx.ingress.kubernetes.io/canary",
  "nginx.ingress.kubernetes.io/from-to-www-redirect",
  "nginx.ingress.kubernetes.io/server-alias",
];
/** External-dns has any prefix (`sources.services.annotationPrefixes`). */
const EXTERNAL_DNS = /\/hostname$/;
const PROVIDER_PREFIXES = PROVIDERS.flatMap((provider) => provider.annotations);

/** Of other annotations, keeps whose they are: the doctor recognizes the cloud provider and who announces by them. */
function readAnnotations(all: Readonly<Record<string, string>>): Record<string, string> {
  const isRead = (key: string) =>
    READ_ANNOTATIONS.includes(key) || key.startsWith(PREFIX) || isProtocolAnnotation(key) || EXTERNAL_DNS.test(key);
  const entries = Object.entries(all).flatMap(([key, value]) => {
    if (isRead(key)) return [[key, value]];
    const owner = ANNOUNCED.includes(key) ? key : PROVIDER_PREFIXES.find((prefix) => key.startsWith(prefix));
    return owner === undefined ? [] : [[owner, ""]];
  });
  return Object.fromEntries(entries);
}

/** The values of the annotations about PROXY headers. */
const HEADER_WORDS =
  "true false none T 0 1 2 v1 v2 v2-ssl v2-ssl-cn tcp proxy proxyv2 send-proxy send-proxy-v2 proxy-protocol " +
  "proxy_protocol proxy_protocol_v2.enabled outbound_proxy_protocol nlb external frontends backends properties";
const LABEL_WORDS =
  "kubernetes.io/metadata.name kubernetes.io/service-name app.kubernetes.io/component app.kubernetes.io/instance " +
  "gateway.networking.k8s.io/gateway-name gateway.networking.k8s.io/gateway-class-name agent " +
  "gateway.envoyproxy.io/owning-gateway-name gateway.envoyproxy.io/owning-gateway-namespace " +
  "gateway.envoyproxy.io/owning-gatewayclass projectcontour.io/owning-gateway-name " +
  "service.kubernetes.io/service-proxy-name switchback.dev/publisher coredns external-dns";
const annotations = v.optional(
  v.pipe(keeping(record(v.string(), v.string()), HEADER_WORDS), v.transform(readAnnotations)),
);
const named = {
  name: keeping(
    text,
    "switchback system default kube-system controller webhook proxy all config map targets publisher",
  ),
  namespace: v.optional(text),
  creationTimestamp: string,
  annotations,
};
const labelled = { ...named, labels: v.optional(keeping(record(v.string(), v.string()), LABEL_WORDS)) };
const kind = <const E extends Fields>(fields: E, metadata: Fields = named) =>
  object({
    apiVersion: keeping(text, "v1 v1alpha1 v1alpha2 v1alpha3 v1beta1"),
    kind: text,
    metadata: object(metadata),
    ...fields,
  });

/** The fields of an object of any other kind. */
export const objectSchema = kind({}, labelled);

const targetPort = any(v.union([v.string(), finite]));
/** The doctor asks a port in TLS or HTTP by its name or protocol. */
const APP_PROTOCOLS = "http https http2 h2c grpc tls web websecure";
const ports = list({
  port: number,
  name: string,
  protocol: words("TCP UDP SCTP"),
  appProtocol: words(APP_PROTOCOLS),
  targetPort,
});
const loadBalancer = group({ ingress: list({ ip: string, hostname: string, ipMode: words("VIP Proxy") }) });
const status = group({ loadBalancer });
const clusterIPs = { clusterIP: words("None"), clusterIPs: strings };
const serviceType = words("ClusterIP NodePort LoadBalancer ExternalName");
const service = {
  spec: group({
    type: serviceType,
    selector: map,
    externalIPs: strings,
    loadBalancerSourceRanges: strings,
    ...clusterIPs,
    ports,
  }),
  status: group({ loadBalancer, conditions: list({ type: string }) }),
};
const rules = list({ host: words("com net org io www") });
const tls = list({ hosts: strings });
const ingress = { spec: group({ ingressClassName: string, rules, tls }), status };

const pod = { status: group({ phase: words("Pending Running") }) };
const node = {
  status: group({ addresses: list({ address: string }) }),
};
const containers = list({ image: string, imagePullPolicy: words("Always IfNotPresent Never") });
const deployment = {
  spec: group({ replicas: number, template: group({ spec: group({ containers }) }) }),
  status: group({ readyReplicas: number }),
};
const endpointSlice = {
  endpoints: list({
    addresses: strings,
    conditions: group({ ready: any(v.boolean()) }),
  }),
};
const webhooks = list({
  name: words("namespace.switchback.dev listed.switchback.dev pod.switchback.dev reachable.switchback.dev"),
  failurePolicy: words("Ignore Fail"),
  clientConfig: group({ service: group({ namespace: string }) }),
});
const solvers = list({ http01: group({}), waitInsteadOfSelfCheck: string });
const issuer = { spec: group({ acme: group({ solvers }) }) };

// Gateway API.
const conditions = list({
  type: words("Accepted Conflicted Admitted"),
  status: words("True False"),
  reason: string,
  message: string,
});
const matchExpressions = list({ key: string, operator: string, values: strings });
const namespaces = group({
  from: words("Same All Selector"),
  selector: group({ matchLabels: map, matchExpressions }),
});
const listeners = list({
  name: string,
  port: number,
  protocol: words("HTTP HTTPS TLS TCP UDP"),
  hostname: string,
  allowedRoutes: group({ namespaces, kinds: list({ group: string, kind: string }) }),
});
const names = { group: string, kind: string, namespace: string, name: string };
const parent = { ...names, sectionName: string, port: number };
const listening = { conditions, listeners: list({ name: string, conditions }) };
const gatewayClass = {
  spec: group({ controllerName: string, parametersRef: group({ namespace: string }) }),
};
const gateway = {
  spec: group({ gatewayClassName: string, listeners, allowedListeners: group({ namespaces }) }),
  status: group({ addresses: list({ type: words("IPAddress Hostname"), value: string }), ...listening }),
};
const listenerSet = { spec: group({ parentRef: group(parent), listeners }), status: group(listening) };
const route = {
  spec: group({ hostnames: strings, parentRefs: list(parent) }),
  status: group({ parents: list({ parentRef: group(parent), conditions }) }),
};

// Istio, Traefik, Contour, OpenShift.
const servers = list({
  hosts: strings,
  port: group({ number: number }),
  tls: group({ mode: words("AUTO_PASSTHROUGH") }),
});
const routing = list({ match: list({ gateways: any(keeping(v.array(v.fallback(v.string(), "")), "mesh")) }) });
const routings = { http: routing, tls: routing, tcp: routing };
const virtualService = { spec: group({ hosts: strings, gateways: strings, exportTo: strings, ...routings }) };
const traefikRoute = {
  spec: group({ ingressClassName: string, routes: list({ match: words("Host HostHeader HostSNI") }) }),
};
const httpProxy = {
  spec: group({ ingressClassName: string, virtualhost: group({ fqdn: string }) }),
  status: group({
    currentStatus: words("valid"),
    loadBalancer: group({ ingress: list({ ip: string, hostname: string }) }),
  }),
};
const host = { host: string, wildcardPolicy: words("None Subdomain") };
const openshiftRoute = {
  spec: group(host),
  status: group({ ingress: list({ ...host, routerName: string, conditions }) }),
};

const NETWORKING = "networking.k8s.io";
const GATEWAY_API = "gateway.networking.k8s.io";
/** Its own names of keys and files, which no text of others has. */
const FILES = "config.yaml hosts targets.json state.json";
const configMap = { data: v.optional(keeping(record(v.string(), v.string()), FILES)) };

const KINDS: readonly (readonly [kind: string, group: string, schema: Schema])[] = [
  ["Service", "", kind(service, labelled)],
  ["Namespace", "", objectSchema],
  ["Node", "", kind(node)],
  ["Pod", "", kind(pod, { ...labelled, deletionTimestamp: string })],
  ["ConfigMap", "", kind(configMap, labelled)],
  ["Deployment", "apps", kind(deployment)],
  ["EndpointSlice", "discovery.k8s.io", kind(endpointSlice, labelled)],
  ["Lease", "coordination.k8s.io", kind({ spec: group({ renewTime: string }) }, labelled)],
  ["MutatingWebhookConfiguration", "admissionregistration.k8s.io", kind({ webhooks })],
  ["Ingress", NETWORKING, kind(ingress)],
  ["IngressClass", NETWORKING, kind({ spec: group({ controller: string }) })],
  ["ClusterIssuer", "cert-manager.io", kind(issuer)],
  ["Issuer", "cert-manager.io", kind(issuer)],
  ["GatewayClass", GATEWAY_API, kind(gatewayClass)],
  ["Gateway", GATEWAY_API, kind(gateway)],
  ["ListenerSet", GATEWAY_API, kind(listenerSet)],
  ["XListenerSet", "gateway.networking.x-k8s.io", kind(listenerSet)],
  ["HTTPRoute", GATEWAY_API, kind(route)],
  ["GRPCRoute", GATEWAY_API, kind(route)],
  ["TLSRoute", GATEWAY_API, kind(route)],
  ["Gateway", "networking.istio.io", kind({ spec: group({ selector: map, servers }) })],
  ["VirtualService", "networking.istio.io", kind(virtualService)],
  ["IngressRoute", "traefik.io", kind(traefikRoute)],
  ["IngressRouteTCP", "traefik.io", kind(traefikRoute)],
  ["HTTPProxy", "projectcontour.io", kind(httpProxy)],
  ["Route", "route.openshift.io", kind(openshiftRoute)],
];

/** By `resource.group`, as Kubernetes' `GroupResource` is written; in the core group, the resource alone. */
export const SCHEMAS: ReadonlyMap<string, Schema> = new Map(
  KINDS.map(([name, inGroup, schema]) => [typeOf(pluralOf(name), inGroup), schema]),
);
/** The name of each kind, by `resource.group`. */
export const KIND_NAMES: ReadonlyMap<string, string> = new Map(
  KINDS.map(([name, inGroup]) => [typeOf(pluralOf(name), inGroup), name]),
);

/** `ingresses.networking.k8s.io`; in the core group, the name alone. */
export function typeOf(resource: string, inGroup: string): string {
  return inGroup === "" ? resource : `${resource}.${inGroup}`;
}
