import type { CustomSource } from "#lib/config/schema.ts";
import type { PresetName } from "#lib/config/sources.ts";

/** A kind to read, as configured or ready-made. Paths are JSONPaths (RFC 9535) from the top of the object. */
export interface CustomKind {
  readonly group: string;
  /** The preferred first. */
  readonly versions: readonly string[];
  readonly resource: string;
  readonly hostnames: string;
  readonly syntax: CustomSource["syntax"];
  /** Paths to the class; the first that exists is used, else `className`. */
  readonly classes: readonly string[];
  readonly className: string | undefined;
  readonly addresses?: string | undefined;
  /** Selects a value once a controller has admitted the object. */
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

/** Kinds of well-known ingress controllers, for use in the configuration. */
export const PRESETS: Readonly<Record<PresetName, CustomKind>> = {
  "traefik-ingressroute": { ...TRAEFIK, resource: "ingressroutes" },
  "traefik-ingressroutetcp": { ...TRAEFIK, resource: "ingressroutetcps" },
  "istio-gateway": { ...ISTIO, resource: "gateways", hostnames: "$.spec.servers[*].hosts[*]", syntax: "istio-host" },
  // A VirtualService without a gateway, or with only `mesh`, is for requests from sidecars, whose names are not public.
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
  // The class is the name of the router, `default` in most clusters.
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

/** Converts a configured kind to the same form. */
export function customKind(source: CustomSource): CustomKind {
  const { version, class: classPath, ...rest } = source;
  return {
    ...rest,
    versions: [version],
    classes: classPath === undefined ? [] : [classPath],
    className: source.className,
  };
}
