import { BALANCER } from "#lib/kube/services.ts";
import { ClaimList, MAX_NAMES_PER_OBJECT } from "./claim-list.ts";
import { type Kind, KindsSource, namesOf, type SourceDeps } from "./kinds-source.ts";
import { isOf } from "./known-software.ts";
import { copied, ignoredBy, viewer, withChoice } from "./raw-object.ts";
import type { RoutingHints, Source, View } from "./types.ts";

/** The API group of Ingresses and IngressClasses. */
const INGRESS_GROUP = "networking.k8s.io";

/** The predecessor of `spec.ingressClassName`; the field wins if both are set (Kubernetes 1.18 release notes). */
const OLD_CLASS_ANNOTATION = "kubernetes.io/ingress.class";

/** What is kept of an Ingress. */
export type IngressView = ReturnType<typeof viewIngress>;

export const INGRESS_FIELDS = {
  spec: { ingressClassName: "text", rules: [{ host: "text" }], tls: [{ hosts: "texts" }] },
  status: { loadBalancer: BALANCER },
} as const;

/** Projects an Ingress (networking.k8s.io/v1). */
export const viewIngress = viewer("Ingress", INGRESS_FIELDS, (origin, { metadata, spec, status }) => {
  const annotations = metadata?.annotations ?? {};
  // An empty host is a rule for all names.
  const rules = (spec?.rules ?? []).map(({ host = "" }) => host);
  const ofTls = (spec?.tls ?? []).flatMap(({ hosts = [] }) => hosts);
  const hosts = [...new Set([...rules.filter((host) => host !== ""), ...ofTls])];
  const className = spec?.ingressClassName ?? (annotations[OLD_CLASS_ANNOTATION] || undefined);
  return {
    ...origin,
    className: className && copied(className),
    hosts,
    /** They count only if ingress-nginx serves the Ingress. */
    nginx: nginxNames(annotations, rules, hosts),
    /** IP addresses and host names, as written. */
    addresses: (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) => ip ?? hostname ?? []),
  };
});

const NGINX_PREFIX = "nginx.ingress.kubernetes.io/";

/**
 * The names that the annotations of an Ingress add, whichever controller serves the Ingress. A canary adds no server
 * (internal/ingress/controller, createServers). An alias may be a regular expression, which is no name. `ruleHosts` are
 * the hosts of its rules, with an empty text for a rule without a host; `hosts` are all hosts that it claims.
 */
function nginxNames(
  annotations: Readonly<Record<string, string>>,
  ruleHosts: readonly string[],
  hosts: readonly string[],
): readonly string[] {
  const alias = annotations[`${NGINX_PREFIX}server-alias`] ?? "";
  const redirects = isTrue(annotations[`${NGINX_PREFIX}from-to-www-redirect`]);
  if ((alias === "" && !redirects) || isTrue(annotations[`${NGINX_PREFIX}canary`])) return [];
  const aliases = ruleHosts.length === 0 ? [] : aliasesOf(alias);
  const redirected = redirects ? ruleHosts.filter((host) => host !== "" && !host.startsWith("*")).map(otherOf) : [];
  const names = new Set([...redirected, ...aliases]).difference(new Set(hosts));
  return [...names].slice(0, MAX_NAMES_PER_OBJECT + 1).map((name) => copied(name));
}

/** Splits aliases like internal/ingress/annotations/alias/main.go, Parse. */
function aliasesOf(text: string): string[] {
  return text.split(",").flatMap((alias) => alias.trim() || []);
}

/** The name that is redirected to a host (pkg/util/ingress/ingress.go, BuildRedirects). */
function otherOf(host: string): string {
  return host.startsWith("www.") ? host.slice("www.".length) : `www.${host}`;
}

/** Parses a boolean like Go's strconv.ParseBool. */
function isTrue(value = ""): boolean {
  return /^(?:1|[tT]|true|TRUE|True)$/.test(value);
}

type ClassView = ReturnType<typeof viewClass>;

/** The claims of an Ingress. `defaultClass` is used if it names no class. */
export function claimsOfIngress(
  view: IngressView,
  defaultClass: string | undefined,
  classes?: ReadonlyMap<string, ClassView>,
): View[] {
  const className = view.className ?? defaultClass;
  const { controller } = classes?.get(className ?? "") ?? {};
  const hints: RoutingHints = {
    className,
    ...(controller !== undefined && { controller }),
    addresses: view.addresses,
    admitted: view.addresses.length > 0,
  };
  const { ref: from, created } = view;
  const common = { from, created, hints: view.ignored ? ignoredBy(from) : withChoice(hints, view) };
  const claims = view.hosts.map((hostname) => ({ hostname, ...common }));
  if (view.nginx.length === 0 || !isOf("ingress-nginx", hints)) return claims;
  // ingress-nginx gives a name that is also a host of another Ingress to that one. No check is needed here, because the
  // same target serves both (createServers). NGINX's own wildcards cover any number of labels (nginx.org, "Server
  // names").
  return [...claims, ...new ClaimList(view, { anyDepth: true }).addAll(view.nginx, common.hints).all];
}

/** Marks an IngressClass as the cluster's default. */
const DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class";

export const INGRESS_CLASS_FIELDS = { spec: { controller: "text" } } as const;

const viewClass = viewer("IngressClass", INGRESS_CLASS_FIELDS, (origin, { metadata, spec }) => ({
  ...origin,
  isDefault: metadata?.annotations?.[DEFAULT_CLASS_ANNOTATION] === "true",
  controller: spec?.controller,
}));

const INGRESSES: Kind<IngressView> = {
  ...namesOf("Ingress", INGRESS_GROUP),
  builtIn: "Ingress",
  project(raw) {
    const view = viewIngress(raw);
    // Nothing is kept of an Ingress that claims nothing.
    return view.hosts.length + view.nginx.length > 0 ? view : undefined;
  },
  pick: (view, keeps) => ({ ...view, hosts: view.hosts.filter(keeps), nginx: view.nginx.filter(keeps) }),
};
const CLASSES: Kind<ClassView> = {
  ...namesOf("IngressClass", INGRESS_GROUP),
  builtIn: "IngressClass",
  isShared: true,
  project: viewClass,
};

/** Ingresses and IngressClasses of a cluster, through the API server. */
export function ingressSource(deps: SourceDeps): Source {
  return new KindsSource<IngressView | ClassView>(deps, {
    kinds: [INGRESSES, CLASSES],
    prepare(objects) {
      const classes = [...objects.values()].filter((view) => "isDefault" in view);
      const byName = new Map(classes.map((view) => [view.ref.name, view]));
      // Of several defaults, the first one by name does not depend on the order of events.
      const [defaultClass] = [...byName.keys()].filter((name) => byName.get(name)?.isDefault).sort();
      return (view) => ("hosts" in view ? claimsOfIngress(view, defaultClass, byName) : []);
    },
  });
}
