import { hasCode, statusOf } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import type { LeaderTerm } from "./lease-term.ts";
import type { ObjectMeta } from "./types.ts";

/** An object that a leader writes. */
export interface FencedObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Undefined: cluster-scoped. */
  readonly namespace?: string;
  readonly name: string;
  /** Of the API, as in `corePath`. */
  readonly path: string;
}

/**
 * Metadata of a write: the API server refuses the write unless the object is exactly this one. Without `uid` the
 * object must not exist.
 */
export interface Precondition {
  readonly uid?: string;
  readonly resourceVersion: string;
}

/** Which object it is, and in which version. */
export interface Identity extends Pick<ObjectMeta, "uid" | "resourceVersion"> {}

export function identityOf({ uid, resourceVersion }: Identity): Identity {
  return { ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
}

interface FenceDeps {
  readonly client: Pick<KubeClient, "apply" | "delete">;
  readonly term: LeaderTerm;
  readonly log: Logger;
  /** A write was refused, because the object has changed or the term is over. */
  readonly onRefused?: () => void;
}

/** Versions of an object that follow one another. */
type Versions = readonly [Precondition, ...Precondition[]];

/** What a term knows of an object. */
interface Held {
  /** Undefined: the outcome of the last write is unknown. */
  precondition: Precondition | undefined;
  /** Versions that a lagging watch may still show: those that this term took and wrote. */
  own: Set<string>;
}

/**
 * No object ever has this version: an apply that carries it creates the object, and is rejected if the object exists.
 */
export const NO_VERSION = "1";
/** Reads of an object that others keep changing. */
const MAX_READS = 3;
/** The field manager of a touch. It owns nothing afterwards. */
export const TOUCH_MANAGER = "switchback-term";

/**
 * Binds the writes of a leader to its term. A leader may be suspended and resumed after its term. The API server then
 * refuses its writes, even one that was about to be sent:
 *
 * 1. A write names the version that it replaces. This is a version that was seen before the Lease was confirmed to
 *    be this term's, or that this term has written.
 * 2. Before it relies on an object that it has not written, a term touches the object. A touch and a write give the
 *    object a new version: the versions that earlier terms know are outdated from then on.
 *
 * Each instance is for one term.
 */
export class Fence {
  readonly #deps: FenceDeps;
  readonly #held = new Map<string, Held>();

  constructor(deps: FenceDeps) {
    this.#deps = deps;
  }

  /**
   * The precondition of the next write of an object. `seen` is its identity when it was last seen; undefined: it does
   * not exist. The term's first call touches an object that exists. Throws `term-over`, and status 409 if the object
   * has changed since.
   */
  async take(object: FencedObject, seen: Identity | undefined): Promise<Precondition> {
    return this.#known(object, seen) ?? (await this.#reporting(object, () => this.#take(object, seen)));
  }

  /**
   * Reads an object that is not watched; undefined: it does not exist. The caller may write the object with the
   * version that it has here as the precondition. Throws what `get` and `take` throw.
   */
  async read<T extends { readonly metadata: Identity }>(
    object: FencedObject,
    get: () => Promise<T>,
  ): Promise<T | undefined> {
    for (let reads = 1; ; reads++) {
      const found = await get().catch((error: unknown) => {
        if (statusOf(error) === 404) return undefined;
        throw error;
      });
      if (found === undefined) return undefined;
      try {
        return { ...found, metadata: { ...found.metadata, ...(await this.take(object, found.metadata)) } };
      } catch (error) {
        // Changed between the read and the touch.
        if (statusOf(error) !== 409 || reads === MAX_READS) throw error;
      }
    }
  }

  /**
   * Writes an object that was last seen with this identity. `send` puts the precondition into the metadata. Throws
   * as `take` does.
   */
  async write<T extends { readonly metadata: Identity }>(
    object: FencedObject,
    seen: Identity | undefined,
    send: (precondition: Precondition) => Promise<T>,
  ): Promise<T> {
    const isFirst = !this.#held.has(object.path);
    const { answer, versions } = await this.#send(object, seen, async (precondition) => {
      const answer = await send(precondition);
      const written = preconditionOf(answer.metadata);
      // An apply of equal fields is not stored: the versions that earlier terms know are still valid.
      const touches = isFirst && written.resourceVersion === precondition.resourceVersion;
      const touched = touches ? await touch(this.#deps.client, object, written) : [];
      const versions: Versions = [precondition, written, ...touched];
      return { answer, versions };
    });
    this.#hold(object, ...versions);
    // A term that began before the creation has seen no object to touch: the Lease is confirmed again before this
    // one relies on it.
    if (versions[0].resourceVersion === NO_VERSION) this.#forget(object);
    return answer;
  }

  /** Deletes an object that was last seen with this identity. One that is gone is no error. Throws as `take` does. */
  async remove(object: FencedObject, seen: Identity): Promise<void> {
    try {
      await this.#send(object, seen, (preconditions) => this.#deps.client.delete(object.path, { preconditions }));
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
    }
    this.#hold(object, preconditionOf(undefined));
  }

  async #send<T>(
    object: FencedObject,
    seen: Identity | undefined,
    send: (precondition: Precondition) => Promise<T>,
  ): Promise<T> {
    const known = this.#known(object, seen);
    return await this.#reporting(object, async () => {
      try {
        return await send(known ?? (await this.#confirmed(seen)));
      } catch (error) {
        if (known === undefined || statusOf(error) !== 409) throw error;
        // What was seen was newer than what this term wrote, not older.
        return await send(await this.#confirmed(seen));
      }
    });
  }

  /**
   * What this term wrote last, if what was seen is that, or something older: a watch may lag behind the answers to
   * writes.
   */
  #known({ path }: FencedObject, seen: Identity | undefined): Precondition | undefined {
    const held = this.#held.get(path);
    const { resourceVersion } = preconditionOf(seen);
    if (held?.precondition === undefined || !held.own.has(resourceVersion)) return undefined;
    // The watch has caught up, and will not show what came before any more.
    if (resourceVersion === held.precondition.resourceVersion) held.own = new Set([resourceVersion]);
    return held.precondition;
  }

  async #take(object: FencedObject, seen: Identity | undefined): Promise<Precondition> {
    const precondition = await this.#confirmed(seen);
    const touches = seen !== undefined && !this.#held.has(object.path);
    const touched = touches ? await touch(this.#deps.client, object, precondition) : [];
    return this.#hold(object, precondition, ...touched);
  }

  /** The version that was seen, once the Lease is known to be still this term's. */
  async #confirmed(seen: Identity | undefined): Promise<Precondition> {
    await this.#deps.term.confirm();
    return preconditionOf(seen);
  }

  /** Holds the last of these versions. */
  #hold({ path }: FencedObject, ...versions: Versions): Precondition {
    const own = this.#held.get(path)?.own ?? new Set();
    for (const { resourceVersion } of versions) own.add(resourceVersion);
    const precondition = versions.at(-1) ?? versions[0];
    this.#held.set(path, { precondition, own });
    return precondition;
  }

  #forget({ path }: FencedObject): void {
    const held = this.#held.get(path);
    if (held !== undefined) held.precondition = undefined;
  }

  /** After a failure the outcome is unknown, and what the object is now has to be seen again. */
  async #reporting<T>(object: FencedObject, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.#forget(object);
      if (statusOf(error) === 409 || hasCode(error, "term-over")) {
        const { kind, name } = object;
        this.#deps.onRefused?.();
        this.#deps.log.warn(
          { code: "write-refused", kind, name },
          "not written: changed by another, or the term is over",
        );
      }
      throw error;
    }
  }
}

function preconditionOf(seen: Identity | undefined): Precondition {
  if (seen === undefined) return { resourceVersion: NO_VERSION };
  return { resourceVersion: "", ...identityOf(seen) };
}

/**
 * Gives an object a new version and changes nothing else: an apply of an empty map only adds an entry to
 * `managedFields`, and one without it removes the entry. An apply of equal fields would not be stored at all.
 * Returns both versions, the newer one last.
 */
async function touch(
  client: Pick<KubeClient, "apply">,
  { apiVersion, kind, namespace, name, path }: FencedObject,
  precondition: Partial<Precondition>,
): Promise<[Precondition, Precondition]> {
  const apply = async (metadata: object) => {
    const object = { apiVersion, kind, metadata: { name, ...(namespace && { namespace }), ...metadata } };
    const options = { fieldManager: TOUCH_MANAGER };
    return preconditionOf((await client.apply<{ metadata: Identity }>(path, object, options)).metadata);
  };
  const first = await apply({ ...precondition, annotations: {} });
  return [first, await apply(first)];
}
