import { SwitchbackError } from "#lib/errors/errors.ts";

/** The parts of an API path: a resource in a group and version, optionally with namespace and name. */
interface ResourcePath {
  /** Empty or omitted: the core group. */
  group?: string;
  version: string;
  /** The plural, for example `ingresses`. */
  resource: string;
  namespace?: string | undefined;
  name?: string | undefined;
  /** `status`, `proxy`, `eviction`, ... */
  subresource?: string;
}

/**
 * Returns a path such as `/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web`. Every part is encoded or refused
 * (`input-invalid`), so that it cannot change the path.
 */
export function resourcePath(of: ResourcePath): string {
  const parts = of.group ? ["apis", of.group, of.version] : ["api", of.version];
  if (of.namespace !== undefined) parts.push("namespaces", of.namespace);
  parts.push(of.resource);
  if (of.name !== undefined) parts.push(of.name);
  if (of.subresource !== undefined) parts.push(of.subresource);
  return `/${parts.map(segment).join("/")}`;
}

/** A path of the core group, v1. */
export function corePath(resource: string, namespace?: string, name?: string): string {
  return resourcePath({ version: "v1", resource, namespace, name });
}

/** The path of a Service through the API server's proxy. `port` is a name or number, `rest` starts with `/`. */
export function serviceProxyPath(namespace: string, service: { name: string; port: string | number }, rest: string) {
  const name = `${service.name}:${service.port}`;
  return `${resourcePath({ version: "v1", namespace, resource: "services", name, subresource: "proxy" })}${rest}`;
}

/** Query parameters; `undefined` and `""` are omitted. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** `path?a=b`, or `path` if the query is empty. */
export function withQuery(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") params.append(key, String(value));
  }
  const text = params.toString();
  return text === "" ? path : `${path}?${text}`;
}

function segment(text: string): string {
  // The API server decodes the path before it splits it, so `web%2Fscale` would become a subresource. No name has these
  // characters.
  if (text === "" || text === "." || text === ".." || /[/%]/.test(text)) {
    throw new SwitchbackError("input-invalid", `${JSON.stringify(text)} cannot be a part of an API path`);
  }
  // A colon is valid in a path segment, and separates the port of a Service.
  return encodeURIComponent(text).replaceAll("%3A", ":");
}

/**
 * Returns the group: `apps` for `apps/v1`, and "", the core group, for `v1`. Kinds of two groups may have the same
 * name.
 */
export function groupOf(apiVersion: unknown): string {
  if (typeof apiVersion !== "string" || !apiVersion.includes("/")) return "";
  return apiVersion.slice(0, apiVersion.indexOf("/"));
}
