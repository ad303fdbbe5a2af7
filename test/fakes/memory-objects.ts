import { parseObjectPath } from "#cli/dump/object-paths.ts";
import { selectedBy } from "#cli/dump/stored-cluster.ts";
import { METADATA_LIST, METADATA_WATCH } from "#lib/kube/accept.ts";
import type { Query } from "#lib/kube/paths.ts";
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
  return accept === METADATA_LIST || accept === METADATA_WATCH ? { metadata: object.metadata } : object;
}

/** The path of an object in a collection of the cluster or of a namespace. */
export function memberPath(collection: string, name: string, ofObject: string | undefined): string {
  const { collection: all = "", resource = "", namespace = ofObject } = parseObjectPath(collection) ?? {};
  const root = all.slice(0, -resource.length - 1);
  return [root, ...(namespace === undefined ? [] : ["namespaces", namespace]), resource, name].join("/");
}

export function inCollection(path: string, collection: string): boolean {
  const object = parseObjectPath(path);
  const wanted = parseObjectPath(collection);
  const isKind = object?.collection === wanted?.collection;
  return isKind && (wanted?.namespace === undefined || object?.namespace === wanted.namespace);
}

/** The condition for objects in a list or watch of `collection`. */
export function selecting(collection: string, query: Query = {}): (path: string, object: ApiObject) => boolean {
  const fits = selectedBy(query);
  return (path, object) => inCollection(path, collection) && fits(object);
}
