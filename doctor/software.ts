import type { ServiceFacts } from "./facts.ts";

/** An ingress controller, told by the labels of its Service, and how it is made to trust whoever sends PROXY headers. */
export interface IngressSoftware {
  readonly title: string;
  /** Trusting the proxies' addresses as senders of a header. */
  readonly trust: string;
  /** Taking the header at all. */
  readonly accept: string;
}

interface Known extends IngressSoftware {
  readonly matches: RegExp;
}

/** Values of `app.kubernetes.io/name`, `app` and the like, as the charts and operators of these set them. */
const KNOWN: readonly Known[] = [
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
    trust: "Contour takes a header from anyone once `--use-proxy-protocol` is set",
    accept: "start Contour with `--use-proxy-protocol`",
  },
  {
    title: "Envoy Gateway",
    matches: /^envoy$/,
    trust: "Envoy takes a header from anyone once a ClientTrafficPolicy sets `enableProxyProtocol`",
    accept: "set `enableProxyProtocol: true` in a ClientTrafficPolicy of the Gateway",
  },
  {
    title: "Istio's ingress gateway",
    matches: /^istio-(ingressgateway|ingress)$/,
    trust: "Envoy takes a header from anyone once the gateway's `proxyProtocol` is set",
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

/** What serves behind a Service, as far as its labels tell; undefined where they tell nothing that is known here. */
export function softwareOf({ name, labels, selector }: ServiceFacts): IngressSoftware | undefined {
  const words = [...LABELS.flatMap((label) => [labels[label] ?? [], selector[label] ?? []].flat()), name];
  return KNOWN.find(({ matches }) => words.some((word) => matches.test(word)));
}

/** How the ingress controller is made to trust the proxies; in general words where it is not known which one it is. */
export function trustCure(software: IngressSoftware | undefined): string {
  if (software !== undefined) return `${software.title}: ${software.trust}`;
  return (
    "let the ingress controller trust the proxy pods' addresses as senders of PROXY headers " +
    "(ingress-nginx `proxy-real-ip-cidr`, Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`)"
  );
}

/** How the ingress controller is made to take a header. */
export function acceptCure(software: IngressSoftware | undefined): string {
  if (software !== undefined) return `${software.title}: ${software.accept}`;
  return "let the ingress controller take PROXY headers";
}
