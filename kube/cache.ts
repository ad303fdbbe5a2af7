import { SwitchbackError } from "../errors/errors.ts";
import type { ApiObject } from "./types.ts";

/** What became of one object. No `before`: it is new. No `after`: it is gone. Both with a new uid behind them: deleted and made again. */
export interface ObjectChange<P> {
  /** `namespace/name`, or `name` for what is in no namespace. */
  readonly key: string;
  readonly before?: P;
  readonly after?: P;
}

/** The projections of all objects of a watch. Objects themselves are not kept: they are many times larger. */
export interface ObjectCache<P> {
  readonly values: ReadonlyMap<string, P>;
  /** Takes in an added or modified object; nothing if it is the one that is known. */
  put(object: ApiObject): ObjectChange<P> | undefined;
  remove(object: ApiObject): ObjectChange<P> | undefined;
  beginRelist(): Relist<P>;
}

/** A full list on its way in. The cache stays as it was until `finish`, so a list that fails half-way changes nothing. */
interface Relist<P> {
  add(objects: readonly ApiObject[]): void;
  restart(): void;
  /** Applies each difference as it is taken from the iterator: what is there first, then what is gone, so that nothing seems to vanish while it moves. */
  finish(): Iterable<ObjectChange<P>>;
}

interface Entry<P> {
  readonly version: string;
  readonly value: P;
}

/**
 * `project` picks what is needed of an object. If it throws, `onBad` hears of it and what was known of that object stays.
 */
export function createCache<P>(
  project: (object: ApiObject) => P,
  onBad: (key: string, error: unknown) => void,
): ObjectCache<P> {
  const values = new Map<string, P>();
  const versions = new Map<string, string>();

  function entryOf(key: string, object: ApiObject): Entry<P> | undefined {
    const version = versionOf(object);
    const before = known(key);
    if (before?.version === version) return before;
    try {
      return { version, value: project(object) };
    } catch (error) {
      onBad(key, error);
      return before;
    }
  }

  function known(key: string): Entry<P> | undefined {
    const version = versions.get(key);
    return version === undefined ? undefined : { version, value: values.get(key) as P };
  }

  function set(key: string, entry: Entry<P>): ObjectChange<P> | undefined {
    const before = known(key);
    if (before?.version === entry.version) return undefined;
    values.set(key, entry.value);
    versions.set(key, entry.version);
    return { key, ...(before ? { before: before.value } : {}), after: entry.value };
  }

  function drop(key: string): ObjectChange<P> | undefined {
    const before = known(key);
    if (before === undefined) return undefined;
    values.delete(key);
    versions.delete(key);
    return { key, before: before.value };
  }

  function* difference(next: ReadonlyMap<string, Entry<P>>): Iterable<ObjectChange<P>> {
    for (const [key, entry] of next) {
      const change = set(key, entry);
      if (change) yield change;
    }
    for (const key of [...values.keys()].filter((each) => !next.has(each))) {
      const change = drop(key);
      if (change) yield change;
    }
  }

  return {
    values,
    put(object) {
      const key = cacheKey(object);
      const entry = entryOf(key, object);
      return entry && set(key, entry);
    },
    remove: (object) => drop(cacheKey(object)),
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
        finish: () => difference(next),
      };
    },
  };
}

/** `namespace/name`, or `name` for what is in no namespace. */
function cacheKey(object: ApiObject): string {
  const { namespace, name } = object.metadata ?? {};
  if (!name) throw new SwitchbackError("data-corrupt", "an object without a name");
  return namespace ? `${namespace}/${name}` : name;
}

/** Equal for the same object in the same state, and for nothing else: a version alone is not, once a cluster was restored from a backup. */
function versionOf(object: ApiObject): string {
  const { uid, resourceVersion } = object.metadata ?? {};
  if (!resourceVersion) throw new SwitchbackError("data-corrupt", `${cacheKey(object)} has no resourceVersion`);
  // Joined, it is one string; a template would keep its parts in memory beside it, for each object.
  return [uid, resourceVersion].join("/");
}
