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
  /** The object still exists, but is no longer kept. */
  readonly dropped?: true;
}

/** The projections of all objects of a watch. The objects are not kept: they are many times larger. */
export interface ObjectCache<P> {
  readonly values: ReadonlyMap<string, P>;
  /** Stores an added or modified object. Returns undefined if it is unchanged. */
  put(object: ApiObject): ObjectChange<P> | undefined;
  remove(object: ApiObject): ObjectChange<P> | undefined;
  /** Replaces a kept value by the result of `change`. Undefined: the object is no longer kept. */
  revise(key: string, change: (value: P) => P | undefined): ObjectChange<P> | undefined;
  beginRelist(): Relist<P>;
}

/**
 * A full list in progress. Additions and updates apply at once, so that no list is in memory as a whole. Deletions
 * follow when the list is complete, so that a moved name never disappears. A list that fails halfway deletes nothing,
 * and the watch then repeats the events of the objects that it had read.
 */
export interface Relist<P> {
  add(object: ApiObject): ObjectChange<P> | undefined;
  restart(): void;
  /** Removes each object that the list did not have, as the iterator yields it. */
  finish(): Iterable<ObjectChange<P>>;
}

interface Entry<P> {
  readonly version: string;
  readonly value: P;
}

/**
 * `project` extracts the needed part of an object. Undefined: the object is not kept. If `project` throws, `onError`
 * is called and the previous value of the object stays. `isPartial`: see `WatchOptions`.
 */
export function createCache<P>(
  project: (object: ApiObject) => P | undefined,
  onError: (key: string, error: unknown) => void,
  isPartial: (key: string) => boolean = () => false,
): ObjectCache<P> {
  const values = new Map<string, P>();
  const versions = new Map<string, string>();

  function entryOf(key: string, object: ApiObject): Entry<P> | undefined {
    const version = versionOf(object);
    const before = entryAt(key);
    if (before?.version === version && !isPartial(key)) return before;
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
    if (before?.version === entry.version && before.value === entry.value) return undefined;
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

  function drop(key: string): ObjectChange<P> | undefined {
    const change = removeKey(key);
    return change && { ...change, dropped: true };
  }

  function put(object: ApiObject): ObjectChange<P> | undefined {
    const key = cacheKey(object);
    const entry = entryOf(key, object);
    return entry === undefined ? drop(key) : set(key, entry);
  }

  return {
    values,
    put,
    remove: (object) => removeKey(cacheKey(object)),
    revise(key, change) {
      const before = entryAt(key);
      if (before === undefined) return undefined;
      const value = change(before.value);
      return value === undefined ? drop(key) : set(key, { version: before.version, value });
    },
    beginRelist() {
      const listed = new Set<string>();
      return {
        add(object) {
          listed.add(cacheKey(object));
          return put(object);
        },
        restart: () => listed.clear(),
        *finish() {
          for (const key of [...values.keys()].filter((each) => !listed.has(each))) {
            const change = removeKey(key);
            if (change) yield change;
          }
        },
      };
    },
  };
}

/** `namespace/name`, or `name` for a cluster-scoped object. */
export function cacheKey(object: ApiObject): string {
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
