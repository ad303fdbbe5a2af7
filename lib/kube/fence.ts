import { hasCode, statusOf } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import type { LeaderTerm } from "./lease-term.ts";
import type { ObjectMeta } from "./types.ts";

/** An object that a leader writes. */
export interface FencedObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Undefined if cluster-scoped. */
  readonly namespace?: string;
  readonly name: string;
  /** The API path, as `corePath` returns it. */
  readonly path: string;
}

/**
 * Metadata of a write. The API server refuses the write unless the object has exactly this identity. Without `uid`,
 * the object must not exist.
 */
export interface Precondition {
  readonly uid?: string;
  readonly resourceVersion: string;
}

/** Identifies an object and its version. */
export interface Identity extends Pick<ObjectMeta, "uid" | "resourceVersion"> {}

export function identityOf({ uid, resourceVersion }: Identity): Identity {
  return { ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
}

interface FenceDeps {
  readonly client: Pick<KubeClient, "apply" | "delete">;
  readonly term: LeaderTerm;
  readonly log: Logger;
  /** Called when a write was refused, because the object has changed or the term is over. */
  readonly onRefused?: () => void;
}

/** Successive versions of an object. */
type Versions = readonly [Precondition, ...Precondition[]];

/** A term's knowledge of an object. */
interface Held {
  /** Undefined if the outcome of the last write is unknown. */
  precondition: Precondition | undefined;
  /** Versions that a lagging watch may still show: those that this term took over or wrote. */
  own: Set<string>;
}

/** No object ever has this version. An apply with it creates the object, and is rejected if the object exists. */
export const NO_VERSION = "1";
/** Maximum number of reads of an object that others keep changing. */
const MAX_READS = 3;
/** The field manager of a touch. It owns no fields afterwards. */
const TOUCH_MANAGER = "switchback-term";

/**
 * Binds the writes of a leader to its term. A leader may be suspended and resumed after its term. The API server then
 * refuses its writes, even one that was about to be sent:
 *
 * 1. A write names the version that it replaces. Either this term wrote that version, or it saw the version and then
 *    confirmed that the Lease is still its own.
 * 2. Before it relies on an object that it has not written, a term touches the object. A touch and a write give the
 *    object a new version. From then on, the versions that earlier terms know are outdated.
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
   * Returns the precondition of the next write of an object. `seen` is its last seen identity, or undefined if it
   * does not exist. The term's first call touches an object that exists. Throws `term-over`, and status 409 if the
   * object has changed since.
   */
  async take(object: FencedObject, seen: Identity | undefined): Promise<Precondition> {
    return this.#known(object, seen) ?? (await this.#reporting(object, () => this.#take(object, seen)));
  }

  /**
   * Reads an object that is not watched. Returns undefined if it does not exist. The caller may write the object with
   * the returned version as the precondition. Throws the errors of `get` and `take`.
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
        // Somebody changed the object between the read and the touch.
        if (statusOf(error) !== 409 || reads === MAX_READS) throw error;
      }
    }
  }

  /**
   * Writes an object whose last seen identity is `seen`. `send` puts the precondition into the metadata. Throws the
   * errors of `take`.
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
      // The API server does not store an apply with equal fields. The versions that earlier terms know would still be
      // valid.
      const touches = isFirst && written.resourceVersion === precondition.resourceVersion;
      const touched = touches ? await touch(this.#deps.client, object, written) : [];
      const versions: Versions = [precondition, written, ...touched];
      return { answer, versions };
    });
    this.#hold(object, ...versions);
    // A later term that began before the creation has seen no object to touch. So this term confirms the Lease again
    // before it relies on the object.
    if (versions[0].resourceVersion === NO_VERSION) this.#forget(object);
    return answer;
  }

  /**
   * Deletes an object whose last seen identity is `seen`. A missing object is no error. Throws the errors of `take`.
   */
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
        // The seen version was newer than the last write of this term, not older.
        return await send(await this.#confirmed(seen));
      }
    });
  }

  /**
   * Returns the version that this term wrote last, if the seen version is the same or older: a watch may lag behind
   * the answers to writes. Otherwise undefined.
   */
  #known({ path }: FencedObject, seen: Identity | undefined): Precondition | undefined {
    const held = this.#held.get(path);
    const { resourceVersion } = preconditionOf(seen);
    if (held?.precondition === undefined || !held.own.has(resourceVersion)) return undefined;
    // The watch has caught up. It will not show earlier versions any more.
    if (resourceVersion === held.precondition.resourceVersion) held.own = new Set([resourceVersion]);
    return held.precondition;
  }

  async #take(object: FencedObject, seen: Identity | undefined): Promise<Precondition> {
    const precondition = await this.#confirmed(seen);
    const touches = seen !== undefined && !this.#held.has(object.path);
    const touched = touches ? await touch(this.#deps.client, object, precondition) : [];
    return this.#hold(object, precondition, ...touched);
  }

  /** Confirms that the Lease is still this term's, then returns the seen version. */
  async #confirmed(seen: Identity | undefined): Promise<Precondition> {
    await this.#deps.term.confirm();
    return preconditionOf(seen);
  }

  /** Stores the last of these versions. */
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

  /** Runs a write. After a failure its outcome is unknown, so the object must be seen again. */
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
 * Gives an object a new version and changes nothing else. It applies an empty map, which only adds an entry to
 * `managedFields`, and then applies without the map, which removes the entry. The API server would not store an apply
 * with equal fields at all. Returns both versions, the newer one last.
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
