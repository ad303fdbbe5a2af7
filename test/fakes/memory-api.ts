import { SwitchbackError } from "#lib/errors/errors.ts";
import { METADATA_LIST, METADATA_WATCH } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Query } from "#lib/kube/paths.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import type { StreamOptions } from "#lib/kube/stream.ts";
import type { ApiObject, ReadOptions } from "#lib/kube/types.ts";

interface OpenWatch {
  readonly collection: string;
  readonly onLine: (line: string) => void;
  readonly end: () => void;
}

/**
 * The read side of an API server in memory: lists, watches and single documents, without sockets and without delay.
 * It is for tests of informers, sources and discovery: it can hold, refuse and cut the requests for one collection.
 * It accepts no writes (`MemoryKube` does) and does not parse HTTP (`MemoryServer` does).
 *
 * A collection's name is its path, followed by `?` and the field selector if the product uses one. A list contains
 * the objects that were set before it. A later change is an event, which the watch gets at once. A namespace's list
 * has the objects of the cluster's collection too.
 */
export class MemoryApi {
  readonly client: KubeClient;
  /** Answers to single requests, by path. A single request for another path gets a 404. */
  readonly documents = new Map<string, unknown>();
  /** Every list and document that was requested, in order. */
  readonly asked: string[] = [];
  /** The collections that were requested as whole objects, not as metadata only. */
  readonly whole = new Set<string>();
  /** Aborted watches stay open until this settles. Use it to test that a stop waits for them. */
  lingering: Promise<void> = Promise.resolve();
  readonly #objects = new Map<string, Map<string, ApiObject>>();
  readonly #refused = new Map<string, number>();
  readonly #held = new Map<string, PromiseWithResolvers<void>>();
  readonly #open = new Set<OpenWatch>();
  #version = 1;

  constructor() {
    const get = (path: string, query?: Query, options?: ReadOptions) => this.#get(path, query, options);
    const stream = (path: string, query: Query, options: StreamOptions) => this.#stream(path, query, options);
    this.client = { get, stream } as Pick<KubeClient, "get" | "stream"> as KubeClient;
  }

  /** The collections with an open watch, sorted. A collection with two watches occurs twice. */
  get watched(): string[] {
    return [...this.#open].map(({ collection }) => collection).sort();
  }

  /** Creates or changes an object. */
  set<T extends ApiObject>(collection: string, object: T): void {
    const { key, whole } = this.#stamped(object);
    const objects = this.#objectsOf(collection);
    const type = objects.has(key) ? "MODIFIED" : "ADDED";
    objects.set(key, whole);
    this.#tell(collection, type, whole);
  }

  /** Deletes an object by `namespace/name` or `name`. */
  remove(collection: string, key: string): void {
    const object = this.#objectsOf(collection).get(key);
    if (object === undefined) throw new Error(`no ${key} in ${collection}`);
    this.#objectsOf(collection).delete(key);
    this.#tell(collection, "DELETED", this.#stamped(object).whole);
  }

  /** Holds the answers to lists of a collection until the returned function is called. */
  hold(collection: string): () => void {
    const held = Promise.withResolvers<void>();
    this.#held.set(collection, held);
    return () => {
      this.#held.delete(collection);
      held.resolve();
    };
  }

  /** Answers lists and watches of a collection with this status. Undefined: answers them normally again. */
  refuse(collection: string, status: number | undefined): void {
    if (status === undefined) this.#refused.delete(collection);
    else this.#refused.set(collection, status);
  }

  /** Ends the watches of a collection, like a server that closes them. */
  cut(collection: string): void {
    for (const watch of [...this.#open]) if (watch.collection === collection) watch.end();
  }

  async #get(path: string, query?: Query, { signal, accept }: ReadOptions = {}): Promise<unknown> {
    signal?.throwIfAborted();
    const collection = nameOf(path, query);
    this.asked.push(collection);
    const held = this.#held.get(collection);
    if (held !== undefined) await Promise.race([held.promise, abortOf(signal)]);
    this.#throwIfRefused("GET", collection);
    if (query?.limit === undefined) {
      if (!this.documents.has(path)) throw new KubeStatusError(`GET ${path}`, 404, { reason: "NotFound", message: "" });
      return structuredClone(this.documents.get(path));
    }
    if (accept !== METADATA_LIST) this.whole.add(collection);
    const items = structuredClone([...this.#objectsOf(collection).values(), ...this.#inNamespace(collection)]);
    return { kind: "List", metadata: { resourceVersion: String(this.#version) }, items };
  }

  async #stream(path: string, query: Query, { signal, accept, onOpen, onLine }: StreamOptions): Promise<"closed"> {
    signal.throwIfAborted();
    const collection = nameOf(path, query);
    this.#throwIfRefused("WATCH", collection);
    if (accept !== METADATA_WATCH) this.whole.add(collection);
    const ended = Promise.withResolvers<void>();
    const watch = { collection, onLine, end: ended.resolve };
    this.#open.add(watch);
    onOpen?.();
    try {
      await Promise.race([ended.promise, abortOf(signal)]);
      return "closed";
    } finally {
      if (signal.aborted) await this.lingering;
      this.#open.delete(watch);
    }
  }

  #throwIfRefused(what: string, collection: string): void {
    const status = this.#refused.get(collection);
    if (status === 0) throw new SwitchbackError("kube-unreachable", `${what} ${collection}: no answer`);
    if (status !== undefined) {
      throw new KubeStatusError(`${what} ${collection}`, status, { reason: "Refused", message: "refused by the fake" });
    }
  }

  #tell(collection: string, type: string, object: ApiObject): void {
    const line = JSON.stringify({ type, object });
    for (const watch of [...this.#open]) if (watch.collection === collection) watch.onLine(line);
  }

  #stamped(object: ApiObject): { readonly key: string; readonly whole: ApiObject } {
    const { namespace, name = "" } = object.metadata ?? {};
    const key = namespace === undefined ? name : `${namespace}/${name}`;
    this.#version += 1;
    return {
      key,
      whole: { ...object, metadata: { uid: key, ...object.metadata, resourceVersion: `${this.#version}` } },
    };
  }

  /** The objects of a cluster's collection that are in the namespace of a path. */
  #inNamespace(collection: string): ApiObject[] {
    const [, start, namespace, resource] = /^(.*)\/namespaces\/([^/]+)\/([^/]+)$/.exec(collection) ?? [];
    if (namespace === undefined) return [];
    const all = this.#objectsOf(`${start}/${resource}`).values();
    return all.filter(({ metadata }) => metadata?.namespace === namespace).toArray();
  }

  #objectsOf(collection: string): Map<string, ApiObject> {
    const objects = this.#objects.get(collection) ?? new Map<string, ApiObject>();
    this.#objects.set(collection, objects);
    return objects;
  }
}

function nameOf(path: string, query: Query | undefined): string {
  return query?.fieldSelector === undefined ? path : `${path}?${query.fieldSelector}`;
}

function abortOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
