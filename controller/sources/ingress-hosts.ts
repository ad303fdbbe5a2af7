import { ClaimList } from "./claim-list.ts";
import type { Kind, SourceDeps } from "./followed-kind.ts";
import { isIngressNginx, nginxNames } from "./ingress-nginx-names.ts";
import { KindsSource } from "./kinds-source.ts";
import { copied, ignoredBy, listOf, mapOf, originOf, type Raw, textOf, textsOf, withChoice } from "./raw-object.ts";
import type { RoutingHints, Source, View } from "./types.ts";

/** The API group of Ingresses and IngressClasses. */
const INGRESS_GROUP = "networking.k8s.io";

/** The predecessor of `spec.ingressClassName`; the field wins if both are set (Kubernetes 1.18 release notes). */
const OLD_CLASS_ANNOTATION = "kubernetes.io/ingress.class";

/** What is kept of an Ingress. */
export type IngressView = ReturnType<typeof viewIngress>;

/** Projects an Ingress (networking.k8s.io/v1). A field of another type counts as missing. */
export function viewIngress(raw: Raw) {
  const spec = mapOf(raw.spec);
  const annotations = mapOf(mapOf(raw.metadata).annotations);
  const rules = listOf(spec.rules).map((rule) => textOf(mapOf(rule).host) ?? "");
  const ofTls = listOf(spec.tls).flatMap((tls) => textsOf(mapOf(tls).hosts));
  // An empty host is a rule for all names.
  const hosts = [...new Set([...rules.filter((host) => host !== ""), ...ofTls])];
  const className = textOf(spec.ingressClassName) ?? textOf(annotations[OLD_CLASS_ANNOTATION]);
  return {
    ...originOf("Ingress", raw),
    className: className && copied(className),
    hosts,
    /** They count only if ingress-nginx serves the Ingress. */
    nginx: nginxNames(annotations, rules, hosts),
    /** IP addresses and host names, as written. */
    addresses: loadBalancerOf(raw).flatMap(({ ip, hostname }) => textOf(ip) ?? textOf(hostname) ?? []),
  };
}

/** The entries of `status.loadBalancer.ingress` of an Ingress or a Service. */
export function loadBalancerOf(raw: Raw): readonly Raw[] {
  return listOf(mapOf(mapOf(raw.status).loadBalancer).ingress).map(mapOf);
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
  const common = { from, created, hints: view.ignored ? ignoredBy(from.kind) : withChoice(hints, view) };
  const claims = view.hosts.map((hostname) => ({ hostname, ...common }));
  if (view.nginx.length === 0 || !isIngressNginx(className, controller)) return claims;
  // ingress-nginx gives a name that is also a host of another Ingress to that one. No check is needed here, because the
  // same target serves both (createServers). NGINX's own wildcards cover any number of labels (nginx.org, "Server
  // names").
  return [...claims, ...new ClaimList(view, { anyDepth: true }).addAll(view.nginx, common.hints).all];
}

/** Marks an IngressClass as the cluster's default. */
const DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class";

function viewClass(raw: Raw) {
  const { annotations } = mapOf(raw.metadata);
  return {
    ...originOf("IngressClass", raw),
    isDefault: mapOf(annotations)[DEFAULT_CLASS_ANNOTATION] === "true",
    controller: textOf(mapOf(raw.spec).controller),
  };
}

const INGRESSES: Kind<IngressView> = {
  prefix: "Ingress ",
  group: INGRESS_GROUP,
  resource: "ingresses",
  versions: ["v1"],
  builtIn: "Ingress",
  project(raw) {
    const view = viewIngress(raw);
    // Nothing is kept of an Ingress that claims nothing.
    return view.hosts.length + view.nginx.length > 0 ? view : undefined;
  },
  pick: (view, keeps) => ({ ...view, hosts: view.hosts.filter(keeps), nginx: view.nginx.filter(keeps) }),
};
const CLASSES: Kind<ClassView> = {
  prefix: "IngressClass ",
  group: INGRESS_GROUP,
  resource: "ingressclasses",
  versions: ["v1"],
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
