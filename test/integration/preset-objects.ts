import type { PresetName } from "#lib/config/sources.ts";

// The kinds of the presets as their projects define them, reduced to the fields that Switchback reads. The API server
// prunes what is not in the schema. Each kind has an object as its controller leaves it, with the names that it
// serves and its class.

type Schema = object;
const text: Schema = { type: "string" };
const list = (items: Schema): Schema => ({ type: "array", items });
const map = (properties: Readonly<Record<string, Schema>>): Schema => ({ type: "object", properties });

export interface PresetObject {
  readonly kind: string;
  readonly schema: Schema;
  readonly spec: object;
  /** Written by the status subresource, as its controller does. */
  readonly status?: object;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly names: readonly string[];
  readonly className: string;
}

const TRAEFIK = map({ spec: map({ routes: list(map({ match: text })) }) });
const INGRESS = list(map({ ip: text, hostname: text }));
const CONDITIONS = list(map({ type: text, status: text }));

export const PRESET_OBJECTS: Readonly<Record<PresetName, PresetObject>> = {
  "traefik-ingressroute": {
    kind: "IngressRoute",
    schema: TRAEFIK,
    spec: { routes: [{ match: "Host(`r1.example.com`) && PathPrefix(`/`) || Host(`r2.example.com`)" }] },
    names: ["r1.example.com", "r2.example.com"],
    className: "traefik",
  },
  "traefik-ingressroutetcp": {
    kind: "IngressRouteTCP",
    schema: TRAEFIK,
    spec: { routes: [{ match: "HostSNI(`tcp.example.com`)" }, { match: "HostSNI(`*`)" }] },
    annotations: { "kubernetes.io/ingress.class": "inner" },
    names: ["tcp.example.com"],
    className: "inner",
  },
  "istio-gateway": {
    kind: "Gateway",
    schema: map({
      spec: map({
        selector: { type: "object", additionalProperties: text },
        servers: list(map({ hosts: list(text), port: map({ number: { type: "integer" } }) })),
      }),
    }),
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
    schema: map({ spec: map({ hosts: list(text), gateways: list(text) }) }),
    spec: { hosts: ["vs.example.com"], gateways: ["mesh", "istio-gateway"] },
    names: ["vs.example.com"],
    className: "istio",
  },
  "contour-httpproxy": {
    kind: "HTTPProxy",
    schema: map({
      spec: map({ virtualhost: map({ fqdn: text }), ingressClassName: text }),
      status: map({ currentStatus: text, loadBalancer: map({ ingress: INGRESS }) }),
    }),
    spec: { virtualhost: { fqdn: "contour.example.com" }, ingressClassName: "contour" },
    status: { currentStatus: "valid", loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } },
    names: ["contour.example.com"],
    className: "contour",
  },
  "openshift-route": {
    kind: "Route",
    schema: map({
      spec: map({ host: text }),
      status: map({
        ingress: list(map({ routerName: text, routerCanonicalHostname: text, conditions: CONDITIONS })),
      }),
    }),
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
