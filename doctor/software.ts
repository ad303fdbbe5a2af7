import type { ServiceFacts } from "./facts.ts";

/** An ingress controller, identified by the labels of its Service, and how to configure it for PROXY headers. */
export interface IngressSoftware {
  readonly title: string;
  /** How to make it trust headers from the proxies' addresses. */
  readonly trust: string;
  /** How to make it accept headers at all. */
  readonly accept: string;
}

interface KnownSoftware extends IngressSoftware {
  readonly matches: RegExp;
}

/** Matched against values of `app.kubernetes.io/name`, `app` and the like, as their charts and operators set them. */
const KNOWN: readonly KnownSoftware[] = [
  {
    title: "IBM Cloud's ALB",
    matches: /^(public|private)-cr[a-z0-9]+-alb\d+$/,
    trust: "run `ibmcloud ks ingress lb proxy-protocol enable --cluster CLUSTER --cidr <addresses of the proxy pods>`",
    accept: "run `ibmcloud ks ingress lb proxy-protocol enable --cluster CLUSTER`",
  },
  {
    title: "ingress-nginx",
    matches: /^(ingress-nginx|rke2-ingress-nginx|nginx-ingress-controller)$/,
    trust: "add the proxy pods' addresses to `proxy-real-ip-cidr` in the controller's ConfigMap",
    accept: 'set `use-proxy-protocol: "true"` in the controller\'s ConfigMap',
  },
  {
    title: "Traefik",
    matches: /^traefik$/,
    trust: "add the proxy pods' addresses to `entryPoints.<name>.proxyProtocol.trustedIPs`",
    accept: "set `entryPoints.<name>.proxyProtocol.trustedIPs` to the addresses that send headers",
  },
  {
    title: "HAProxy",
    matches: /^(haproxy-ingress|kubernetes-ingress|haproxy-ingress-controller)$/,
    trust: "add the proxy pods' addresses to `proxy-protocol` (HAProxy Technologies') in the controller's ConfigMap",
    accept: "set `proxy-protocol` (HAProxy Technologies') or `use-proxy-protocol` (jcmoraisjr's) in the ConfigMap",
  },
  {
    title: "Contour",
    matches: /^contour$/,
    trust: "Contour accepts a header from any address once `--use-proxy-protocol` is set",
    accept: "start Contour with `--use-proxy-protocol`",
  },
  {
    title: "Envoy Gateway",
    matches: /^envoy$/,
    trust: "Envoy accepts a header from any address once a ClientTrafficPolicy sets `enableProxyProtocol`",
    accept: "set `enableProxyProtocol: true` in a ClientTrafficPolicy of the Gateway",
  },
  {
    title: "Istio's ingress gateway",
    matches: /^istio-(ingressgateway|ingress)$/,
    trust: "Envoy accepts a header from any address once the gateway's `proxyProtocol` is set",
    accept: "set `gatewayTopology: { proxyProtocol: {} }` in the gateway's proxy.istio.io/config annotation",
  },
  {
    title: "Kong",
    matches: /^kong$/,
    trust: "add the proxy pods' addresses to `KONG_TRUSTED_IPS`",
    accept: "add `proxy_protocol` to `KONG_PROXY_LISTEN` and set `KONG_REAL_IP_HEADER=proxy_protocol`",
  },
];

const LABELS: readonly string[] = ["app.kubernetes.io/name", "app", "k8s-app", "istio"];

/** Infers the ingress controller behind a Service from its labels, selector and name; undefined if unknown. */
export function softwareOf({ name, labels, selector }: ServiceFacts): IngressSoftware | undefined {
  const values = [...LABELS.flatMap((label) => [labels[label] ?? [], selector[label] ?? []].flat()), name];
  return KNOWN.find(({ matches }) => values.some((value) => matches.test(value)));
}

/** How to make the ingress controller trust the proxies; general advice if the controller is unknown. */
export function trustCure(software: IngressSoftware | undefined): string {
  if (software !== undefined) return `${software.title}: ${software.trust}`;
  return (
    "configure the ingress controller to trust PROXY headers from the proxy pods' addresses " +
    "(ingress-nginx `proxy-real-ip-cidr`, Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`)"
  );
}

/** How to make the ingress controller accept a header. */
export function acceptCure(software: IngressSoftware | undefined): string {
  if (software !== undefined) return `${software.title}: ${software.accept}`;
  return "configure the ingress controller to accept PROXY headers";
}
