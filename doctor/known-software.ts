/** An ingress controller that the labels of its Service identify, and its settings for PROXY headers. */
export interface IngressSoftware {
  readonly title: string;
  /** How to make it trust headers from the proxies' addresses. */
  readonly trust: string;
  /** How to make it accept headers. */
  readonly accept: string;
  /** The versions of the PROXY protocol that it accepts; default: versions 1 and 2. */
  readonly versions?: string;
  /** How to make it accept connections without a header too, if it can. Pods then need no relay. */
  readonly optional?: string;
  /** Where these settings are documented. */
  readonly source: string;
}

interface KnownSoftware extends IngressSoftware {
  /** Names of its Service, and values of the labels that charts and operators set on all their Services. */
  readonly names?: RegExp;
  /** Labels that only this software uses, or whose value is ambiguous under another key. */
  readonly labels?: Readonly<Record<string, RegExp>>;
}

const MANAGED_BY = "app.kubernetes.io/managed-by";
const CLASS = "gateway.networking.k8s.io/gateway-class-name";
export const ANY = /^/;

/** Ingress controllers and Gateway API implementations. The first match wins. */
export const KNOWN_SOFTWARE: readonly KnownSoftware[] = [
  {
    title: "IBM Cloud's ALB",
    names: /^(public|private)-cr[a-z0-9]+-alb\d+$/,
    trust: "run `ibmcloud ks ingress lb proxy-protocol enable --cluster CLUSTER --cidr <addresses of the proxy pods>`",
    accept: "run `ibmcloud ks ingress lb proxy-protocol enable --cluster CLUSTER`",
    source: "https://cloud.ibm.com/docs/containers?topic=containers-managed-ingress-setup",
  },
  {
    // Before ingress-nginx: its Service is called `nginx-ingress-controller` in a release `nginx-ingress`.
    title: "F5 NGINX Ingress Controller",
    names: /^nginx-ingress$/,
    trust: "add the proxy pods' addresses to `set-real-ip-from` in the controller's ConfigMap",
    accept: 'set `proxy-protocol: "True"` and `real-ip-header: proxy_protocol` in the controller\'s ConfigMap',
    source:
      "https://docs.nginx.com/nginx-ingress-controller/configuration/global-configuration/configmap-resource/#proxy-protocol",
  },
  {
    title: "ingress-nginx",
    names: /^(ingress-nginx|rke2-ingress-nginx|nginx-ingress-controller)$/,
    trust: "add the proxy pods' addresses to `proxy-real-ip-cidr` in the controller's ConfigMap",
    accept: 'set `use-proxy-protocol: "true"` in the controller\'s ConfigMap',
    source: "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/configmap/#use-proxy-protocol",
  },
  {
    title: "NGINX Gateway Fabric",
    labels: { [MANAGED_BY]: /^ngf-nginx$/ },
    trust: "add the proxy pods' addresses to `spec.rewriteClientIP.trustedAddresses` of its NginxProxy",
    accept: "set `spec.rewriteClientIP.mode: ProxyProtocol` in its NginxProxy",
    source: "https://docs.nginx.com/nginx-gateway-fabric/reference/api/",
  },
  {
    title: "Traefik",
    names: /^traefik$/,
    trust: "add the proxy pods' addresses to `entryPoints.<name>.proxyProtocol.trustedIPs`",
    accept: "set `entryPoints.<name>.proxyProtocol.trustedIPs` to the addresses that send headers",
    optional: "it accepts connections with and without a header, so pods reach it without a change",
    source: "https://doc.traefik.io/traefik/routing/entrypoints/#proxyprotocol",
  },
  {
    title: "HAProxy Technologies' ingress controller",
    names: /^(kubernetes-ingress|haproxy-kubernetes-ingress)$/,
    labels: { run: /^haproxy-ingress$/ },
    trust: "add the proxy pods' addresses to `proxy-protocol` in the controller's ConfigMap",
    accept: "set `proxy-protocol` in the controller's ConfigMap to the addresses that send headers",
    source: "https://www.haproxy.com/documentation/kubernetes-ingress/ingress-configuration-reference/configmap/",
  },
  {
    title: "HAProxy Ingress",
    names: /^haproxy-ingress(-controller)?$/,
    trust: "it accepts a header from any address once `use-proxy-protocol` is set",
    accept: 'set `use-proxy-protocol: "true"` in the controller\'s ConfigMap',
    source: "https://haproxy-ingress.github.io/docs/configuration/keys/#proxy-protocol",
  },
  {
    // Its manifests call the Service of its Envoy `envoy`.
    title: "Contour",
    names: /^contour$/,
    labels: { app: /^envoy$/, "projectcontour.io/owning-gateway-name": ANY },
    trust: "Contour accepts a header from any address once `--use-proxy-protocol` is set",
    accept: "start Contour with `--use-proxy-protocol`",
    source: "https://projectcontour.io/docs/main/configuration/",
  },
  {
    title: "Envoy Gateway",
    labels: { [MANAGED_BY]: /^envoy-gateway$/, "gateway.envoyproxy.io/owning-gateway-name": ANY },
    trust: "Envoy accepts a header from any address once a ClientTrafficPolicy sets `proxyProtocol`",
    accept: "set `proxyProtocol: {}` in a ClientTrafficPolicy of the Gateway (`enableProxyProtocol: true` before 1.5)",
    optional: "set `proxyProtocol: { optional: true }` in the ClientTrafficPolicy (1.5 and newer)",
    source: "https://gateway.envoyproxy.io/docs/api/extension_types/#clienttrafficpolicyspec",
  },
  {
    title: "Istio's ingress gateway",
    names: /^istio-(ingressgateway|ingress)$/,
    labels: { "gateway.istio.io/managed": /^istio\.io-gateway-controller$/, [CLASS]: /^istio$/ },
    trust: "Envoy accepts a header from any address once the gateway's `proxyProtocol` is set",
    accept: "set `gatewayTopology: { proxyProtocol: {} }` in the gateway's proxy.istio.io/config annotation",
    source: "https://istio.io/latest/docs/ops/configuration/traffic-management/network-topologies/#proxy-protocol",
  },
  {
    title: "agentgateway",
    labels: { [MANAGED_BY]: /^agentgateway$/, [CLASS]: /^agentgateway$/ },
    trust: "it accepts a header from any address once its policy sets `proxyProtocol`",
    accept: "set `proxyProtocol` in a policy of the Gateway",
    versions: "version 2 unless its policy names another",
    optional: "set `proxyProtocol` to mode Optional in the policy",
    source: "https://agentgateway.dev/docs/",
  },
  {
    title: "kgateway",
    labels: { [MANAGED_BY]: /^kgateway$/, [CLASS]: /^kgateway$/ },
    trust: "Envoy accepts a header from any address once a ListenerPolicy sets `proxyProtocol`",
    accept: "set `spec.default.proxyProtocol: {}` in a ListenerPolicy of the Gateway",
    source: "https://kgateway.dev/docs/envoy/latest/traffic-management/proxy-protocol/",
  },
  {
    title: "Cilium",
    names: /^cilium-ingress$/,
    labels: { "io.cilium.gateway/owning-gateway": ANY, "cilium.io/ingress": /^true$/ },
    trust: "it accepts a header from any address, and requires one, once `enableProxyProtocol` is set",
    accept: "set `gatewayAPI.enableProxyProtocol` or `ingressController.enableProxyProtocol` in Cilium's Helm values",
    source: "https://docs.cilium.io/en/stable/helm-reference/",
  },
  {
    title: "Kong",
    names: /^kong$/,
    trust: "add the proxy pods' addresses to `KONG_TRUSTED_IPS`",
    accept: "add `proxy_protocol` to `KONG_PROXY_LISTEN` and set `KONG_REAL_IP_HEADER=proxy_protocol`",
    source: "https://developer.konghq.com/gateway/configuration/#proxy-listen",
  },
  {
    title: "Emissary-ingress",
    names: /^(emissary-ingress|edge-stack|ambassador)$/,
    trust: "it accepts a header from any address on a Listener whose `protocolStack` begins with PROXY",
    accept: "begin the Listener's `protocolStack` with PROXY",
    source: "https://emissary-ingress.dev/docs/3.10/topics/running/listener/",
  },
  {
    title: "Apache APISIX",
    names: /^apisix(-gateway)?$/,
    trust: "it accepts a header from any address on its ports for the PROXY protocol",
    accept:
      "set `apisix.proxy_protocol.listen_http_port` and `listen_https_port` (9181, 9182) " +
      "in its configuration, and let its Service lead there",
    source: "https://github.com/apache/apisix/blob/master/conf/config.yaml.example",
  },
  {
    title: "Pomerium",
    names: /^pomerium(-proxy)?$/,
    trust: "Envoy accepts a header from any address once `useProxyProtocol` is set",
    accept: "set `useProxyProtocol: true` in the Pomerium resource",
    source: "https://www.pomerium.com/docs/reference/use-proxy-protocol",
  },
];
