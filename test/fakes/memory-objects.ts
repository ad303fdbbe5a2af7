import { METADATA_LIST, METADATA_WATCH, TABLE } from "#lib/kube/accept.ts";
import type { Query } from "#lib/kube/paths.ts";
import { parseObjectPath, selectedBy } from "#lib/kube/stored-objects.ts";
import type { ApiObject, ObjectMeta } from "#lib/kube/types.ts";

// What the API servers in memory do with objects.

/** An object, as a client sees it. */
export interface KubeObject {
  metadata: ObjectMeta;
  [field: string]: unknown;
}

/** An object after a merge patch. A change of the spec increments the generation. */
export function patched(before: KubeObject, body: object): KubeObject {
  const after = mergePatch(before, body) as KubeObject;
  const generation = (before.metadata.generation ?? 0) + 1;
  return "spec" in body ? { ...after, metadata: { ...after.metadata, generation } } : after;
}

/** `target` after a JSON merge patch (RFC 7386). Does not change its arguments. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> = typeof target === "object" && target !== null ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}

/** An object in the form that a client with this media type gets. */
export function sent(object: KubeObject, accept: string | undefined): KubeObject {
  if (accept === TABLE) return table({ resourceVersion: object.metadata.resourceVersion ?? "" }, [object], null);
  return accept === METADATA_LIST || accept === METADATA_WATCH ? { metadata: object.metadata } : object;
}

export const COLUMNS = [{ name: "Name" }, { name: "Node" }];

export function table(
  metadata: ObjectMeta,
  objects: readonly KubeObject[],
  columnDefinitions: typeof COLUMNS | null,
): KubeObject {
  const rows = objects.map(({ metadata: of, spec }) => ({
    cells: [of.name, (spec as { nodeName?: string } | undefined)?.nodeName || "<none>"],
    object: structuredClone({ metadata: of }),
  }));
  return { kind: "Table", metadata, columnDefinitions, rows };
}

/** The path of an object in a collection of the cluster or of a namespace. */
export function memberPath(collection: string, name: string, ofObject: string | undefined): string {
  const { root, resource, namespace = ofObject } = parseObjectPath(collection) ?? {};
  return [root, ...(namespace === undefined ? [] : ["namespaces", namespace]), resource, name].join("/");
}

export function inCollection(path: string, collection: string): boolean {
  const object = parseObjectPath(path);
  const wanted = parseObjectPath(collection);
  const isKind = object?.root === wanted?.root && object?.resource === wanted?.resource;
  return isKind && (wanted?.namespace === undefined || object?.namespace === wanted.namespace);
}

/** The condition for objects in a list or watch of `collection`. */
export function selecting(collection: string, query: Query = {}): (path: string, object: ApiObject) => boolean {
  const fits = selectedBy(query);
  return (path, object) => inCollection(path, collection) && fits(object);
}
