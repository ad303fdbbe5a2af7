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

interface Entry<P> {
  readonly version: string;
  readonly value: P;
}

/** The projections of all objects of a watch. The objects are not kept: they are many times larger. */
export class ObjectCache<P> {
  readonly #project: (object: ApiObject) => P | undefined;
  readonly #onError: (key: string, error: unknown) => void;
  readonly #isPartial: (key: string) => boolean;
  readonly #values = new Map<string, P>();
  readonly #versions = new Map<string, string>();

  /**
   * `project` extracts the needed part of an object. Undefined: the object is not kept. If `project` throws, `onError`
   * is called and the previous value of the object stays. `isPartial`: see `WatchOptions`.
   */
  constructor(
    project: (object: ApiObject) => P | undefined,
    onError: (key: string, error: unknown) => void,
    isPartial: (key: string) => boolean = () => false,
  ) {
    this.#project = project;
    this.#onError = onError;
    this.#isPartial = isPartial;
  }

  get values(): ReadonlyMap<string, P> {
    return this.#values;
  }

  /** Stores an added or modified object. Returns undefined if it is unchanged. */
  put(object: ApiObject): ObjectChange<P> | undefined {
    const key = cacheKey(object);
    const entry = this.#entryOf(key, object);
    return entry === undefined ? this.#drop(key) : this.#set(key, entry);
  }

  remove(key: string): ObjectChange<P> | undefined {
    const before = this.#entryAt(key);
    if (before === undefined) return undefined;
    this.#values.delete(key);
    this.#versions.delete(key);
    return { key, before: before.value };
  }

  /** Replaces a kept value by the result of `change`. Undefined: the object is no longer kept. */
  revise(key: string, change: (value: P) => P | undefined): ObjectChange<P> | undefined {
    const before = this.#entryAt(key);
    if (before === undefined) return undefined;
    const value = change(before.value);
    return value === undefined ? this.#drop(key) : this.#set(key, { version: before.version, value });
  }

  #entryOf(key: string, object: ApiObject): Entry<P> | undefined {
    const version = versionOf(object);
    const before = this.#entryAt(key);
    if (before?.version === version && !this.#isPartial(key)) return before;
    try {
      const value = this.#project(object);
      return value === undefined ? undefined : { version, value };
    } catch (error) {
      this.#onError(key, error);
      return before;
    }
  }

  #entryAt(key: string): Entry<P> | undefined {
    const version = this.#versions.get(key);
    return version === undefined ? undefined : { version, value: this.#values.get(key) as P };
  }

  #set(key: string, entry: Entry<P>): ObjectChange<P> | undefined {
    const before = this.#entryAt(key);
    if (before?.version === entry.version && before.value === entry.value) return undefined;
    this.#values.set(key, entry.value);
    this.#versions.set(key, entry.version);
    return { key, ...(before ? { before: before.value } : {}), after: entry.value };
  }

  #drop(key: string): ObjectChange<P> | undefined {
    const change = this.remove(key);
    return change && { ...change, dropped: true };
  }
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
