import type { PresetName } from "#lib/config/sources.ts";

// An object of each kind of the presets as its controller leaves it, reduced to the fields that Switchback reads, with
// the names that it serves and its class.

export interface PresetObject {
  readonly kind: string;
  readonly spec: object;
  /** As its controller writes it. */
  readonly status?: object;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly names: readonly string[];
  readonly className: string;
}

export const PRESET_OBJECTS: Readonly<Record<PresetName, PresetObject>> = {
  "traefik-ingressroute": {
    kind: "IngressRoute",
    spec: { routes: [{ match: "Host(`r1.example.com`) && PathPrefix(`/`) || Host(`r2.example.com`)" }] },
    names: ["r1.example.com", "r2.example.com"],
    className: "traefik",
  },
  "traefik-ingressroutetcp": {
    kind: "IngressRouteTCP",
    spec: { routes: [{ match: "HostSNI(`tcp.example.com`)" }, { match: "HostSNI(`*`)" }] },
    annotations: { "kubernetes.io/ingress.class": "inner" },
    names: ["tcp.example.com"],
    className: "inner",
  },
  "istio-gateway": {
    kind: "Gateway",
    // The integration test's Service for the class has this selector.
    spec: {
      selector: { istio: "ingressgateway" },
      servers: [
        { port: { number: 443 }, hosts: ["gw.example.com", "shop/gw2.example.com"] },
        { port: { number: 80 }, hosts: ["*"] },
      ],
    },
    names: ["gw.example.com", "gw2.example.com"],
    className: "istio",
  },
  "istio-virtualservice": {
    kind: "VirtualService",
    spec: { hosts: ["vs.example.com"], gateways: ["mesh", "istio-gateway"] },
    names: ["vs.example.com"],
    className: "istio",
  },
  "contour-httpproxy": {
    kind: "HTTPProxy",
    spec: { virtualhost: { fqdn: "contour.example.com" }, ingressClassName: "contour" },
    status: { currentStatus: "valid", loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } },
    names: ["contour.example.com"],
    className: "contour",
  },
  "openshift-route": {
    kind: "Route",
    spec: { host: "route.example.com" },
    status: {
      ingress: [
        {
          routerName: "default",
          routerCanonicalHostname: "router-default.apps.example.com",
          conditions: [{ type: "Admitted", status: "True" }],
        },
      ],
    },
    names: ["route.example.com"],
    className: "default",
  },
};
