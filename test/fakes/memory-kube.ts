import { parseObjectPath } from "#cli/dump/object-paths.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { METADATA_LIST, METADATA_WATCH } from "#lib/kube/accept.ts";
import type { KubeClient, WriteOptions } from "#lib/kube/client.ts";
import type { Query } from "#lib/kube/paths.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import type { StreamOptions } from "#lib/kube/stream.ts";
import type { ApiObject, JsonPatchOperation, ObjectMeta, ReadOptions } from "#lib/kube/types.ts";
import { inCollection, type KubeObject, memberPath, patched, selecting, sent } from "./memory-objects.ts";

/** A write, as a client requested it. */
export interface Write {
  readonly method: "APPLY" | "CREATE" | "REPLACE" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body: unknown;
  readonly fieldManager: string | undefined;
}

interface Watch {
  readonly path: string;
  readonly matches: (path: string, object: KubeObject) => boolean;
  readonly accept: string | undefined;
  readonly onLine: (line: string) => void;
  readonly end: () => void;
}

/** Sends an event to a watch, now or later. */
type Deliver = (send: () => void) => void;
const AT_ONCE: Deliver = (send) => send();

/**
 * Objects in memory behind the methods of a `KubeClient`. It has the reads, writes and watches of an API server that
 * unit tests on a stopped clock need. It records each request, can delay or refuse it, and can cut watches. A watch
 * gets a write's event after the client got the answer. Services that a client writes get the ClusterIPs
 * 198.51.100.1, .2, ... in the order of their creation.
 *
 * Use `MemoryServer` if requests or the real client matter, and `fakeApi` for faults of connections.
 */
export class MemoryKube {
  readonly writes: Write[] = [];
  /** The first three bytes of ClusterIPs. */
  serviceRange = "198.51.100";
  /** Called before each write. If it throws, the error is the answer. The write waits for a returned promise. */
  onWrite: (write: Write) => void | Promise<void> = () => {};
  /** Paths of objects and collections that clients have read, in order. */
  readonly reads: string[] = [];
  /** Called before each read, in the same way as `onWrite`. */
  onRead: (path: string) => void | Promise<void> = () => {};
  /** The collections that were requested as whole objects, not as metadata only. */
  readonly whole = new Set<string>();
  /** Answers for paths that are not objects, such as those of API discovery. */
  readonly documents = new Map<string, unknown>();
  /** Aborted watches stay open until this settles. Use it to test that a stop waits for them. */
  lingering: Promise<void> = Promise.resolve();
  readonly #refused = new Map<string, number>();
  readonly #objects = new Map<string, KubeObject>();
  readonly #watches = new Set<Watch>();
  readonly #held = new Map<string, Promise<void>>();
  /** The latest version. It starts above 0. */
  #version = 1;
  #addresses = 0;

  readonly client: KubeClient = {
    get: async <T>(path: string, query?: Query, options?: ReadOptions) => (await this.#get(path, query, options)) as T,
    list: async <T>(path: string, query?: Query, options?: ReadOptions) => {
      const { items, metadata } = (await this.#get(path, query, options)) as { items: T[]; metadata: ObjectMeta };
      return { items, resourceVersion: metadata.resourceVersion ?? "" };
    },
    apply: async <T>(path: string, object: object, options?: WriteOptions) => {
      await this.#begin("APPLY", path, object, options);
      this.#check(path, (object as KubeObject).metadata);
      return this.#write(path, object) as T;
    },
    create: async <T>(path: string, object: object) => {
      await this.#begin("CREATE", path, object);
      const { name, generateName } = (object as KubeObject).metadata;
      return this.#write(`${path}/${name ?? `${generateName}${this.#version}`}`, object) as T;
    },
    replace: async <T>(path: string, object: object) => {
      await this.#begin("REPLACE", path, object);
      const { resourceVersion } = (object as KubeObject).metadata;
      if (this.#read(path).metadata.resourceVersion !== resourceVersion) throw refusal(path, 409);
      return this.#write(path, object) as T;
    },
    mergePatch: async <T>(path: string, body: object, options?: WriteOptions) => {
      // A dry run changes nothing, and is not in `writes`.
      if (options?.dryRun) return this.#read(path) as T;
      await this.#begin("PATCH", path, body, options);
      const before = this.#read(path);
      this.#check(path, (body as Partial<KubeObject>).metadata);
      return this.#write(path, patched(before, body)) as T;
    },
    jsonPatch: async <T>(path: string, operations: readonly JsonPatchOperation[]) => {
      await this.#begin("PATCH", path, operations);
      return this.#write(path, this.#jsonPatched(path, operations)) as T;
    },
    delete: async (path: string, options?: { preconditions?: Partial<ObjectMeta> }) => {
      await this.#begin("DELETE", path, undefined);
      this.#read(path);
      this.#check(path, options?.preconditions);
      this.#delete(path);
    },
    raw: async (path: string) => {
      throw refusal(path, 503);
    },
    stream: (path: string, query: Query, options: StreamOptions) => this.#stream(path, query, options),
    close: () => {},
  };

  /** Paths with an open watch, sorted. A path with two watches occurs twice. */
  get watched(): string[] {
    return Array.from(this.#watches, ({ path }) => path).sort();
  }

  /** The current object at a path. */
  at(path: string): KubeObject | undefined {
    return this.#objects.get(path);
  }

  /** A field of an object, such as `data` or `spec`; empty if either is missing. */
  field<T>(path: string, name: string): Partial<T> {
    return (this.#objects.get(path)?.[name] ?? {}) as Partial<T>;
  }

  /** Paths of all objects of a collection. */
  paths(collection: string): string[] {
    return [...this.#objects.keys()].filter((path) => inCollection(path, collection));
  }

  /**
   * Writes an object as another client would. Its uid is its path, unless `object` has one. Returns the written
   * object.
   */
  put(path: string, object: object): KubeObject {
    return this.#write(path, object);
  }

  #write(path: string, object: object, deliver: Deliver = setImmediate): KubeObject {
    const { namespace, resource, name } = parseObjectPath(path) ?? {};
    const before = this.#objects.get(path);
    const { metadata = {}, ...rest } = structuredClone(object) as Partial<KubeObject>;
    const uid = metadata.uid ?? path;
    const own = { name, uid, resourceVersion: String(++this.#version), ...(namespace && { namespace }) };
    const written: KubeObject = { ...rest, metadata: { ...metadata, ...own } as ObjectMeta };
    if (resource === "services") this.#allocate(written, before);
    if (resource === "namespaces")
      written.metadata.labels = { ...metadata.labels, "kubernetes.io/metadata.name": name ?? "" };
    this.#objects.set(path, written);
    this.#announce(path, before, written, deliver);
    return structuredClone(written);
  }

  /** Writes an object into a collection. In contrast to `put`, watches get the event at once. */
  set<T extends ApiObject>(collection: string, object: T): void {
    const { name = "", namespace } = object.metadata ?? {};
    this.#write(memberPath(collection, name, namespace), object, AT_ONCE);
  }

  /** Deletes `namespace/name` or `name` from a collection. Watches get the event at once. */
  unset(collection: string, key: string): void {
    const [name = "", namespace] = key.split("/").reverse();
    this.#delete(memberPath(collection, name, namespace), AT_ONCE);
  }

  /** Throws like the API server if a write's `uid` or `resourceVersion` is not that of the object. */
  #check(path: string, { uid, resourceVersion }: Partial<ObjectMeta> = {}): void {
    const found = this.#objects.get(path)?.metadata;
    if (found === undefined && uid !== undefined) throw refusal(path, 409);
    if (found === undefined) return;
    if (uid !== undefined && uid !== found.uid) throw refusal(path, 409);
    if (resourceVersion !== undefined && resourceVersion !== found.resourceVersion) throw refusal(path, 409);
  }

  /** Applies "add" and "replace" operations. An operation on `resourceVersion` is a precondition. */
  #jsonPatched(path: string, operations: readonly JsonPatchOperation[]): KubeObject {
    const object = structuredClone(this.#read(path));
    for (const { path: pointer, value } of operations) {
      if (pointer === "/metadata/resourceVersion") this.#check(path, { resourceVersion: String(value) });
      const keys = pointer.slice(1).split("/");
      const last = keys.pop() ?? "";
      const parent = keys.reduce<unknown>((field, key) => (field as Record<string, unknown>)[key], object);
      (parent as Record<string, unknown>)[last] = value;
    }
    return object;
  }

  /** Deletes an object as another client would. */
  remove(path: string): void {
    if (this.#objects.has(path)) this.#delete(path);
  }

  #delete(path: string, deliver: Deliver = setImmediate): void {
    const object = this.#read(path);
    this.#objects.delete(path);
    object.metadata.resourceVersion = String(++this.#version);
    this.#announce(path, object, undefined, deliver);
  }

  /** Reads of a collection or document get no answer until the returned function is called. */
  hold(path: string): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held.set(path, promise);
    return resolve;
  }

  /** Refuses reads and watches of a path with this status; 0: there is no answer. Undefined: answers them again. */
  refuse(path: string, status: number | undefined): void {
    if (status === undefined) this.#refused.delete(path);
    else this.#refused.set(path, status);
  }

  /** Ends the watches of a collection, like a server that closes them. */
  cut(collection: string): void {
    for (const watch of [...this.#watches]) if (watch.path === collection) watch.end();
  }

  /** Sends a bookmark to the watches of a collection. */
  bookmark(collection: string): void {
    const object = { metadata: { resourceVersion: String(this.#version) } };
    for (const { path, accept, onLine } of this.#watches) {
      if (path === collection) onLine(JSON.stringify({ type: "BOOKMARK", object: sent(object, accept) }));
    }
  }

  async #begin(method: Write["method"], path: string, body: unknown, options: WriteOptions = {}): Promise<void> {
    const write = { method, path, body: structuredClone(body), fieldManager: options.fieldManager };
    this.writes.push(write);
    await this.onWrite(write);
    options.signal?.throwIfAborted();
  }

  async #get(path: string, query: Query | undefined, { signal, accept }: ReadOptions = {}): Promise<unknown> {
    signal?.throwIfAborted();
    this.reads.push(path);
    await this.onRead(path);
    signal?.throwIfAborted();
    const held = this.#held.get(path);
    if (held !== undefined) await Promise.race([held, abortOf(signal)]);
    this.#throwIfRefused(path);
    const document = this.documents.get(path);
    if (document !== undefined) return document;
    const parsed = parseObjectPath(path);
    if (parsed === undefined) throw refusal(path, 404);
    if (parsed.name !== undefined) return structuredClone(this.#read(path));
    if (accept !== METADATA_LIST) this.whole.add(path);
    const matches = selecting(path, query);
    const objects = [...this.#objects].filter(([each, object]) => matches(each, object));
    const metadata = { resourceVersion: String(this.#version) };
    return { metadata, items: objects.map(([, object]) => structuredClone(sent(object, accept))) };
  }

  #read(path: string): KubeObject {
    const object = this.#objects.get(path);
    if (object === undefined) throw refusal(path, 404);
    return object;
  }

  async #stream(path: string, query: Query, { signal, accept, onOpen, onLine }: StreamOptions): Promise<"closed"> {
    signal.throwIfAborted();
    this.#throwIfRefused(path);
    if (accept !== METADATA_WATCH) this.whole.add(path);
    const ended = Promise.withResolvers<void>();
    const watch = { path, matches: selecting(path, query), accept, onLine, end: ended.resolve };
    this.#watches.add(watch);
    onOpen?.();
    try {
      await Promise.race([ended.promise, abortOf(signal)]);
      return "closed";
    } finally {
      if (signal.aborted) await this.lingering;
      this.#watches.delete(watch);
    }
  }

  #throwIfRefused(path: string): void {
    const status = this.#refused.get(path);
    if (status === 0) throw new SwitchbackError("kube-unreachable", `${path}: no answer`);
    if (status !== undefined) throw refusal(path, status);
  }

  /**
   * Sends the events of a change. If an object enters or leaves a watch's selection, the watch gets an addition or a
   * deletion. A deletion has the last state.
   */
  #announce(path: string, before: KubeObject | undefined, after: KubeObject | undefined, deliver: Deliver): void {
    for (const watch of this.#watches) {
      const had = before !== undefined && watch.matches(path, before);
      const has = after !== undefined && watch.matches(path, after);
      if (!had && !has) continue;
      const type = has ? (had ? "MODIFIED" : "ADDED") : "DELETED";
      const last = { ...before, metadata: { ...before?.metadata, resourceVersion: String(this.#version) } };
      const line = JSON.stringify({
        type,
        object: sent(has ? (after as KubeObject) : (last as KubeObject), watch.accept),
      });
      deliver(() => this.#watches.has(watch) && watch.onLine(line));
    }
  }

  #allocate(service: KubeObject, before: KubeObject | undefined): void {
    const spec = (service.spec ?? {}) as { clusterIPs?: readonly string[] };
    const had = (before?.spec as typeof spec | undefined)?.clusterIPs;
    service.spec = { ...spec, clusterIPs: spec.clusterIPs ?? had ?? [`${this.serviceRange}.${++this.#addresses}`] };
  }
}

/** A refusal of the API server. */
export function refusal(path: string, status: number): KubeStatusError {
  return new KubeStatusError(path, status, { message: "refused by the test" });
}

function abortOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
