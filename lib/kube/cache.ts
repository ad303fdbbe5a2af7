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
    const version = versionOf(object);
    if (this.#versions.get(key) === version && !this.#isPartial(key)) return undefined;
    let value: P | undefined;
    try {
      value = this.#project(object);
    } catch (error) {
      this.#onError(key, error);
      return undefined;
    }
    if (value === undefined) return this.remove(key);
    const isKept = this.#versions.has(key);
    const before = this.#values.get(key) as P;
    this.#values.set(key, value);
    this.#versions.set(key, version);
    return { key, ...(isKept ? { before } : {}), after: value };
  }

  remove(key: string): ObjectChange<P> | undefined {
    if (!this.#versions.delete(key)) return undefined;
    const before = this.#values.get(key) as P;
    this.#values.delete(key);
    return { key, before };
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
