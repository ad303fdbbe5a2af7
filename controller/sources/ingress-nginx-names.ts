import { MAX_NAMES_PER_OBJECT } from "./claim-list.ts";
import { copied, textOf } from "./raw-object.ts";

// The names that ingress-nginx serves for an Ingress in addition to its hosts. Other controllers ignore its
// annotations.

/** `spec.controller` of its IngressClasses, if nobody changes it (`--controller-class`). */
export const INGRESS_NGINX_CONTROLLER = "k8s.io/ingress-nginx";
/**
 * Values that distinguish several installations, in the form of `isController`: the one of its documentation
 * (docs/user-guide/multiple-ingress.md), those with its name as their beginning, which users and Cozystack choose
 * (packages/extra/ingress), and those of AKS' application routing (Azure/aks-app-routing-operator,
 * pkg/controller/nginxingress/nginx_ingress_controller.go, `ToNginxIngressConfig`).
 */
export const INGRESS_NGINX_OWN_CONTROLLERS: readonly string[] = [
  `${INGRESS_NGINX_CONTROLLER}-*`,
  "k8s.io/internal-ingress-nginx",
  "webapprouting.kubernetes.azure.com/nginx",
  "approuting.kubernetes.azure.com/*",
];
/** The class that it serves even without an IngressClass of this name (`--ingress-class`). */
export const INGRESS_NGINX_CLASS = "nginx";
const PREFIX = "nginx.ingress.kubernetes.io/";

/**
 * Whether ingress-nginx serves Ingresses of a class. `controller` is that of the IngressClass, if the class has one.
 */
export function isIngressNginx(className: string | undefined, controller: string | undefined): boolean {
  if (controller === undefined) return className === INGRESS_NGINX_CLASS;
  return [INGRESS_NGINX_CONTROLLER, ...INGRESS_NGINX_OWN_CONTROLLERS].some((known) => isController(known, controller));
}

/**
 * Whether a controller has a known name. A `*` at the end of the name means one or more characters, but no slash:
 * an installation appends its own word.
 */
export function isController(known: string, controller: string): boolean {
  if (!known.endsWith("*")) return controller === known;
  const beginning = known.slice(0, -1);
  return controller.startsWith(beginning) && /^[^/]+$/.test(controller.slice(beginning.length));
}

/**
 * The names that the annotations of an Ingress add, whichever controller serves the Ingress. A canary adds no server
 * (internal/ingress/controller, createServers). An alias may be a regular expression, which is no name. `ruleHosts` are
 * the hosts of its rules, with an empty text for a rule without a host; `hosts` are all hosts that it claims.
 */
export function nginxNames(
  annotations: Readonly<Record<string, unknown>>,
  ruleHosts: readonly string[],
  hosts: readonly string[],
): readonly string[] {
  const alias = textOf(annotations[`${PREFIX}server-alias`]);
  const redirects = isTrue(annotations[`${PREFIX}from-to-www-redirect`]);
  if ((alias === undefined && !redirects) || isTrue(annotations[`${PREFIX}canary`])) return [];
  const aliases = alias === undefined || ruleHosts.length === 0 ? [] : aliasesOf(alias);
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
function isTrue(value: unknown): boolean {
  return typeof value === "string" && /^(?:1|[tT]|true|TRUE|True)$/.test(value);
}
