import * as v from "valibot";
import { isProtocolAnnotation } from "#controller/targets/proxy-protocol-annotations.ts";
import { ANNOUNCED, PROVIDERS } from "#doctor/providers.ts";
import { PREFIX } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import { finite, integer, object, record, text, word } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";
import type { KubeValue } from "../kube-file.ts";
import { collectionOf, parseObjectPath, pluralOf } from "./object-paths.ts";

// A dump is a stream of YAML documents: the head, then answers and objects in any order. The program writes each
// document as JSON on one line: JSON is also YAML, and is read fifty times faster.
//
// A shape has the fields of a kind that doctor and controller read. `--from` reads no others, and a dump has no others.
// A `word` is a value of an enumeration, which a redacted dump keeps.

export const DUMP_VERSION = "dump.switchback.dev/v1";

const LEAVES = {
  text: v.string(),
  word,
  number: finite,
  flag: v.boolean(),
  "text or number": v.union([v.string(), finite]),
  texts: v.array(v.fallback(v.string(), "")),
  map: record(v.string(), v.fallback(v.string(), "")),
} as const;

interface Fields {
  readonly [field: string]: Shape;
}
/** The type of a value, the fields of a map, or the fields of each map in a list. */
type Shape = keyof typeof LEAVES | Fields | readonly [Fields];

/** A field with a wrong type counts as missing, as in the readers of the sources. */
function optional(schema: Schema): Schema {
  return v.fallback(v.optional(schema), undefined);
}

function schemaOf(shape: Shape): Schema {
  if (typeof shape === "string") return LEAVES[shape];
  if (Array.isArray(shape)) return v.array(v.fallback(schemaOf(shape[0]), {}));
  return object(entriesOf(shape as Fields));
}

function entriesOf(fields: Fields): v.ObjectEntries {
  return Object.fromEntries(Object.entries(fields).map(([name, shape]) => [name, optional(schemaOf(shape))]));
}

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
  creationTimestamp: optional(v.string()),
  deletionTimestamp: optional(v.string()),
  annotations: v.optional(v.pipe(texts, v.transform(readAnnotations))),
};

const GATEWAY_API = "gateway.networking.k8s.io";

/** Any object. Of a kind that only the configuration may name, everything is kept. */
const objectSchema = v.looseObject({
  apiVersion: text,
  kind: text,
  metadata: v.looseObject({ ...named, labels: optional(LEAVES.map), annotations: optional(LEAVES.map) }),
});

const BALANCER = { ingress: [{ ip: "text", hostname: "text", ipMode: "word" }] } as const;
const PORT = { port: "number", name: "text", protocol: "word" } as const;
const SERVICE: Fields = {
  spec: {
    ...{ type: "word", selector: "map", clusterIP: "text", clusterIPs: "texts", externalIPs: "texts" },
    loadBalancerSourceRanges: "texts",
    ports: [{ ...PORT, appProtocol: "text", targetPort: "text or number" }],
  },
  status: { loadBalancer: BALANCER, conditions: [{ type: "text" }] },
};
const ENDPOINT_SLICE: Fields = { endpoints: [{ addresses: "texts", conditions: { ready: "flag" } }] };
const WEBHOOK: Fields = { name: "text", failurePolicy: "word", clientConfig: { service: { namespace: "text" } } };
const INGRESS: Fields = {
  spec: { ingressClassName: "text", rules: [{ host: "text" }], tls: [{ hosts: "texts" }] },
  status: { loadBalancer: BALANCER },
};
const DEPLOYMENT: Fields = {
  spec: { replicas: "number", template: { spec: { containers: [{ image: "text", imagePullPolicy: "word" }] } } },
  status: { readyReplicas: "number" },
};
const ISSUER: Fields = { spec: { acme: { solvers: [{ http01: {}, waitInsteadOfSelfCheck: "text" }] } } };

// Gateway API.
const CONDITIONS = [{ type: "word", status: "word", reason: "word", message: "text" }] as const;
const MATCH_EXPRESSIONS = [{ key: "text", operator: "word", values: "texts" }] as const;
const NAMESPACES = { from: "word", selector: { matchLabels: "map", matchExpressions: MATCH_EXPRESSIONS } } as const;
const ALLOWED_ROUTES = { namespaces: NAMESPACES, kinds: [{ group: "text", kind: "word" }] } as const;
const LISTENERS = [{ ...PORT, hostname: "text", allowedRoutes: ALLOWED_ROUTES }] as const;
const OBJECT = { group: "text", kind: "word", namespace: "text", name: "text" } as const;
const PARENT = { ...OBJECT, sectionName: "text", port: "number" } as const;
const LISTENING = { conditions: CONDITIONS, listeners: [{ name: "text", conditions: CONDITIONS }] } as const;
const GATEWAY: Fields = {
  spec: { gatewayClassName: "text", listeners: LISTENERS, allowedListeners: { namespaces: NAMESPACES } },
  status: { addresses: [{ type: "word", value: "text" }], ...LISTENING },
};
const LISTENER_SET: Fields = { spec: { parentRef: PARENT, listeners: LISTENERS }, status: LISTENING };
const ROUTE: Fields = {
  spec: { hostnames: "texts", parentRefs: [PARENT] },
  status: { parents: [{ parentRef: PARENT, conditions: CONDITIONS }] },
};

// Istio, Traefik, Contour, OpenShift.
const ROUTING = [{ match: [{ gateways: "texts" }] }] as const;
const ROUTINGS = { http: ROUTING, tls: ROUTING, tcp: ROUTING };
const VIRTUAL_SERVICE: Fields = { spec: { hosts: "texts", gateways: "texts", exportTo: "texts", ...ROUTINGS } };
const SERVER: Fields = { hosts: "texts", port: { number: "number" }, tls: { mode: "word" } };
const TRAEFIK_ROUTE: Fields = { spec: { ingressClassName: "text", routes: [{ match: "text" }] } };
const HTTP_PROXY: Fields = {
  spec: { ingressClassName: "text", virtualhost: { fqdn: "text" } },
  status: { currentStatus: "word", loadBalancer: BALANCER },
};
const HOST = { host: "text", wildcardPolicy: "word" } as const;
const ADMITTED = { ...HOST, routerName: "text", conditions: CONDITIONS } as const;

/** The fields of each kind, by its API group and version-less name, and whether its labels are read. */
const SHAPES: readonly (readonly [group: string, kind: string, fields: Fields, labelled?: "labelled"])[] = [
  ["", "Service", SERVICE, "labelled"],
  ["", "Namespace", {}, "labelled"],
  ["", "Node", { status: { addresses: [{ address: "text" }] } }],
  ["", "Pod", { status: { phase: "word" } }, "labelled"],
  ["", "ConfigMap", { data: "map" }, "labelled"],
  ["apps", "Deployment", DEPLOYMENT],
  ["discovery.k8s.io", "EndpointSlice", ENDPOINT_SLICE, "labelled"],
  ["coordination.k8s.io", "Lease", { spec: { renewTime: "text" } }, "labelled"],
  ["admissionregistration.k8s.io", "MutatingWebhookConfiguration", { webhooks: [WEBHOOK] }],
  ["networking.k8s.io", "Ingress", INGRESS],
  ["networking.k8s.io", "IngressClass", { spec: { controller: "text" } }],
  ["cert-manager.io", "ClusterIssuer", ISSUER],
  ["cert-manager.io", "Issuer", ISSUER],
  [GATEWAY_API, "GatewayClass", { spec: { controllerName: "text", parametersRef: { namespace: "text" } } }],
  [GATEWAY_API, "Gateway", GATEWAY],
  [GATEWAY_API, "ListenerSet", LISTENER_SET],
  ["gateway.networking.x-k8s.io", "XListenerSet", LISTENER_SET],
  [GATEWAY_API, "HTTPRoute", ROUTE],
  [GATEWAY_API, "GRPCRoute", ROUTE],
  [GATEWAY_API, "TLSRoute", ROUTE],
  ["networking.istio.io", "Gateway", { spec: { selector: "map", servers: [SERVER] } }],
  ["networking.istio.io", "VirtualService", VIRTUAL_SERVICE],
  ["traefik.io", "IngressRoute", TRAEFIK_ROUTE],
  ["traefik.io", "IngressRouteTCP", TRAEFIK_ROUTE],
  ["projectcontour.io", "HTTPProxy", HTTP_PROXY],
  ["route.openshift.io", "Route", { spec: HOST, status: { ingress: [ADMITTED] } }],
];

/** The kinds, by the type of their paths. */
export const KINDS: ReadonlyMap<string, { readonly kind: string; readonly schema: Schema }> = new Map(
  SHAPES.map(([group, kind, fields, isLabelled]) => {
    const metadata = object(isLabelled ? { ...named, labels } : named);
    const schema = object({ apiVersion: text, kind: word, metadata, ...entriesOf(fields) });
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
