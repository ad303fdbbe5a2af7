import * as v from "valibot";
import { finite, object, record, text } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";

// The fields of each kind that doctor and controller read. A dump has no others.

type Fields = v.ObjectEntries;

const some = v.optional(v.string());
const count = v.optional(finite);
const texts = v.optional(v.array(v.string()));
const labels = v.optional(record(v.string(), v.string()));
const group = <const E extends Fields>(fields: E) => v.optional(object(fields));
const list = <const E extends Fields>(fields: E) => v.optional(v.array(object(fields)));
const listOrNull = <const E extends Fields>(fields: E) => v.nullish(v.array(object(fields)));

// A field of a kind that others define may have any type. One with a wrong type counts as missing.

const any = <S extends Schema>(schema: S) => v.fallback(v.optional(schema), undefined);
const anyText = any(v.string());
const anyNumber = any(finite);
const anyTexts = any(v.array(v.fallback(v.string(), "")));
const anyLabels = any(record(v.string(), v.fallback(v.string(), "")));
const anyGroup = <const E extends Fields>(fields: E) => any(object(fields));
const anyList = <const E extends Fields>(fields: E) => any(v.array(v.fallback(object(fields) as Schema, {})));

/** `public-fields.ts` chooses the annotations. */
const named = { name: text, namespace: v.optional(text), creationTimestamp: some, annotations: labels };
const labelled = { ...named, labels };
const kind = <const E extends Fields>(fields: E, metadata: Fields = named) =>
  object({ apiVersion: text, kind: text, metadata: object(metadata), ...fields });

/** The fields of an object of any other kind. */
export const objectSchema = kind({}, labelled);

const targetPort = v.optional(v.union([v.string(), finite]));
const ports = list({ port: finite, name: some, protocol: some, appProtocol: some, targetPort });
const loadBalancer = group({ ingress: listOrNull({ ip: some, hostname: some, ipMode: some }) });
const status = group({ loadBalancer });
const selector = v.nullish(record(v.string(), v.string()));
const clusterIPs = { clusterIP: some, clusterIPs: texts };
const service = {
  spec: group({ type: some, selector, externalIPs: texts, loadBalancerSourceRanges: texts, ...clusterIPs, ports }),
  status: group({ loadBalancer, conditions: listOrNull({ type: some }) }),
};
const rules = listOrNull({ host: some });
const tls = listOrNull({ hosts: v.nullish(v.array(v.string())) });
const ingress = { spec: group({ ingressClassName: some, rules, tls }), status };

const owners = list({
  apiVersion: v.string(),
  kind: v.string(),
  name: v.string(),
  controller: v.optional(v.boolean()),
});
const pod = {
  spec: group({ nodeName: some, hostAliases: listOrNull({ ip: text, hostnames: texts }) }),
  status: group({ phase: some }),
};
const node = {
  status: group({ addresses: listOrNull({ address: some }) }),
};
const containers = list({ image: some, imagePullPolicy: some });
const volumes = list({ name: some, configMap: group({ name: some }) });
const deployment = {
  spec: group({ replicas: count, template: group({ spec: group({ containers, volumes }) }) }),
  status: group({ readyReplicas: count }),
};
const endpointSlice = {
  endpoints: listOrNull({
    addresses: texts,
    conditions: group({ ready: v.optional(v.boolean()) }),
    targetRef: v.nullish(object({ kind: some, name: some })),
  }),
  ports: listOrNull({ name: some, port: count }),
};
const webhooks = list({
  name: v.string(),
  failurePolicy: some,
  timeoutSeconds: count,
  clientConfig: group({
    caBundle: some,
    service: group({ namespace: v.string(), name: v.string(), port: count }),
  }),
  namespaceSelector: group({
    matchExpressions: listOrNull({ key: v.string(), operator: v.string(), values: texts }),
  }),
});
const solvers = anyList({ http01: v.nullish(object({})), waitInsteadOfSelfCheck: anyText });
const issuer = { spec: anyGroup({ acme: anyGroup({ solvers }) }) };

// Gateway API.
const conditions = anyList({ type: anyText, status: anyText, reason: anyText, message: anyText });
const matchExpressions = anyList({ key: anyText, operator: anyText, values: anyTexts });
const namespaces = anyGroup({
  from: anyText,
  selector: anyGroup({ matchLabels: anyLabels, matchExpressions }),
});
const listeners = listOrNull({
  name: anyText,
  port: anyNumber,
  protocol: anyText,
  hostname: some,
  allowedRoutes: anyGroup({ namespaces, kinds: anyList({ group: anyText, kind: anyText }) }),
});
const names = { group: anyText, kind: anyText, namespace: anyText, name: anyText };
const parent = { ...names, sectionName: anyText, port: anyNumber };
const listening = { conditions, listeners: anyList({ name: anyText, conditions }) };
const gatewayClass = {
  spec: anyGroup({ controllerName: anyText, parametersRef: anyGroup({ namespace: anyText }) }),
};
const gateway = {
  spec: group({ gatewayClassName: anyText, listeners, allowedListeners: anyGroup({ namespaces }) }),
  status: group({ addresses: listOrNull({ type: anyText, value: some }), ...listening }),
};
const listenerSet = { spec: anyGroup({ parentRef: anyGroup(parent), listeners }), status: anyGroup(listening) };
const route = {
  spec: anyGroup({ hostnames: anyTexts, parentRefs: anyList(parent) }),
  status: anyGroup({ parents: anyList({ parentRef: anyGroup(parent), conditions }) }),
};

// Istio, Traefik, Contour, OpenShift.
const servers = anyList({
  hosts: anyTexts,
  port: anyGroup({ number: anyNumber }),
  tls: anyGroup({ mode: anyText }),
});
const routing = anyList({ match: anyList({ gateways: anyTexts }) });
const routings = { http: routing, tls: routing, tcp: routing };
const virtualService = { spec: anyGroup({ hosts: anyTexts, gateways: anyTexts, exportTo: anyTexts, ...routings }) };
const traefikRoute = { spec: anyGroup({ ingressClassName: anyText, routes: anyList({ match: anyText }) }) };
const httpProxy = {
  spec: anyGroup({ ingressClassName: anyText, virtualhost: anyGroup({ fqdn: anyText }) }),
  status: anyGroup({
    currentStatus: anyText,
    loadBalancer: anyGroup({ ingress: anyList({ ip: anyText, hostname: anyText }) }),
  }),
};
const host = { host: anyText, wildcardPolicy: anyText };
const openshiftRoute = {
  spec: anyGroup(host),
  status: anyGroup({ ingress: anyList({ ...host, routerName: anyText, conditions }) }),
};

/** By `resource.group`, as Kubernetes' `GroupResource` is written. */
export const SCHEMAS: ReadonlyMap<string, Schema> = new Map<string, Schema>([
  ["services", kind(service, labelled)],
  ["namespaces", objectSchema],
  ["nodes", kind(node)],
  ["pods", kind(pod, { ...labelled, deletionTimestamp: some, ownerReferences: owners })],
  ["configmaps", kind({ data: labels, binaryData: labels }, labelled)],
  ["deployments.apps", kind(deployment)],
  ["endpointslices.discovery.k8s.io", kind(endpointSlice, labelled)],
  ["leases.coordination.k8s.io", kind({ spec: group({ renewTime: some }) }, labelled)],
  ["mutatingwebhookconfigurations.admissionregistration.k8s.io", kind({ webhooks })],
  ["ingresses.networking.k8s.io", kind(ingress)],
  ["ingressclasses.networking.k8s.io", kind({ spec: group({ controller: some }) })],
  ["clusterissuers.cert-manager.io", kind(issuer)],
  ["issuers.cert-manager.io", kind(issuer)],
  ["gatewayclasses.gateway.networking.k8s.io", kind(gatewayClass)],
  ["gateways.gateway.networking.k8s.io", kind(gateway)],
  ["listenersets.gateway.networking.k8s.io", kind(listenerSet)],
  ["xlistenersets.gateway.networking.x-k8s.io", kind(listenerSet)],
  ["httproutes.gateway.networking.k8s.io", kind(route)],
  ["grpcroutes.gateway.networking.k8s.io", kind(route)],
  ["tlsroutes.gateway.networking.k8s.io", kind(route)],
  ["gateways.networking.istio.io", kind({ spec: anyGroup({ selector: anyLabels, servers }) })],
  ["virtualservices.networking.istio.io", kind(virtualService)],
  ["ingressroutes.traefik.io", kind(traefikRoute)],
  ["ingressroutetcps.traefik.io", kind(traefikRoute)],
  ["httpproxies.projectcontour.io", kind(httpProxy)],
  ["routes.route.openshift.io", kind(openshiftRoute)],
]);
