import { silence } from "#doctor/gather-names.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { listAll } from "#lib/kube/list.ts";
import type { Query } from "#lib/kube/paths.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import { type ObjectPath, parseObjectPath, type StoredObjects } from "./stored-objects.ts";

/** What the API server answered, besides the objects: a list was read, a refusal, a page, or a dry run. */
export interface StoredAnswer {
  /** The HTTP status. 0 means that there was no answer. */
  readonly status: number;
  /** A JSON answer. */
  readonly body?: object | undefined;
  /** The result of `KubeClient.raw`. */
  readonly text?: string | undefined;
  readonly contentType?: string | undefined;
  /** The whole message of a failed call. */
  readonly message?: string | undefined;
}

/** The data from which `storedClient` answers. */
export interface StoredCluster {
  readonly objects: StoredObjects;
  /** By `<method> <path>`. A list has one if it was read. */
  readonly answers: ReadonlyMap<string, StoredAnswer>;
  /** Receives each path that was asked for, and that the file does not have. */
  readonly lacking?: Set<string>;
}

/** Ends the message about what the file does not have. */
export const NOT_IN_FILE = "it is not in the file";

/**
 * A client that answers from stored objects, as an API server with these objects would: lists, selectors, discovery,
 * and watches without events. It refuses to write. A kind without an object and without an answer is not known. A
 * failed call fails again, with the same message.
 */
export function storedClient(cluster: StoredCluster): KubeClient {
  const get = async <T>(path: string, query?: Query) => answerTo(cluster, path, query) as T;
  const stored = async (method: string, path: string) => {
    const answer = cluster.answers.get(`${method} ${path}`);
    if (answer === undefined) throw notInFile(cluster, method, path);
    throwIfFailed(answer, `${method} ${path}`);
    return answer;
  };
  const refuse = async (path: string): Promise<never> => {
    throw new KubeStatusError(path, 405, { message: "a stored cluster cannot be changed" });
  };
  return {
    get,
    list: (path, query, options) => listAll({ get }, path, query, options),
    create: async <T>(path: string) => ((await stored("POST", path)).body ?? {}) as T,
    async raw(path) {
      const { status, text = "", contentType = "" } = await stored("GET", path);
      return { status, text, contentType };
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

function answerTo(cluster: StoredCluster, path: string, query: Query = {}): object {
  const { objects, answers } = cluster;
  const answer = answers.get(`GET ${path}`);
  if (answer !== undefined) throwIfFailed(answer, `GET ${path}`);
  if (path === "/version") return {};
  const parsed = parseObjectPath(path);
  if (parsed === undefined) return served(cluster, path);
  if (parsed.name === undefined) {
    const items = objects.select(parsed, query);
    if (items.length === 0 && !isListed(cluster, parsed)) throw notInFile(cluster, "GET", path);
    return { metadata: { resourceVersion: "1" }, items };
  }
  const object = objects.get(parsed);
  if (object !== undefined) return object;
  throw isListed(cluster, parsed) ? missing(path) : notInFile(cluster, "GET", path);
}

const NAMESPACES = { root: "/api/v1", resource: "namespaces", namespace: undefined };

/** Whether every object of the kind is known. A namespace that does not exist has none. */
function isListed({ objects, answers }: StoredCluster, { root, resource, namespace }: ObjectPath): boolean {
  const isAbsent =
    namespace !== undefined && objects.has(NAMESPACES) && objects.get({ ...NAMESPACES, name: namespace }) === undefined;
  const inNamespace = `GET ${root}/namespaces/${namespace}/${resource}`;
  return (
    isAbsent || objects.has({ root, resource }) || answers.has(`GET ${root}/${resource}`) || answers.has(inNamespace)
  );
}

/** The discovery answer for a group, or for one of its versions: the kinds of the objects, and those that were read. */
function served({ objects, answers, lacking }: StoredCluster, path: string): object {
  const verbs = ["list", "watch", "create"];
  const versions = new Set<string>();
  const resources = new Map<string, string>();
  // Every API server has Services.
  const always = path === "/api/v1" ? ["/api/v1/services"] : [];
  const lists = Array.from(answers.keys(), (key) => key.replace(/^GET /, ""));
  for (const parsed of [...objects.paths(), ...lists, ...always].map(parseObjectPath)) {
    if (parsed?.root.startsWith(`${path}/`)) versions.add(parsed.root.slice(path.length + 1));
    if (parsed?.root === path) resources.set(parsed.resource, objects.select(parsed)[0]?.kind ?? parsed.resource);
  }
  if (versions.size > 0) return { versions: Array.from(versions, (version) => ({ version })) };
  if (resources.size > 0) return { resources: Array.from(resources, ([name, kind]) => ({ name, kind, verbs })) };
  lacking?.add(path);
  throw missing(path);
}

function throwIfFailed({ status, message }: StoredAnswer, what: string): void {
  if (status === 0) throw new SwitchbackError("kube-unreachable", message ?? `${what}: no response`);
  // A stored message is complete. A page that `raw` read has no message.
  if (message !== undefined) throw new SwitchbackError("kube-status", message, { status });
}

function notInFile({ lacking }: StoredCluster, method: string, path: string): SwitchbackError {
  if (method === "GET") lacking?.add(path);
  return new SwitchbackError("kube-unreachable", `${method} ${path}: ${NOT_IN_FILE}`);
}

function missing(path: string): KubeStatusError {
  return new KubeStatusError(`GET ${path}`, 404, { message: "not stored" });
}
