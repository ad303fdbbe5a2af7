import type { CustomSource } from "../../../config/schema.ts";
import type { PresetName } from "../../../config/sources.ts";

/** A kind to read, as configured or ready-made. Paths are JSONPaths (RFC 9535) from the top of the object. */
export interface CustomKind {
  readonly group: string;
  /** The preferred first. */
  readonly versions: readonly string[];
  readonly resource: string;
  readonly hostnames: string;
  readonly syntax: CustomSource["syntax"];
  /** Where the class may stand; the first that is there counts, else `className`. */
  readonly classes: readonly string[];
  readonly className: string | undefined;
  readonly addresses?: string | undefined;
  /** Leads to something once a controller has admitted the object. */
  readonly admitted?: string | undefined;
}

const OLD_CLASS = "$.metadata.annotations['kubernetes.io/ingress.class']";
const ISTIO = {
  group: "networking.istio.io",
  versions: ["v1", "v1beta1", "v1alpha3"],
  classes: [],
  className: "istio",
};
const TRAEFIK = {
  group: "traefik.io",
  versions: ["v1alpha1"],
  hostnames: "$.spec.routes[*].match",
  syntax: "traefik-rule",
  classes: [OLD_CLASS],
  className: "traefik",
} as const;

/** Kinds of well-known ingress controllers, ready to be named in the configuration. */
export const PRESETS: Readonly<Record<PresetName, CustomKind>> = {
  "traefik-ingressroute": { ...TRAEFIK, resource: "ingressroutes" },
  "traefik-ingressroutetcp": { ...TRAEFIK, resource: "ingressroutetcps" },
  "istio-gateway": { ...ISTIO, resource: "gateways", hostnames: "$.spec.servers[*].hosts[*]", syntax: "istio-host" },
  // One that names no gateway, or only `mesh`, is about the calls of sidecars, whose names are no public ones.
  "istio-virtualservice": {
    ...ISTIO,
    resource: "virtualservices",
    hostnames: "$[?@.gateways[?@ != 'mesh']].hosts[*]",
    syntax: "name",
  },
  "contour-httpproxy": {
    group: "projectcontour.io",
    versions: ["v1"],
    resource: "httpproxies",
    hostnames: "$.spec.virtualhost.fqdn",
    syntax: "name",
    classes: ["$.spec.ingressClassName", "$.metadata.annotations['projectcontour.io/ingress.class']", OLD_CLASS],
    className: "contour",
    addresses: "$.status.loadBalancer.ingress[*]['ip','hostname']",
    admitted: "$[?@.currentStatus == 'valid']",
  },
  // The class is the router's name, `default` on most clusters.
  "openshift-route": {
    group: "route.openshift.io",
    versions: ["v1"],
    resource: "routes",
    hostnames: "$.spec.host",
    syntax: "name",
    classes: ["$.status.ingress[*].routerName"],
    className: "openshift",
    addresses: "$.status.ingress[*].routerCanonicalHostname",
    admitted: "$.status.ingress[*].conditions[?@.type == 'Admitted' && @.status == 'True']",
  },
};

/** A configured kind in the same form. */
export function customKind(source: CustomSource): CustomKind {
  const { version, class: classPath, ...rest } = source;
  return {
    ...rest,
    versions: [version],
    classes: classPath === undefined ? [] : [classPath],
    className: source.className,
  };
}
