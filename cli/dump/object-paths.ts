import type { ApiObject } from "#lib/kube/types.ts";

/** `/api` or `/apis/GROUP`, version, namespace, resource, name. The path of a subresource does not match. */
const PATH = /^\/(?:api|apis\/([^/]+))\/([^/]+)(?:\/namespaces\/([^/]+)(?=\/))?\/([^/]+)(?:\/([^/]+))?$/;

/** The object or collection at an API path. Without a name it is a collection. */
export interface ObjectPath {
  /** Such as `networking.k8s.io/v1`. */
  readonly apiVersion: string;
  /** `ingresses.networking.k8s.io`; in the core group, the resource alone. */
  readonly type: string;
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  /** The path of the collection in all namespaces. */
  readonly collection: string;
}

/** Parses a path. Returns undefined if it is not the path of an object or a collection. */
export function parseObjectPath(path: string): ObjectPath | undefined {
  const [, group, version, namespace, resource, name] = PATH.exec(path) ?? [];
  if (version === undefined || resource === undefined) return undefined;
  const isCore = group === undefined;
  const apiVersion = isCore ? version : `${group}/${version}`;
  const collection = `/${isCore ? "api" : "apis"}/${apiVersion}/${resource}`;
  return { apiVersion, type: isCore ? resource : `${resource}.${group}`, resource, namespace, name, collection };
}

/** The path of the objects of a version and kind in all namespaces. */
export function collectionOf({ apiVersion = "", kind = "" }: ApiObject): string {
  return `/${apiVersion.includes("/") ? "apis" : "api"}/${apiVersion}/${pluralOf(kind)}`;
}

/**
 * Returns the plural of a kind, as most definitions have it. After a vowel, the last letter stays: Gateway, gateways.
 */
export function pluralOf(kind: string): string {
  const name = kind.toLowerCase();
  if (/(?:s|x|ch|sh)$/.test(name)) return `${name}es`;
  return /[^aeiou]y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`;
}
