import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { EXTERNAL_DNS_PREFIXES } from "#lib/config/defaults.ts";
import { type JsonPath, jsonPath } from "#lib/config/json-path.ts";
import type { CustomSource } from "#lib/config/schema.ts";
import { type RawService, readService } from "#lib/kube/services.ts";
import type { Read } from "#lib/kube/shapes.ts";
import { ClaimList, MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import {
  copied,
  ignoredBy,
  type ObjectOrigin,
  originOf,
  type Raw,
  readOrigin,
  viewer,
  withChoice,
} from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";

/** The paths to what a claim needs in the objects of a kind: JSONPaths (RFC 9535) from the root of the object. */
export interface ClaimPaths
  extends Pick<CustomSource, "hostnames" | "syntax" | "class" | "className" | "addresses" | "admitted"> {
  /** Several paths to the class. The first one that exists is used, else `className`. */
  readonly classes?: readonly string[];
  /** The controller that serves the kind, as an IngressClass names it. */
  readonly controller?: string;
  /** Whether an object needs admission for any name, whatever the policy says. */
  readonly mustBeAdmitted?: boolean;
}

/**
 * The hostname of a claim whose value is not a name, so that the status can report the claim. RFC 2606 reserves
 * `.invalid`.
 */
const UNREADABLE = "unreadable.invalid";
/** Maximum number of addresses and of classes that are read. */
const MAX_VALUES = 16;

/**
 * Converts an object to claims. The API server may not have validated objects of its kind. `kind` is the API's name
 * of the kind.
 */
export type CustomReader = (raw: Raw, kind: string) => readonly View[];

/** Returns the reader for the objects of a custom kind. */
export function customReader(source: ClaimPaths): CustomReader {
  const { syntax } = source;
  const hostnames = jsonPath(source.hostnames);
  const hintsOf = hintsReader(source);
  return (raw, kind) => {
    const origin = originOf(kind, readOrigin(raw));
    const claims = new ClaimList(origin);
    const fails = (text: string) => claims.add(UNREADABLE, { code: "path-failed", text: `${source.hostnames}${text}` });
    try {
      const hints = withChoice(hintsOf(raw, origin), origin);
      for (const value of hostnames(raw, MAX_NAMES_PER_OBJECT + 1)) {
        const names = typeof value === "string" ? namesIn(value, syntax) : undefined;
        if (names !== undefined) claims.addAll(names, hints);
        else if (value !== null)
          fails(` selects ${show(JSON.stringify(value))}, which does not have the syntax ${syntax}`);
      }
    } catch (error) {
      fails(`: ${show(String(error))}`);
    }
    return claims.all;
  };
}

/** The routing hints of an object. If the kind has no path for admission, the object counts as admitted. */
function hintsReader(source: ClaimPaths): (raw: Raw, origin: ObjectOrigin) => RoutingHints | Reason {
  const { className, controller } = source;
  const pathsOf = (path: string | undefined) => (path === undefined ? [] : [jsonPath(path)]);
  const classes = source.classes?.map(jsonPath) ?? pathsOf(source.class);
  const addresses = pathsOf(source.addresses);
  const admitted = pathsOf(source.admitted);
  return (raw, { ref, ignored }) => {
    if (ignored) return ignoredBy(ref);
    const isAdmitted = admitted.every((path) => path(raw, 1).length > 0);
    const text = `no controller has admitted the ${ref.kind}: ${source.admitted} selects nothing`;
    if (source.mustBeAdmitted && !isAdmitted) return { code: "not-admitted", text };
    return {
      className: classes.flatMap((path) => textsAt(path, raw))[0] ?? className,
      ...(controller !== undefined && { controller }),
      addresses: [...new Set(addresses.flatMap((path) => textsAt(path, raw)))],
      admitted: isAdmitted,
    };
  };
}

function textsAt(path: JsonPath, raw: Raw): string[] {
  return path(raw, MAX_VALUES).flatMap((value) => (typeof value === "string" && value !== "" ? copied(value) : []));
}

const HOST = { host: "text", wildcardPolicy: "word" } as const;
const CONDITIONS = [{ type: "word", status: "word" }] as const;
const ADMITTED = { ...HOST, routerName: "text", conditions: CONDITIONS } as const;
export const OPENSHIFT_ROUTE_FIELDS = { spec: HOST, status: { ingress: [ADMITTED] } } as const;

/**
 * The claims of an OpenShift Route (route.openshift.io/v1). Each router writes an entry of `status.ingress` with the
 * host that it serves (openshift/api, route/v1/types.go). So a Route with `spec.subdomain` has its name only there.
 * An entry counts if its router admitted the Route. `routerCanonicalHostname` is the value for a CNAME record: a name
 * below the router's domain, not a load balancer address. Host and policy of a Route are immutable, so `spec`
 * provides those that an entry omits.
 */
export const routeClaims: CustomReader = viewer("Route", OPENSHIFT_ROUTE_FIELDS, (origin, { spec, status }) => {
  const claims = new ClaimList(origin);
  const admitted = (status?.ingress ?? []).filter(isAdmitted);
  const hintsOf = ({ routerName }: Read<typeof ADMITTED>): RoutingHints | Reason => {
    if (origin.ignored) return ignoredBy(origin.ref);
    if (admitted.length === 0) return { code: "not-admitted", text: `no router has admitted the ${origin.ref.kind}` };
    const controller = "openshift.io/router";
    return withChoice({ className: routerName, controller, addresses: [], admitted: true }, origin);
  };
  for (const entry of admitted.length > 0 ? admitted : [{}]) {
    const host = entry.host ?? spec?.host;
    const policy = entry.wildcardPolicy ?? spec?.wildcardPolicy;
    // With the policy `Subdomain`, the first label of the host is a placeholder (WildcardPolicySubdomain).
    const name = policy === "Subdomain" ? host?.replace(/^[^.]*/, "*") : host;
    if (name !== undefined) claims.add(name, hintsOf(entry));
  }
  return claims.all;
});

function isAdmitted({ conditions = [] }: Read<typeof ADMITTED>): boolean {
  return conditions.some(({ type, status }) => type === "Admitted" && status === "True");
}

/**
 * The claims of a Service: the comma-separated names in its annotation `hostname`, which external-dns publishes. Each
 * external-dns reads one prefix (source/annotations/annotations.go, `SetAnnotationPrefix`), and a cluster may have
 * several of them. Only the address of a load balancer is short-circuited.
 */
export function serviceClaims(raw: Raw, prefixes: readonly string[] = EXTERNAL_DNS_PREFIXES): readonly View[] {
  const service = readService(raw);
  const hostnames = prefixes.flatMap((prefix) => service.metadata?.annotations?.[`${prefix}hostname`] || []).join();
  if (hostnames === "") return [];
  const origin = originOf("Service", service);
  const hints = withChoice(hintsOfService(service, origin), origin);
  return new ClaimList(origin).addAll(namesIn(hostnames, "list") ?? [], hints).all;
}

function hintsOfService({ spec, status }: RawService, { ref, ignored }: ObjectOrigin): RoutingHints | Reason {
  if (ignored) return ignoredBy(ref);
  if (spec?.type !== "LoadBalancer") {
    const text = "the Service is not of type LoadBalancer: pods reach its address directly";
    return { code: "not-short-circuited", text };
  }
  const entries = status?.loadBalancer?.ingress ?? [];
  const addresses = entries.flatMap(({ ip, hostname }) => [ip, hostname].filter((each) => each !== undefined));
  const { namespace, name } = ref;
  return { className: undefined, addresses, admitted: addresses.length > 0, service: { namespace, name } };
}

/**
 * The names in a text that a path has selected; undefined: the text has another syntax. A single `*` claims no name.
 */
function namesIn(text: string, syntax: ClaimPaths["syntax"]): string[] | undefined {
  return READERS[syntax](text)?.filter((name) => name !== "" && name !== "*");
}

const READERS: Readonly<Record<ClaimPaths["syntax"], (text: string) => string[] | undefined>> = {
  name: (text) => [text],
  // Like external-dns, which removes blanks and a trailing dot (endpoint/endpoint.go, NewEndpointWithTTL).
  list: (text) => text.split(",").map((name) => withoutLastDot(name.trim())),
  // Traefik ignores a trailing dot (pkg/muxer/http/matcher.go, host).
  "traefik-rule": (text) => (text.length > MAX_RULE ? undefined : hostsOfRule(text)?.map(withoutLastDot)),
  // Istio's Gateway: `namespace/name`; the namespace limits which services may bind to it.
  "istio-host": (text) => [text.slice(text.indexOf("/") + 1)],
};

/** Removes the trailing dot that names have in a zone file. */
function withoutLastDot(name: string): string {
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

/**
 * Matchers of Traefik whose arguments are hostnames. They are in lower case here, because Traefik accepts any case.
 * Matchers by regular expression name no host.
 */
const HOST_MATCHERS = new Set(["host", "hostheader", "hostsni"]);
/** Maximum length of a rule that is read. */
const MAX_RULE = 65_536;

/** A bracket with the name of its matcher, another sign, or a text in backticks or (with escapes) quotation marks. */
const TOKEN = /\s*(?:([A-Za-z_]\w*)?(\()|(&&|\|\||[!),])|`([^`]*)`|"((?:[^"\\]|\\.)*)")/y;

/**
 * The hosts in a rule of Traefik, without negated hosts (`!`). An example of a rule is ``Host(`a.example.com`,
 * `b.example.com`) && PathPrefix(`/x`) || Host(`c.example.com`)``. Undefined: not a rule. Open brackets are in a list,
 * so that nested ones cannot exhaust the call stack.
 */
function hostsOfRule(rule: string): string[] | undefined {
  const hosts: string[] = [];
  const open = [{ isHost: false, isNegated: false }];
  let not = false;
  TOKEN.lastIndex = 0;
  const end = rule.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const token = TOKEN.exec(rule);
    const around = open.at(-1);
    if (token === null || around === undefined) return undefined;
    const [, matcher = "", bracket, mark, raw, quoted = ""] = token;
    if (bracket !== undefined) {
      open.push({ isHost: HOST_MATCHERS.has(matcher.toLowerCase()), isNegated: around.isNegated !== not });
      not = false;
    } else if (mark === ")") open.pop();
    else if (mark === "!") not = !not;
    else if (mark === undefined && around.isHost && !around.isNegated)
      hosts.push(raw ?? quoted.replace(/\\(.)/gs, "$1"));
  }
  return open.length === 1 ? hosts : undefined;
}
