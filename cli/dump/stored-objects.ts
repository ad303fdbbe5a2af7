import { groupOf, type Query } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";

/**
 * The parts of a path: `/apis/networking.k8s.io/v1`, namespace, resource, name. The path of a subresource does not
 * match.
 */
const PATH = /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)(?:\/namespaces\/([^/]+)(?=\/))?\/([^/]+)(?:\/([^/]+))?$/;

/** The object or collection at an API path. Without a name it is a collection. */
export interface ObjectPath {
  /** `/api/v1` or `/apis/<group>/<version>`. */
  readonly root: string;
  readonly namespace: string | undefined;
  readonly resource: string;
  readonly name: string | undefined;
}

/** Parses a path. Returns undefined if it is not the path of an object or a collection. */
export function parseObjectPath(path: string): ObjectPath | undefined {
  const [, root, namespace, resource, name] = PATH.exec(path) ?? [];
  return root === undefined || resource === undefined ? undefined : { root, namespace, resource, name };
}

/**
 * Returns the plural of a kind, as most definitions have it. After a vowel, the last letter stays: Gateway, gateways.
 */
export function pluralOf(kind: string): string {
  const name = kind.toLowerCase();
  if (/(?:s|x|ch|sh)$/.test(name)) return `${name}es`;
  return /[^aeiou]y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`;
}

/** Objects of any kinds by their paths. */
export class StoredObjects {
  /** By root and resource, then by `namespace/name`. */
  readonly #collections = new Map<string, Map<string, ApiObject>>();

  /** A handwritten object has no version, and a watch refuses objects without a version. */
  put(root: string, resource: string, object: ApiObject): void {
    const { namespace = "", name = "" } = object.metadata ?? {};
    const collection = `${root}/${resource}`;
    const objects = this.#collections.get(collection) ?? new Map<string, ApiObject>();
    this.#collections.set(collection, objects);
    objects.set(`${namespace}/${name}`, { ...object, metadata: { resourceVersion: "1", ...object.metadata } });
  }

  /** Adds an object at the path of its version and kind. */
  add(object: ApiObject): void {
    const { apiVersion = "", kind = "" } = object;
    this.put(groupOf(apiVersion) === "" ? `/api/${apiVersion}` : `/apis/${apiVersion}`, pluralOf(kind), object);
  }

  /** Whether there is any object of this kind. */
  has({ root, resource }: Pick<ObjectPath, "root" | "resource">): boolean {
    return this.#collections.has(`${root}/${resource}`);
  }

  get({ root, resource, namespace = "", name = "" }: ObjectPath): ApiObject | undefined {
    return this.#collections.get(`${root}/${resource}`)?.get(`${namespace}/${name}`);
  }

  /** The objects of a collection that the query selects, in their order. */
  select({ root, resource, namespace }: ObjectPath, query: Query = {}): ApiObject[] {
    const objects = [...(this.#collections.get(`${root}/${resource}`)?.values() ?? [])];
    const inNamespace = objects.filter(({ metadata }) => namespace === undefined || metadata?.namespace === namespace);
    return inNamespace.filter(selectedBy(query));
  }

  *all(): Iterable<ApiObject> {
    for (const objects of this.#collections.values()) yield* objects.values();
  }

  /** The paths of the collections, such as `/apis/networking.k8s.io/v1/ingresses`. */
  paths(): Iterable<string> {
    return this.#collections.keys();
  }
}

/**
 * Returns a filter for a query's selectors. Selectors are `key`, `!key`, `key=value`, `key!=value` and `key in
 * (value,value)`, separated by commas.
 */
export function selectedBy({ labelSelector, fieldSelector }: Query): (object: ApiObject) => boolean {
  const labels = termsOf(labelSelector);
  const fields = termsOf(fieldSelector);
  return (object) =>
    labels.every((fits) => fits((key) => object.metadata?.labels?.[key])) &&
    fields.every((fits) => fits((path) => fieldAt(object, path)));
}

type Term = (lookUp: (key: string) => unknown) => boolean;

function termsOf(selector: Query[string]): Term[] {
  if (selector === undefined || selector === "") return [];
  return String(selector)
    .split(/,(?![^(]*\))/)
    .map((term) => {
      const [, member, values] = /^(\S+) in \((.*)\)$/.exec(term) ?? [];
      if (member !== undefined) return (lookUp) => values?.split(",").includes(String(lookUp(member))) === true;
      if (term.startsWith("!")) return (lookUp) => lookUp(term.slice(1)) === undefined;
      const [, key = "", operator, value = ""] = /^([^!=]+)(!?=)?=?(.*)$/.exec(term) ?? [];
      if (operator === undefined) return (lookUp) => lookUp(key) !== undefined;
      return (lookUp) => (lookUp(key) === value) === (operator === "=");
    });
}

function fieldAt(object: ApiObject, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], object);
}
