import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { EXTERNAL_DNS_PREFIXES } from "#lib/config/defaults.ts";
import { type JsonPath, jsonPath } from "#lib/config/json-path.ts";
import type { CustomSource } from "#lib/config/schema.ts";
import { ClaimList, MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import { loadBalancerOf } from "../ingress-hosts.ts";
import {
  copied,
  ignoredBy,
  listOf,
  mapOf,
  type ObjectOrigin,
  originOf,
  type Raw,
  textOf,
  textsOf,
  withChoice,
} from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import { namesIn } from "./names.ts";

/** The paths to what a claim needs in the objects of a kind: JSONPaths (RFC 9535) from the root of the object. */
export interface ClaimPaths
  extends Pick<CustomSource, "hostnames" | "syntax" | "className" | "addresses" | "admitted"> {
  /** Paths to the class. The first one that exists is used, else `className`. */
  readonly classes: readonly string[];
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
  const hostnames = jsonPath(source.hostnames);
  const hintsOf = hintsReader(source);
  return (raw, kind) => {
    const origin = originOf(kind, raw);
    const claims = new ClaimList(origin);
    try {
      const hints = withChoice(hintsOf(raw, origin), origin);
      for (const value of hostnames(raw, MAX_NAMES_PER_OBJECT + 1)) {
        const names = typeof value === "string" ? namesIn(value, source.syntax) : undefined;
        if (names !== undefined) claims.addAll(names, hints);
        else if (value !== null) claims.add(UNREADABLE, syntaxInvalid(value, source));
      }
    } catch (error) {
      claims.add(UNREADABLE, { code: "path-failed", text: `${source.hostnames}: ${show(String(error))}` });
    }
    return claims.all;
  };
}

function syntaxInvalid(value: unknown, { hostnames, syntax }: ClaimPaths): Reason {
  const text = `${hostnames} selects ${show(JSON.stringify(value))}, which does not have the syntax ${syntax}`;
  return { code: "path-failed", text };
}

/** The routing hints of an object. If the kind has no path for admission, the object counts as admitted. */
function hintsReader(source: ClaimPaths): (raw: Raw, origin: ObjectOrigin) => RoutingHints | Reason {
  const classes = source.classes.map(jsonPath);
  const addresses = source.addresses === undefined ? undefined : jsonPath(source.addresses);
  const admitted = source.admitted === undefined ? undefined : jsonPath(source.admitted);
  return (raw, { ref: { kind }, ignored }) => {
    if (ignored) return ignoredBy(kind);
    const isAdmitted = admitted === undefined || admitted(raw, 1).length > 0;
    const text = `no controller has admitted the ${kind}: ${source.admitted} selects nothing`;
    if (source.mustBeAdmitted && !isAdmitted) return { code: "not-admitted", text };
    return {
      className: classes.flatMap((path) => textsAt(path, raw))[0] ?? source.className,
      ...(source.controller !== undefined && { controller: source.controller }),
      addresses: addresses === undefined ? [] : [...new Set(textsAt(addresses, raw))],
      admitted: isAdmitted,
    };
  };
}

function textsAt(path: JsonPath, raw: Raw): string[] {
  return textsOf(path(raw, MAX_VALUES)).map((text) => copied(text));
}

/**
 * The claims of an OpenShift Route (route.openshift.io/v1). Each router writes an entry of `status.ingress` with the
 * host that it serves (openshift/api, route/v1/types.go). So a Route with `spec.subdomain` has its name only there.
 * An entry counts if its router admitted the Route. `routerCanonicalHostname` is the value for a CNAME record: a name
 * below the router's domain, not a load balancer address. Host and policy of a Route are immutable, so `spec`
 * provides those that an entry omits.
 */
export function routeClaims(raw: Raw, kind: string): readonly View[] {
  const origin = originOf(kind, raw);
  const claims = new ClaimList(origin);
  const spec = mapOf(raw.spec);
  const admitted = listOf(mapOf(raw.status).ingress).map(mapOf).filter(isAdmitted);
  const hintsOf = ({ routerName }: Raw): RoutingHints | Reason => {
    if (origin.ignored) return ignoredBy(kind);
    if (admitted.length === 0) return { code: "not-admitted", text: `no router has admitted the ${kind}` };
    const controller = "openshift.io/router";
    return withChoice({ className: textOf(routerName), controller, addresses: [], admitted: true }, origin);
  };
  for (const entry of admitted.length > 0 ? admitted : [{}]) {
    const host = textOf(entry.host) ?? textOf(spec.host);
    const policy = textOf(entry.wildcardPolicy) ?? textOf(spec.wildcardPolicy);
    // With the policy `Subdomain`, the first label of the host is a placeholder (WildcardPolicySubdomain).
    const name = policy === "Subdomain" ? host?.replace(/^[^.]*/, "*") : host;
    if (name !== undefined) claims.add(name, hintsOf(entry));
  }
  return claims.all;
}

function isAdmitted({ conditions }: Raw): boolean {
  return listOf(conditions)
    .map(mapOf)
    .some(({ type, status }) => type === "Admitted" && status === "True");
}

/**
 * The claims of a Service: the comma-separated names in its annotation `hostname`, which external-dns publishes. Each
 * external-dns reads one prefix (source/annotations/annotations.go, `SetAnnotationPrefix`), and a cluster may have
 * several of them. Only the address of a load balancer is short-circuited.
 */
export function serviceClaims(raw: Raw, prefixes: readonly string[] = EXTERNAL_DNS_PREFIXES): readonly View[] {
  const annotations = mapOf(mapOf(raw.metadata).annotations);
  const hostnames = prefixes.flatMap((prefix) => textOf(annotations[`${prefix}hostname`]) ?? []).join();
  if (hostnames === "") return [];
  const origin = originOf("Service", raw);
  const hints = withChoice(hintsOfService(raw, origin), origin);
  return new ClaimList(origin).addAll(namesIn(hostnames, "list") ?? [], hints).all;
}

function hintsOfService(raw: Raw, { ref, ignored }: ObjectOrigin): RoutingHints | Reason {
  if (ignored) return ignoredBy(ref.kind);
  if (mapOf(raw.spec).type !== "LoadBalancer") {
    const text = "the Service is not of type LoadBalancer: pods reach its address directly";
    return { code: "not-short-circuited", text };
  }
  const addresses = loadBalancerOf(raw).flatMap(({ ip, hostname }) => textsOf([ip, hostname]));
  const { namespace, name } = ref;
  return { className: undefined, addresses, admitted: addresses.length > 0, service: { namespace, name } };
}
