import type { Config } from "#lib/config/schema.ts";
import type { PresetName } from "#lib/config/sources.ts";
import { type ClaimPaths, type CustomReader, customReader, routeClaims, serviceClaims } from "./custom/claims.ts";
import { type IstioPreset, isIstio } from "./istio.ts";
import { type Kept, type Kind, KindsSource, type SourceDeps } from "./kinds-source.ts";
import type { Source, View } from "./types.ts";

/** What is kept of an object: its claims. */
interface Claiming extends Kept {
  readonly views: readonly View[];
}
type Names = Pick<Kind, "group" | "versions" | "resource" | "builtIn">;

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
export const PRESETS: Readonly<Record<Exclude<PresetName, IstioPreset>, Kind<Claiming>>> = {
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
  "openshift-route": kindOf({ group: "route.openshift.io", versions: ["v1"], resource: "routes" }, routeClaims),
};

/**
 * The source of the configured kinds: presets except Istio's, custom kinds, and Services with the external-dns
 * annotation. Undefined: none is configured.
 */
export function customSource(deps: SourceDeps & { readonly config: Config["sources"] }): Source | undefined {
  const { presets, custom, services } = deps.config;
  const kinds = presets.flatMap((name) => (isIstio(name) ? [] : PRESETS[name]));
  for (const { version, ...rest } of custom) kinds.push(byPaths({ ...rest, versions: [version] }));
  if (services.enabled) {
    const names = { group: "", versions: ["v1"], resource: "services", builtIn: "Service" };
    kinds.push(kindOf(names, (raw) => serviceClaims(raw, services.annotationPrefixes)));
  }
  if (kinds.length === 0) return undefined;
  // Several kinds may have one name, so the prefix is the kind's place.
  const placed = kinds.map((kind, place) => ({ ...kind, prefix: `${place} ` }));
  return new KindsSource<Claiming>(deps, { kinds: placed, prepare: () => (kept) => kept.views });
}

function byPaths({ group, versions, resource, ...paths }: ClaimPaths & Names): Kind<Claiming> {
  return kindOf({ group, versions, resource }, customReader(paths));
}

/** Of an object without claims nothing is kept. */
function kindOf(names: Names, read: CustomReader): Kind<Claiming> {
  return {
    ...names,
    prefix: "",
    named: true,
    project(raw, kind) {
      const views = read(raw, kind);
      return views[0] && { ref: views[0].from, created: views[0].created, views };
    },
    pick: (kept, keeps) => ({ ...kept, views: kept.views.filter(({ hostname }) => keeps(hostname)) }),
  };
}
