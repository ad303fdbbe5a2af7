import type { RoutingHints } from "../sources/types.ts";

/** An ingress controller or Gateway API implementation: how it is recognized, and its settings for PROXY headers. */
export interface IngressSoftware {
  readonly title: string;
  /** How to make it trust headers from the proxies' addresses. Default: it believes every sender. */
  readonly trust?: string;
  /** How to make it accept headers. */
  readonly accept: string;
  /** The versions of the PROXY protocol that it accepts; default: versions 1 and 2. */
  readonly versions?: string;
  /** How to make it accept connections without a header as well, if it can. Then pods need no relay. */
  readonly optional?: string;
  /** Where these settings are documented. */
  readonly source: string;
  /** The controllers of its classes, from its own manifests. A `*` at the end is the word of an installation. */
  readonly controllers?: readonly string[];
  /**
   * Controllers that distinguish one of several installations. The labels of a Service do not say which installation
   * it belongs to, so they are no evidence alone.
   */
  readonly ownControllers?: readonly string[];
  /** Whether it makes one Service per Gateway, which serves no other Gateway. */
  readonly servicePerGateway?: true;
  /** The class that it serves by default, even without an IngressClass. */
  readonly className?: string;
  /** Names of its Service, and values of the labels that charts and operators set on all their Services. */
  readonly names?: RegExp;
  /** Labels that only this software uses, or whose value would be ambiguous under another key. */
  readonly labels?: Readonly<Record<string, RegExp>>;
}

const MANAGED_BY = "app.kubernetes.io/managed-by";
const CLASS = "gateway.networking.k8s.io/gateway-class-name";
const ANY = /^/;

/** Ingress controllers and Gateway API implementations. The first match wins. */
export const KNOWN_SOFTWARE: readonly IngressSoftware[] = [
  {
    title: "IBM Cloud's ALB",
    names: /^(public|private)-cr[a-z0-9]+-alb\d+$/,
    trust: "run `ibmcloud ks ingress lb proxy-protocol enable --cluster CLUSTER --cidr <addresses of the proxy pods>`",
    accept: "run `ibmcloud ks ingress lb proxy-protocol enable --cluster CLUSTER`",
    source: "https://cloud.ibm.com/docs/containers?topic=containers-managed-ingress-setup",
  },
  {
    // Must precede ingress-nginx: in a release `nginx-ingress`, its Service is called `nginx-ingress-controller`.
    title: "F5 NGINX Ingress Controller",
    controllers: ["nginx.org/ingress-controller"],
    className: "nginx",
    names: /^nginx-ingress$/,
    trust: "add the proxy pods' addresses to `set-real-ip-from` in the controller's ConfigMap",
    accept: 'set `proxy-protocol: "True"` and `real-ip-header: proxy_protocol` in the controller\'s ConfigMap',
    source:
      "https://docs.nginx.com/nginx-ingress-controller/configuration/global-configuration/configmap-resource/#proxy-protocol",
  },
  {
    title: "ingress-nginx",
    controllers: ["k8s.io/ingress-nginx"],
    // The one of its documentation (docs/user-guide/multiple-ingress.md), those with its name as their beginning, which
    // users and Cozystack choose (packages/extra/ingress), and those of AKS (Azure/aks-app-routing-operator,
    // pkg/controller/nginxingress/nginx_ingress_controller.go, `ToNginxIngressConfig`).
    ownControllers: [
      "k8s.io/ingress-nginx-*",
      "k8s.io/internal-ingress-nginx",
      "webapprouting.kubernetes.azure.com/nginx",
      "approuting.kubernetes.azure.com/*",
    ],
    className: "nginx",
    names: /^(ingress-nginx|rke2-ingress-nginx|nginx-ingress-controller)$/,
    trust: "add the proxy pods' addresses to `proxy-real-ip-cidr` in the controller's ConfigMap",
    accept: 'set `use-proxy-protocol: "true"` in the controller\'s ConfigMap',
    source: "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/configmap/#use-proxy-protocol",
  },
  {
    title: "NGINX Gateway Fabric",
    servicePerGateway: true,
    // nginx/nginx-gateway-fabric, the GatewayClass of its chart.
    controllers: ["gateway.nginx.org/nginx-gateway-controller"],
    labels: { [MANAGED_BY]: /^ngf-nginx$/ },
    trust: "add the proxy pods' addresses to `spec.rewriteClientIP.trustedAddresses` of its NginxProxy",
    accept: "set `spec.rewriteClientIP.mode: ProxyProtocol` in its NginxProxy",
    source: "https://docs.nginx.com/nginx-gateway-fabric/reference/api/",
  },
  {
    title: "Traefik",
    // Source of the second controller: traefik/traefik, pkg/provider/kubernetes/gateway.
    controllers: ["traefik.io/ingress-controller", "traefik.io/gateway-controller"],
    className: "traefik",
    names: /^traefik$/,
    trust: "add the proxy pods' addresses to `entryPoints.<name>.proxyProtocol.trustedIPs`",
    accept: "set `entryPoints.<name>.proxyProtocol.trustedIPs` to the addresses that send headers",
    source: "https://doc.traefik.io/traefik/routing/entrypoints/#proxyprotocol",
  },
  {
    title: "HAProxy Technologies' ingress controller",
    // Source: haproxytech/kubernetes-ingress, documentation on IngressClass, "Ingress eligibility rules". Source of
    // the last controller: haproxytech/helm-charts, kubernetes-ingress/README.md, `gatewayControllerName`.
    controllers: [
      "haproxy.org/ingress-controller",
      "haproxy.org/ingress-controller/*",
      "haproxy.org/gateway-controller",
    ],
    className: "haproxy",
    names: /^(kubernetes-ingress|haproxy-kubernetes-ingress)$/,
    labels: { run: /^haproxy-ingress$/ },
    trust: "add the proxy pods' addresses to `proxy-protocol` in the controller's ConfigMap",
    accept: "set `proxy-protocol` in the controller's ConfigMap to the addresses that send headers",
    source: "https://www.haproxy.com/documentation/kubernetes-ingress/ingress-configuration-reference/configmap/",
  },
  {
    title: "HAProxy Ingress",
    // jcmoraisjr/haproxy-ingress, docs/content/en/docs/configuration/command-line.md, `--controller-class`.
    controllers: ["haproxy-ingress.github.io/controller", "haproxy-ingress.github.io/controller/*"],
    className: "haproxy",
    names: /^haproxy-ingress(-controller)?$/,
    accept: 'set `use-proxy-protocol: "true"` in the controller\'s ConfigMap',
    source: "https://haproxy-ingress.github.io/docs/configuration/keys/#proxy-protocol",
  },
  {
    // Its manifests name the Service of its Envoy `envoy`.
    title: "Contour",
    // Source of the second controller: projectcontour/contour, examples/gateway.
    controllers: ["projectcontour.io/ingress-controller", "projectcontour.io/gateway-controller"],
    className: "contour",
    names: /^contour$/,
    labels: { app: /^envoy$/, "projectcontour.io/owning-gateway-name": ANY },
    accept: "start Contour with `--use-proxy-protocol`",
    source: "https://projectcontour.io/docs/main/configuration/",
  },
  {
    title: "Envoy Gateway",
    servicePerGateway: true,
    // envoyproxy/gateway, api/v1alpha1, `GatewayControllerName`.
    controllers: ["gateway.envoyproxy.io/gatewayclass-controller"],
    labels: { [MANAGED_BY]: /^envoy-gateway$/, "gateway.envoyproxy.io/owning-gateway-name": ANY },
    accept: "set `proxyProtocol: {}` in a ClientTrafficPolicy of the Gateway (`enableProxyProtocol: true` before 1.5)",
    optional: "set `proxyProtocol: { optional: true }` in the ClientTrafficPolicy (1.5 and newer)",
    source: "https://gateway.envoyproxy.io/docs/api/extension_types/#clienttrafficpolicyspec",
  },
  {
    title: "Istio's ingress gateway",
    servicePerGateway: true,
    // Source of the second controller: istio/istio, pkg/config/constants/constants.go, `ManagedGatewayController`.
    controllers: ["istio.io/ingress-controller", "istio.io/gateway-controller"],
    className: "istio",
    names: /^istio-(ingressgateway|ingress)$/,
    labels: { "gateway.istio.io/managed": /^istio\.io-gateway-controller$/, [CLASS]: /^istio$/ },
    accept: "set `gatewayTopology: { proxyProtocol: {} }` in the gateway's proxy.istio.io/config annotation",
    source: "https://istio.io/latest/docs/ops/configuration/traffic-management/network-topologies/#proxy-protocol",
  },
  {
    title: "agentgateway",
    servicePerGateway: true,
    // Source of the first: agentgateway/agentgateway, controller/install/helm/agentgateway/values.yaml. The second is
    // of kgateway 2.1: kgateway-dev/kgateway, pkg/kgateway/wellknown/controller.go, `LegacyAgwControllerName`.
    controllers: ["agentgateway.dev/agentgateway", "kgateway.dev/agentgateway"],
    labels: { [MANAGED_BY]: /^agentgateway$/, [CLASS]: /^agentgateway$/ },
    accept: "set `proxyProtocol` in a policy of the Gateway",
    versions: "version 2 unless its policy names another",
    optional: "set `proxyProtocol` to mode Optional in the policy",
    source: "https://agentgateway.dev/docs/",
  },
  {
    title: "kgateway",
    servicePerGateway: true,
    // kgateway-dev/kgateway, pkg/wellknown, `DefaultGatewayControllerName`.
    controllers: ["kgateway.dev/kgateway"],
    labels: { [MANAGED_BY]: /^kgateway$/, [CLASS]: /^kgateway$/ },
    accept: "set `spec.default.proxyProtocol: {}` in a ListenerPolicy of the Gateway",
    source: "https://kgateway.dev/docs/envoy/latest/traffic-management/proxy-protocol/",
  },
  {
    title: "Cilium",
    servicePerGateway: true,
    // Source of the second controller: cilium/cilium, operator/pkg/gateway-api, `controllerName`.
    controllers: ["cilium.io/ingress-controller", "io.cilium/gateway-controller"],
    className: "cilium",
    names: /^cilium-ingress$/,
    labels: { "io.cilium.gateway/owning-gateway": ANY, "cilium.io/ingress": /^true$/ },
    accept: "set `gatewayAPI.enableProxyProtocol` or `ingressController.enableProxyProtocol` in Cilium's Helm values",
    source: "https://docs.cilium.io/en/stable/helm-reference/",
  },
  {
    title: "Kong",
    // Source of the second controller: Kong/kubernetes-ingress-controller, `--gateway-api-controller-name`.
    controllers: ["ingress-controllers.konghq.com/kong", "konghq.com/kic-gateway-controller"],
    className: "kong",
    names: /^kong$/,
    trust: "add the proxy pods' addresses to `KONG_TRUSTED_IPS`",
    accept: "add `proxy_protocol` to `KONG_PROXY_LISTEN` and set `KONG_REAL_IP_HEADER=proxy_protocol`",
    source: "https://developer.konghq.com/gateway/configuration/#proxy-listen",
  },
  {
    title: "Emissary-ingress",
    controllers: ["getambassador.io/ingress-controller"],
    className: "ambassador",
    names: /^(emissary-ingress|edge-stack|ambassador)$/,
    accept: "begin the Listener's `protocolStack` with PROXY",
    source: "https://emissary-ingress.dev/docs/3.10/topics/running/listener/",
  },
  {
    title: "Apache APISIX",
    controllers: ["apisix.apache.org/apisix-ingress-controller"],
    className: "apisix",
    names: /^apisix(-gateway)?$/,
    accept:
      "set `apisix.proxy_protocol.listen_http_port` and `listen_https_port` (9181, 9182) " +
      "in its configuration, and let its Service lead there",
    source: "https://github.com/apache/apisix/blob/master/conf/config.yaml.example",
  },
  {
    title: "Pomerium",
    controllers: ["pomerium.io/ingress-controller"],
    className: "pomerium",
    names: /^pomerium(-proxy)?$/,
    accept: "set `useProxyProtocol: true` in the Pomerium resource",
    source: "https://www.pomerium.com/docs/reference/use-proxy-protocol",
  },
];

/**
 * Controllers whose load balancers lead to no Service of the cluster, but to pods, to node ports, or out of a tunnel.
 * They are identified by the controllers of IngressClasses and GatewayClasses, and by classes that need no such
 * object.
 */
const OUTSIDE = {
  controllers: new Set([
    "azure/application-gateway",
    "application-networking.k8s.aws/gateway-api-controller",
    "eks.amazonaws.com/alb",
    "ingress.k8s.alibabacloud/alb",
    "ingress.k8s.aws/alb",
    "k8s.ngrok.com/ingress-controller",
    // GKE's GatewayClasses: cloud.google.com/kubernetes-engine/docs/concepts/gateway-api.
    "networking.gke.io/gateway",
    "oci.oraclecloud.com/native-ingress-controller",
    "strrl.dev/cloudflare-tunnel-ingress-controller",
    "tailscale.com/ts-ingress",
  ]),
  // GKE's classes have no IngressClass: kubernetes/ingress-gce, pkg/annotations/ingress.go.
  classes: new Set(["alb", "azure/application-gateway", "gce", "gce-internal", "gce-multi-cluster", "tailscale"]),
};

/** Labels that charts and operators set to the name of the software behind a Service. */
const LABELS: readonly string[] = ["app.kubernetes.io/name", "app", "k8s-app", "istio"];

interface NamedService {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly selector?: Readonly<Record<string, string>> | null | undefined;
  /** Default: its name does not count. */
  readonly name?: string;
}

/** Infers the ingress controller behind a Service from its labels, its selector and its name; undefined if unknown. */
export function softwareOf({ labels, selector, name }: NamedService): IngressSoftware | undefined {
  const valuesOf = (label: string) => [labels?.[label] ?? [], selector?.[label] ?? []].flat();
  const matches = (values: readonly string[], pattern: RegExp) => values.some((value) => pattern.test(value));
  const names = [...LABELS.flatMap(valuesOf), name ?? []].flat();
  return KNOWN_SOFTWARE.find(
    (known) =>
      (known.names !== undefined && matches(names, known.names)) ||
      Object.entries(known.labels ?? {}).some(([label, pattern]) => matches(valuesOf(label), pattern)),
  );
}

/** All patterns of names and values. */
const NAME_OR_VALUE = new RegExp(
  KNOWN_SOFTWARE.flatMap(({ names = ANY, labels = {} }) => [names, ...Object.values(labels)])
    .flatMap((pattern) => (pattern === ANY ? [] : pattern.source))
    .join("|"),
);

/** Whether a Service of a known ingress controller has this name, or a label has this value. */
export function isSoftwareName(word: string): boolean {
  return NAME_OR_VALUE.test(word) || NAME_OR_VALUE.test(word.replace(/-controller$/, ""));
}

/** The classes, the controllers and the keys of labels by which software is recognized. */
export const SOFTWARE_WORDS: readonly string[] = [
  ...KNOWN_SOFTWARE.flatMap(({ className = "", controllers = [], ownControllers = [], labels = {} }) => [
    className,
    ...controllers,
    ...ownControllers,
    ...Object.keys(labels),
  ]),
  ...OUTSIDE.controllers,
  ...OUTSIDE.classes,
  ...LABELS,
];

type NamedController = Pick<RoutingHints, "className" | "isGatewayClass" | "controller">;

/**
 * Titles of the known software that an object names; two projects may serve one class. `outside`: the object leads to
 * no Service of the cluster. Undefined: the object names no known software.
 */
export function softwareNamed({
  className = "",
  isGatewayClass,
  controller,
}: NamedController): ReadonlySet<string> | "outside" | undefined {
  if (controller !== undefined)
    return OUTSIDE.controllers.has(controller) ? "outside" : titlesOf((known) => known.controllers, controller);
  if (isGatewayClass) return undefined;
  return OUTSIDE.classes.has(className) ? "outside" : titlesOf((known) => [known.className ?? []].flat(), className);
}

/** Like `softwareNamed`, but by a controller of an installation's own name. */
export function softwareOfInstallation({ controller = "" }: NamedController): ReadonlySet<string> | undefined {
  return titlesOf(({ ownControllers }) => ownControllers, controller);
}

/** Whether an object names this software, by a controller of any installation, or by its class. */
export function isOf(title: string, hints: NamedController): boolean {
  const named = softwareNamed(hints);
  return (named !== "outside" && named?.has(title)) || softwareOfInstallation(hints)?.has(title) === true;
}

function titlesOf(
  namesOf: (known: IngressSoftware) => readonly string[] | undefined,
  name: string,
): ReadonlySet<string> | undefined {
  const named = KNOWN_SOFTWARE.filter((known) => namesOf(known)?.some((one) => isController(one, name)) === true);
  return named.length === 0 ? undefined : new Set(named.map(({ title }) => title));
}

/** Whether a controller has a known name. A `*` at its end means one or more characters, but no slash. */
function isController(known: string, controller: string): boolean {
  const [beginning = "", end] = known.split("*");
  if (end === undefined) return controller === known;
  return controller.startsWith(beginning) && /^[^/]+$/.test(controller.slice(beginning.length));
}
