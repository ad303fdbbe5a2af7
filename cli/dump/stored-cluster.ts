import type * as v from "valibot";
import { silence } from "#doctor/gather-names.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { listAll } from "#lib/kube/list.ts";
import type { Query } from "#lib/kube/paths.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { collectionOf, type ObjectPath, parseObjectPath } from "./object-paths.ts";
import type { answerSchema } from "./schemas.ts";

/** See `answerSchema`. */
export type StoredAnswer = Omit<v.InferOutput<typeof answerSchema>, "method" | "path" | "body"> & {
  readonly body?: object | undefined;
};

/** Ends the message about what is not stored. */
export const NOT_IN_FILE = "it is not in the file";

/** Objects of any kinds, and answers of an API server. */
export class StoredCluster {
  /** By `<method> <path>`. A list has one if it was read. */
  readonly answers = new Map<string, StoredAnswer>();
  /** The paths that a client asked for, and that are not stored. */
  readonly lacking = new Set<string>();
  /** By the path of the collection, then by `namespace/name`. */
  readonly #collections = new Map<string, Map<string, ApiObject>>();

  /** A handwritten object has no version, and a watch refuses objects without a version. */
  put(collection: string, object: ApiObject): void {
    const { namespace = "", name = "" } = object.metadata ?? {};
    const objects = this.#collections.get(collection) ?? new Map<string, ApiObject>();
    this.#collections.set(collection, objects);
    objects.set(`${namespace}/${name}`, { ...object, metadata: { resourceVersion: "1", ...object.metadata } });
  }

  /** Adds an object at the path of its version and kind. */
  add(object: ApiObject): void {
    this.put(collectionOf(object), object);
  }

  *objects(): Iterable<ApiObject> {
    for (const objects of this.#collections.values()) yield* objects.values();
  }

  /**
   * A client that answers as an API server with these objects would: lists, selectors, discovery, and watches without
   * events. It refuses to write. A failed call fails again, with the same message. A kind without an object and without
   * an answer is not known; with `assumesNone`, it has no objects.
   */
  client(assumesNone = false): KubeClient {
    const get = async <T>(path: string, query?: Query) => this.#answerTo(path, query, assumesNone) as T;
    const stored = async (call: string) => {
      const answer = this.answers.get(call);
      if (answer === undefined) throw notStored(call);
      throwIfFailed(answer, call);
      return answer;
    };
    const refuse = async (path: string): Promise<never> => {
      throw new KubeStatusError(path, 405, { message: "a stored cluster cannot be changed" });
    };
    return {
      get,
      list: (path, query, options) => listAll({ get }, path, query, options),
      create: async <T>(path: string) => ((await stored(`POST ${path}`)).body ?? {}) as T,
      async raw(path) {
        const { status, text = "" } = await stored(`GET ${path}`);
        return { status, text, contentType: "" };
      },
      stream: (_path, _query, options) => silence(options),
      apply: refuse,
      mergePatch: refuse,
      jsonPatch: refuse,
      replace: refuse,
      delete: refuse,
      close() {},
    };
  }

  #answerTo(path: string, query: Query = {}, assumesNone: boolean): object {
    const answer = this.answers.get(`GET ${path}`);
    if (answer !== undefined) throwIfFailed(answer, `GET ${path}`);
    if (path === "/version") return {};
    const parsed = parseObjectPath(path);
    if (parsed === undefined) return this.#served(path);
    const { collection, namespace, name } = parsed;
    const objects = this.#collections.get(collection) ?? new Map<string, ApiObject>();
    const object = objects.get(`${namespace ?? ""}/${name}`);
    if (object !== undefined) return object;
    const inside = [...objects.values()].filter(({ metadata }) => [undefined, metadata?.namespace].includes(namespace));
    const items = name === undefined ? inside.filter(selectedBy(query)) : [];
    if (items.length === 0 && !this.#isListed(parsed)) {
      this.lacking.add(path);
      if (!assumesNone) throw notStored(`GET ${path}`);
    }
    if (name !== undefined) throw missing(path);
    return { metadata: { resourceVersion: "1" }, items };
  }

  /** Whether every object of the kind is known. A namespace that does not exist has none. */
  #isListed({ collection, resource, namespace }: ObjectPath): boolean {
    const namespaces = this.#collections.get("/api/v1/namespaces");
    const isAbsent = namespace !== undefined && namespaces !== undefined && !namespaces.has(`/${namespace}`);
    const paths = [collection, `${collection.slice(0, -resource.length)}namespaces/${namespace}/${resource}`];
    return isAbsent || paths.some((path) => this.#collections.has(path) || this.answers.has(`GET ${path}`));
  }

  /** What discovery says of a group or of one of its versions: the kinds of the objects, and those that were read. */
  #served(path: string): object {
    const listed = Array.from(this.answers.keys(), (key) => key.replace("GET ", ""));
    const served = [...this.#collections.keys(), ...listed]
      .flatMap((each) => parseObjectPath(each) ?? [])
      .filter(({ apiVersion }) => `/apis/${apiVersion}/`.startsWith(`${path}/`));
    if (served.length === 0) {
      this.lacking.add(path);
      throw missing(path);
    }
    const versions = served.map(({ apiVersion }) => ({ version: apiVersion.replace(/.*\//, "") }));
    const resources = served.map(({ resource: name, collection }) => {
      const [object] = this.#collections.get(collection)?.values() ?? [];
      return { name, kind: object?.kind ?? name };
    });
    return { versions, resources };
  }
}

function notStored(what: string): SwitchbackError {
  return new SwitchbackError("kube-unreachable", `${what}: ${NOT_IN_FILE}`);
}

function throwIfFailed({ status, message }: StoredAnswer, what: string): void {
  if (status === 0) throw new SwitchbackError("kube-unreachable", message ?? `${what}: no response`);
  // A stored message is complete. A page that `raw` read has no message.
  if (message !== undefined) throw new SwitchbackError("kube-status", message, { status });
}

function missing(path: string): KubeStatusError {
  return new KubeStatusError(`GET ${path}`, 404, { message: "not stored" });
}

/**
 * Returns a filter for a query's selectors. Selectors are `key`, `!key`, `key=value`, `key!=value` and `key in
 * (value,value)`, separated by commas.
 */
export function selectedBy({ labelSelector, fieldSelector }: Query): (object: ApiObject) => boolean {
  const labels = termsOf(labelSelector);
  const fields = termsOf(fieldSelector);
  return (object) =>
    labels.every((fits) => fits((key) => object.metadata?.labels?.[key])) &&
    fields.every((fits) => fits((path) => fieldAt(object, path)));
}

type Term = (lookUp: (key: string) => unknown) => boolean;

function termsOf(selector: Query[string] = ""): Term[] {
  const terms = String(selector).match(/(?:\([^)]*\)|[^,(])+/g) ?? [];
  return terms.map((term) => {
    const [, not, key = "", operator, values = ""] = /^(!?)([^!= ]+)(!?=+| in )?\(?([^)]*)/.exec(term) ?? [];
    if (operator === undefined) return (lookUp) => (lookUp(key) === undefined) === (not === "!");
    return (lookUp) => values.split(",").includes(lookUp(key) as string) === !operator.startsWith("!");
  });
}

function fieldAt(object: ApiObject, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], object);
}
