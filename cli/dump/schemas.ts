import * as v from "valibot";
import { OPENSHIFT_ROUTE_FIELDS } from "#controller/sources/custom/claims.ts";
import * as gatewayApi from "#controller/sources/gateway/view.ts";
import { INGRESS_CLASS_FIELDS, INGRESS_FIELDS } from "#controller/sources/ingress-hosts.ts";
import * as istio from "#controller/sources/istio.ts";
import { isProtocolAnnotation } from "#controller/targets/proxy-protocol-annotations.ts";
import { ANNOUNCED, PROVIDERS } from "#doctor/providers.ts";
import { PREFIX } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import { integer, object, record, text, word } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";
import { BALANCER, SERVICE_FIELDS } from "#lib/kube/services.ts";
import { type Fields, schemasOf } from "#lib/kube/shapes.ts";
import type { KubeValue } from "../kube-file.ts";
import { collectionOf, parseObjectPath, pluralOf } from "./object-paths.ts";

// A dump is a stream of YAML documents: the head, then answers and objects in any order. The program writes each
// document as JSON on one line: JSON is also YAML, and is read fifty times faster.
//
// It has the fields that doctor and controller read, and no others. So does what `--from` reads.

export const DUMP_VERSION = "dump.switchback.dev/v1";

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

const texts = record(v.string(), v.string());
const labels = v.optional(texts);
const named = {
  name: text,
  namespace: v.optional(text),
  ...schemasOf({ creationTimestamp: "text", deletionTimestamp: "text" }),
  annotations: v.optional(v.pipe(texts, v.transform(readAnnotations))),
};

/** Any object. Of a kind that only the configuration may name, everything is kept. */
const objectSchema = v.looseObject({
  apiVersion: text,
  kind: text,
  metadata: v.looseObject({ ...named, ...schemasOf({ labels: "map", annotations: "map" }) }),
});

const ENDPOINT_SLICE: Fields = { endpoints: [{ addresses: "texts", conditions: { ready: "flag" } }] };
const WEBHOOK: Fields = { name: "text", failurePolicy: "word", clientConfig: { service: { namespace: "text" } } };
const DEPLOYMENT: Fields = {
  spec: { replicas: "number", template: { spec: { containers: [{ image: "text", imagePullPolicy: "word" }] } } },
  status: { readyReplicas: "number" },
};
const ISSUER: Fields = { spec: { acme: { solvers: [{ http01: {}, waitInsteadOfSelfCheck: "text" }] } } };
// The paths of the presets (controller/sources/custom.ts) read these.
const TRAEFIK_ROUTE: Fields = { spec: { ingressClassName: "text", routes: [{ match: "text" }] } };
const HTTP_PROXY: Fields = {
  spec: { ingressClassName: "text", virtualhost: { fqdn: "text" } },
  status: { currentStatus: "word", loadBalancer: BALANCER },
};

/** The fields of each kind, by its API group and name, and whether its labels are read. */
const SHAPES: readonly (readonly [group: string, kind: string, fields: Fields, labelled?: "labelled"])[] = [
  ["", "Service", SERVICE_FIELDS, "labelled"],
  ["", "Namespace", {}, "labelled"],
  ["", "Node", { status: { addresses: [{ address: "text" }] } }],
  ["", "Pod", { status: { phase: "word" } }, "labelled"],
  ["", "ConfigMap", { data: "map" }, "labelled"],
  ["apps", "Deployment", DEPLOYMENT],
  ["discovery.k8s.io", "EndpointSlice", ENDPOINT_SLICE, "labelled"],
  ["coordination.k8s.io", "Lease", { spec: { renewTime: "text" } }, "labelled"],
  ["admissionregistration.k8s.io", "MutatingWebhookConfiguration", { webhooks: [WEBHOOK] }],
  ["networking.k8s.io", "Ingress", INGRESS_FIELDS],
  ["networking.k8s.io", "IngressClass", INGRESS_CLASS_FIELDS],
  ["cert-manager.io", "ClusterIssuer", ISSUER],
  ["cert-manager.io", "Issuer", ISSUER],
  [gatewayApi.GATEWAY_GROUP, "GatewayClass", gatewayApi.CLASS_FIELDS],
  [gatewayApi.GATEWAY_GROUP, "Gateway", gatewayApi.GATEWAY_FIELDS],
  [gatewayApi.GATEWAY_GROUP, "ListenerSet", gatewayApi.LISTENER_SET_FIELDS],
  [gatewayApi.EXPERIMENTAL_GROUP, "XListenerSet", gatewayApi.LISTENER_SET_FIELDS],
  [gatewayApi.GATEWAY_GROUP, "HTTPRoute", gatewayApi.ROUTE_FIELDS],
  [gatewayApi.GATEWAY_GROUP, "GRPCRoute", gatewayApi.ROUTE_FIELDS],
  [gatewayApi.GATEWAY_GROUP, "TLSRoute", gatewayApi.ROUTE_FIELDS],
  ["networking.istio.io", "Gateway", istio.GATEWAY_FIELDS],
  ["networking.istio.io", "VirtualService", istio.VIRTUAL_SERVICE_FIELDS],
  ["traefik.io", "IngressRoute", TRAEFIK_ROUTE],
  ["traefik.io", "IngressRouteTCP", TRAEFIK_ROUTE],
  ["projectcontour.io", "HTTPProxy", HTTP_PROXY],
  ["route.openshift.io", "Route", OPENSHIFT_ROUTE_FIELDS],
];

/** The kinds, by the type of their paths. */
export const KINDS: ReadonlyMap<string, { readonly kind: string; readonly schema: Schema }> = new Map(
  SHAPES.map(([group, kind, fields, isLabelled]) => {
    const metadata = object(isLabelled ? { ...named, labels } : named);
    const schema = object({ apiVersion: text, kind: word, metadata, ...schemasOf(fields) });
    return [`${pluralOf(kind)}${group === "" ? "" : `.${group}`}`, { kind, schema }];
  }),
);

/** The schema of an object of Kubernetes. */
export function schemaOfObject({ apiVersion, kind }: KubeValue): Schema {
  const path = collectionOf({ apiVersion: String(apiVersion), kind: String(kind) });
  return KINDS.get(parseObjectPath(path)?.type ?? "")?.schema ?? objectSchema;
}

/** The schema of the first document. */
export const headSchema = object({
  /** When the cluster was read, RFC 3339. Certificates and Leases are judged at this time. */
  time: v.optional(v.string()),
  /** The version of the program that wrote the dump. */
  program: v.optional(v.string()),
  /** Switchback's namespace. */
  namespace: v.optional(text, "switchback-system"),
  /** The namespace of the doctor's dry run. */
  probeNamespace: v.optional(text, "default"),
});

export type DumpHead = v.InferOutput<typeof headSchema>;

/** What the API server answered, besides the objects: a list was read, a refusal, a page, or a dry run. */
export const answerSchema = object({
  method: v.picklist(["GET", "POST"]),
  path: text,
  /** The HTTP status. 0 means that there was no answer. */
  status: integer(0, 599),
  /** What a dry run created, as far as it is ours. */
  body: v.optional(object({ metadata: object({ annotations: texts }) })),
  /** A page that is not JSON. */
  text: v.optional(v.string()),
  /** The whole message of a failed call. */
  message: v.optional(v.string()),
});
