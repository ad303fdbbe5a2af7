import { SwitchbackError } from "#lib/errors/errors.ts";
import type { ApiObject } from "./types.ts";

/**
 * The change of one object. Without `before`, it was added. Without `after`, it was deleted. A changed uid means that
 * it was deleted and recreated.
 */
export interface ObjectChange<P> {
  /** `namespace/name`, or `name` for a cluster-scoped object. */
  readonly key: string;
  readonly before?: P;
  readonly after?: P;
}

/** The projections of all objects of a watch. The objects are not kept: they are many times larger. */
export interface ObjectCache<P> {
  readonly values: ReadonlyMap<string, P>;
  /** Stores an added or modified object. Returns undefined if it is unchanged. */
  put(object: ApiObject): ObjectChange<P> | undefined;
  remove(object: ApiObject): ObjectChange<P> | undefined;
  beginRelist(): Relist<P>;
}

/** A full list in progress. The cache is unchanged until `finish`. So a list that fails halfway changes nothing. */
interface Relist<P> {
  add(objects: readonly ApiObject[]): void;
  restart(): void;
  /**
   * Applies each difference as the iterator yields it. Additions and updates come first, then deletions, so that a
   * moved name never disappears.
   */
  finish(): Iterable<ObjectChange<P>>;
}

interface Entry<P> {
  readonly version: string;
  readonly value: P;
}

/**
 * `project` extracts the needed part of an object. Undefined: the object is not kept. If `project` throws, `onError`
 * is called and the previous value of the object stays.
 */
export function createCache<P>(
  project: (object: ApiObject) => P | undefined,
  onError: (key: string, error: unknown) => void,
): ObjectCache<P> {
  const values = new Map<string, P>();
  const versions = new Map<string, string>();

  function entryOf(key: string, object: ApiObject): Entry<P> | undefined {
    const version = versionOf(object);
    const before = entryAt(key);
    if (before?.version === version) return before;
    try {
      const value = project(object);
      return value === undefined ? undefined : { version, value };
    } catch (error) {
      onError(key, error);
      return before;
    }
  }

  function entryAt(key: string): Entry<P> | undefined {
    const version = versions.get(key);
    return version === undefined ? undefined : { version, value: values.get(key) as P };
  }

  function set(key: string, entry: Entry<P>): ObjectChange<P> | undefined {
    const before = entryAt(key);
    if (before?.version === entry.version) return undefined;
    values.set(key, entry.value);
    versions.set(key, entry.version);
    return { key, ...(before ? { before: before.value } : {}), after: entry.value };
  }

  function removeKey(key: string): ObjectChange<P> | undefined {
    const before = entryAt(key);
    if (before === undefined) return undefined;
    values.delete(key);
    versions.delete(key);
    return { key, before: before.value };
  }

  function* applyDifference(next: ReadonlyMap<string, Entry<P>>): Iterable<ObjectChange<P>> {
    for (const [key, entry] of next) {
      const change = set(key, entry);
      if (change) yield change;
    }
    for (const key of [...values.keys()].filter((each) => !next.has(each))) {
      const change = removeKey(key);
      if (change) yield change;
    }
  }

  return {
    values,
    put(object) {
      const key = cacheKey(object);
      const entry = entryOf(key, object);
      return entry === undefined ? removeKey(key) : set(key, entry);
    },
    remove: (object) => removeKey(cacheKey(object)),
    beginRelist() {
      const next = new Map<string, Entry<P>>();
      return {
        add(objects) {
          for (const object of objects) {
            const key = cacheKey(object);
            const entry = entryOf(key, object);
            if (entry) next.set(key, entry);
          }
        },
        restart: () => next.clear(),
        finish: () => applyDifference(next),
      };
    },
  };
}

/** `namespace/name`, or `name` for a cluster-scoped object. */
function cacheKey(object: ApiObject): string {
  const { namespace, name } = object.metadata ?? {};
  if (!name) throw new SwitchbackError("data-corrupt", "an object without a name");
  return namespace ? `${namespace}/${name}` : name;
}

/**
 * Identifies the state of an object. The resourceVersion alone is not unique after a cluster is restored from a backup.
 */
function versionOf(object: ApiObject): string {
  const { uid, resourceVersion } = object.metadata ?? {};
  if (!resourceVersion) throw new SwitchbackError("data-corrupt", `${cacheKey(object)} has no resourceVersion`);
  // join() creates one flat string; a template literal would retain its parts for each object.
  return [uid, resourceVersion].join("/");
}
