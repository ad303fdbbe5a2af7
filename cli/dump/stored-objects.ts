import type { Query } from "#lib/kube/paths.ts";
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

/** Objects of any kinds by their paths. Each is stored as JSON, which takes a tenth of the memory of parsed objects. */
export class StoredObjects {
  /** By root and resource, then by `namespace/name`. */
  readonly #collections = new Map<string, Map<string, string>>();
  #length = 0;

  /** Number of characters of all objects. */
  get length(): number {
    return this.#length;
  }

  /** `json` is the object's JSON, if the caller already has it. */
  put(root: string, resource: string, object: ApiObject, json = JSON.stringify(object)): void {
    const { namespace = "", name = "" } = object.metadata ?? {};
    const collection = `${root}/${resource}`;
    const objects = this.#collections.get(collection) ?? new Map<string, string>();
    this.#collections.set(collection, objects);
    const key = `${namespace}/${name}`;
    this.#length += json.length - (objects.get(key)?.length ?? 0);
    objects.set(key, json);
  }

  get({ root, resource, namespace = "", name = "" }: ObjectPath): ApiObject | undefined {
    const json = this.#collections.get(`${root}/${resource}`)?.get(`${namespace}/${name}`);
    return json === undefined ? undefined : parsed(json);
  }

  /** Yields the objects of a collection that the query selects, in their order. */
  *select({ root, resource, namespace }: ObjectPath, query: Query = {}): Generator<ApiObject, void> {
    const fits = selectedBy(query);
    for (const [key, json] of this.#collections.get(`${root}/${resource}`) ?? []) {
      if (namespace !== undefined && !key.startsWith(`${namespace}/`)) continue;
      const object = parsed(json);
      if (fits(object)) yield object;
    }
  }

  /** Yields each object as JSON. */
  *all(): Iterable<string> {
    for (const objects of this.#collections.values()) yield* objects.values();
  }

  /** Returns the roots of a group, such as `/apis/gateway.networking.k8s.io/v1`, and their resources with the kind. */
  served(group: string): Map<string, Map<string, string>> {
    const roots = new Map<string, Map<string, string>>();
    for (const [collection, objects] of this.#collections) {
      const { root = "", resource = "" } = parseObjectPath(collection) ?? {};
      const [first] = objects.values();
      if (!root.startsWith(`/apis/${group}/`) || first === undefined) continue;
      const { kind = resource } = JSON.parse(first) as ApiObject;
      roots.set(root, (roots.get(root) ?? new Map()).set(resource, kind));
    }
    return roots;
  }
}

/** Parses an object. A handwritten object has no version, and a watch refuses objects without a version. */
function parsed(json: string): ApiObject {
  const object: ApiObject = JSON.parse(json);
  return { ...object, metadata: { resourceVersion: "1", ...object.metadata } };
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
