import { SOFTWARE_WORDS } from "#controller/targets/known-software.ts";
import { PROTOCOL_ANNOTATIONS } from "#controller/targets/proxy-protocol-annotations.ts";
import { statusSchema as doctorStatus } from "#doctor/install-documents.ts";
import { ANNOUNCED, PROVIDERS } from "#doctor/providers.ts";
import { stateSchema as publisherState } from "#extras/publishers/publisher-state.ts";
import {
  HOLD_KEY,
  MAP_LOST_KEY,
  MAP_REVISION_KEY,
  MAP_TIME_KEY,
  MAP_VERSION_KEY,
  RESTARTED_KEY,
  USER_KEYS,
  WRITTEN_KEYS,
} from "#hostmap/metadata-keys.ts";
import { BUILT_IN_SUFFIXES } from "#hostmap/protected-names.ts";
import { EXTERNAL_DNS_PREFIXES } from "#lib/config/defaults.ts";
import { configSchemaWith } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { documentSchema as targetsSchema } from "#lib/documents/targets-format.ts";
import type { Schema } from "#lib/errors/validation.ts";
import { statusSchema } from "../status-shape.ts";
import { answerSchema, headSchema, lookupSchema } from "./format.ts";
import { KNOWN_CODES } from "./known-codes.ts";
import { discoverySchema, READ_ANNOTATIONS } from "./public-fields.ts";
import { wordsIn } from "./redacted-words.ts";
import { SCHEMAS } from "./schemas.ts";

/** Words that our code compares with, writes or reads, and that no schema and no table has. */
const WORDS = [
  // Kubernetes: fields, paths and kinds.
  "apiVersion items resourceVersion versions v1 v2 v1alpha1 v1alpha2 v1alpha3 v1beta1 v1beta2 api apis version",
  "namespaces secrets proxy GET POST get list watch create application json text plain charset utf-8",
  "Service Namespace Node Pod ConfigMap Secret Deployment ReplicaSet StatefulSet DaemonSet Job EndpointSlice Lease",
  "MutatingWebhookConfiguration Ingress IngressClass ClusterIssuer Issuer GatewayClass Gateway ListenerSet",
  "XListenerSet HTTPRoute gateway.networking.x-k8s.io",
  "GRPCRoute TLSRoute VirtualService IngressRoute IngressRouteTCP HTTPProxy Route",
  // Refusals.
  "403 404 500 503 Forbidden NotFound Unauthorized InternalError cannot resource API group failed calling webhook",
  // Labels, and values of fields.
  "kubernetes.io/metadata.name kubernetes.io/service-name pod-template-hash app.kubernetes.io/component",
  "gateway.networking.k8s.io/gateway-name gateway.networking.k8s.io/gateway-class-name",
  "gateway.envoyproxy.io/owning-gateway-name gateway.envoyproxy.io/owning-gateway-namespace",
  "gateway.envoyproxy.io/owning-gatewayclass service.kubernetes.io/service-proxy-name app.kubernetes.io/instance",
  "projectcontour.io/owning-gateway-name",
  "LoadBalancer ClusterIP NodePort ExternalName None TCP UDP SCTP HTTP HTTPS TLS VIP Proxy True False Accepted",
  "Conflicted Admitted valid Same All Selector IPAddress Hostname Subdomain AUTO_PASSTHROUGH mesh In NotIn Exists",
  "DoesNotExist Ignore Fail Running Pending Always IfNotPresent Never default kube-system",
  "https http2 h2c grpc ssl web websecure metrics",
  // Values of annotations.
  "true false none T 0 1 2 v2-ssl v2-ssl-cn proxyv2 send-proxy send-proxy-v2 proxy-protocol nlb nlb-ip",
  "nlb-target-type external frontends backends properties outbound_proxy_protocol proxy_protocol_v2.enabled",
  "preserve_client_ip.enabled",
  // Rules of Traefik, and JSONPath.
  "Host HostHeader HostSNI length count match search value null",
  // Switchback's own objects, documents and webhooks.
  "dump.switchback.dev Dump Answer Lookup switchback system config controller agent all hosts hosts.gz webhook-tls map",
  "config.yaml state.json targets.json tls.crt dns live restart install workload pod",
  "wildcard namespace.switchback.dev listed.switchback.dev pod.switchback.dev reachable.switchback.dev",
  "switchback.dev/publisher switchback.dev/pod-revisions switchback.dev/format switchback.dev/node-hosts",
  // The pages of the controller and of a proxy.
  "running synced inactiveMs hold until since relayed leaving target names taken revision in-step waiting left stuck",
  "unknown notice underWay counts decisions notInjected lastRestart",
  "warning readyz i upstream ok failing",
  // Files of CoreDNS.
  "coredns coredns-custom Corefile rewrite name exact continue stop kubernetes hairpin-proxy hairpin-proxy-gen2 Added",
  "by managed-by do-not-modify ouroboros BEGIN END",
  "com net org io www",
];

/** The words that a redacted dump keeps, in lower case: those of our code, of Kubernetes and of known software. */
export function knownWords(sections: readonly Section[]): ReadonlySet<string> {
  const schemas: Schema[] = [
    ...SCHEMAS.values(),
    ...[configSchemaWith(sections), statusSchema, doctorStatus, publisherState],
    targetsSchema,
    ...[headSchema, answerSchema, lookupSchema, discoverySchema],
  ];
  const texts = [
    ...WORDS,
    KNOWN_CODES,
    ...READ_ANNOTATIONS,
    ...PROTOCOL_ANNOTATIONS,
    ...SOFTWARE_WORDS,
    ...BUILT_IN_SUFFIXES,
    ...EXTERNAL_DNS_PREFIXES,
    ...PROVIDERS.flatMap(({ annotations }) => annotations),
    ...ANNOUNCED,
    ...[...Object.keys(USER_KEYS), ...WRITTEN_KEYS, RESTARTED_KEY, HOLD_KEY, MAP_LOST_KEY],
    ...[MAP_VERSION_KEY, MAP_REVISION_KEY, MAP_TIME_KEY],
    ...Array.from(SCHEMAS.keys(), (type) => type.replace(".", " ")),
    ...schemas.flatMap((schema) => [...namesIn(schema)]),
  ];
  return new Set(texts.flatMap(wordsIn));
}

/** The parts of a valibot schema that are read. Which ones exist depends on its kind. */
interface Parts {
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly wrapped?: Schema;
  readonly item?: Schema;
  readonly value?: Schema;
  readonly options?: readonly (Schema | string)[];
}

/** The fields of a schema, and the values that it lists. */
function* namesIn(schema: Schema): Generator<string> {
  const { entries = {}, wrapped, item, value, options = [] } = schema as Parts;
  yield* Object.keys(entries);
  for (const child of [wrapped, item, value, ...options, ...Object.values(entries)]) {
    if (typeof child === "string") yield child;
    else if (child !== undefined) yield* namesIn(child);
  }
}
