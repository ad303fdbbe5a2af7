import type { CustomSource } from "#lib/config/schema.ts";
import type { PresetName } from "#lib/config/sources.ts";
import type { Kind } from "../followed-kind.ts";
import type { IstioPreset } from "../istio.ts";
import { type ClaimPaths, type CustomReader, customReader, routeClaims } from "./claims.ts";

/** A kind to read, and how its objects become claims. */
export interface ClaimingKind extends Pick<Kind, "group" | "versions" | "resource" | "builtIn"> {
  readonly read: CustomReader;
}

const OLD_CLASS = "$.metadata.annotations['kubernetes.io/ingress.class']";
const TRAEFIK = {
  group: "traefik.io",
  versions: ["v1alpha1"],
  hostnames: "$.spec.routes[*].match",
  syntax: "traefik-rule",
  // Traefik 3.7, pkg/provider/kubernetes/crd/kubernetes.go, getIngressClassName: the field wins.
  classes: ["$.spec.ingressClassName", OLD_CLASS],
  className: "traefik",
  controller: "traefik.io/ingress-controller",
} as const;

/** Kinds of well-known ingress controllers, for use in the configuration. Istio's kinds have a separate source. */
export const PRESETS: Readonly<Record<Exclude<PresetName, IstioPreset>, ClaimingKind>> = {
  "traefik-ingressroute": byPaths({ ...TRAEFIK, resource: "ingressroutes" }),
  "traefik-ingressroutetcp": byPaths({ ...TRAEFIK, resource: "ingressroutetcps" }),
  "contour-httpproxy": byPaths({
    group: "projectcontour.io",
    versions: ["v1"],
    resource: "httpproxies",
    hostnames: "$.spec.virtualhost.fqdn",
    syntax: "name",
    // Contour, internal/ingressclass and internal/annotation: an annotation wins over the field.
    classes: ["$.metadata.annotations['projectcontour.io/ingress.class']", OLD_CLASS, "$.spec.ingressClassName"],
    className: "contour",
    controller: "projectcontour.io/ingress-controller",
    addresses: "$.status.loadBalancer.ingress[*]['ip','hostname']",
    admitted: "$[?@.currentStatus == 'valid']",
    // If several HTTPProxies have one name, those that Contour does not serve are not valid.
    mustBeAdmitted: true,
  }),
  "openshift-route": { group: "route.openshift.io", versions: ["v1"], resource: "routes", read: routeClaims },
};

/** Converts a configured kind to the same form. */
export function customKind({ version, class: path, ...rest }: CustomSource): ClaimingKind {
  return byPaths({ ...rest, versions: [version], classes: path === undefined ? [] : [path] });
}

function byPaths({ group, versions, resource, ...paths }: ClaimPaths & Omit<ClaimingKind, "read">): ClaimingKind {
  return { group, versions, resource, read: customReader(paths) };
}
