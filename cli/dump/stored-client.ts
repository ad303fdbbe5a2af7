import { once } from "node:events";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { listAll } from "#lib/kube/list.ts";
import type { Query } from "#lib/kube/paths.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import type { StreamOptions } from "#lib/kube/stream.ts";
import { parseObjectPath, type StoredObjects } from "./stored-objects.ts";

/** A stored answer of the API server that is not a stored object: a page, a refusal, an empty list, or discovery. */
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
  /** By `<method> <path>`. */
  readonly answers: ReadonlyMap<string, StoredAnswer>;
}

/** Groups that every API server has. Their lists may be empty. In another group, a list without objects is a 404. */
const BUILT_IN: ReadonlySet<string> = new Set([
  "apps",
  "batch",
  "networking.k8s.io",
  "discovery.k8s.io",
  "coordination.k8s.io",
  "admissionregistration.k8s.io",
]);

/**
 * A client that answers from stored objects, as an API server with these objects would: lists, selectors,
 * discovery, and watches without events. It refuses to write. If there is a stored answer for a request, it returns
 * that answer. So a failed call fails again, with the same message.
 */
export function storedClient(cluster: StoredCluster): KubeClient {
  const get = async <T>(path: string, query?: Query) => answerTo(cluster, path, query) as T;
  const refuse = async (path: string): Promise<never> => {
    throw new KubeStatusError(path, 405, { message: "a stored cluster cannot be changed" });
  };
  return {
    get,
    list: (path, query, options) => listAll({ get }, path, query, options),
    async create<T>(path: string) {
      const answer = cluster.answers.get(`POST ${path}`);
      if (answer === undefined) throw missing(`POST ${path}`);
      throwIfFailed(answer, `POST ${path}`);
      return (answer.body ?? {}) as T;
    },
    async raw(path) {
      const answer = cluster.answers.get(`GET ${path}`);
      if (answer === undefined) throw missing(`GET ${path}`);
      throwIfFailed(answer, `GET ${path}`);
      return { status: answer.status, text: answer.text ?? "", contentType: answer.contentType ?? "" };
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

/** A watch that never sends an event. */
async function silence({ signal, onOpen }: StreamOptions): Promise<never> {
  onOpen?.();
  if (!signal.aborted) await once(signal, "abort");
  throw signal.reason;
}

function answerTo({ objects, answers }: StoredCluster, path: string, query: Query = {}): object {
  const answer = answers.get(`GET ${path}`);
  if (answer !== undefined) throwIfFailed(answer, `GET ${path}`);
  const parsed = parseObjectPath(path);
  if (parsed?.name === undefined && parsed !== undefined) {
    const items = [...objects.select(parsed, query)];
    if (items.length > 0 || isBuiltIn(parsed.root)) return { metadata: { resourceVersion: "1" }, items };
  }
  const object = parsed?.name === undefined ? undefined : objects.get(parsed);
  const found = object ?? answer?.body ?? served(objects, path);
  if (found === undefined) throw missing(`GET ${path}`);
  return found;
}

function isBuiltIn(root: string): boolean {
  const [, , group = ""] = root.split("/");
  return root === "/api/v1" || BUILT_IN.has(group);
}

/** Returns the discovery answer for a group without a stored answer: the kinds of the objects. */
function served(objects: StoredObjects, path: string): object | undefined {
  const [, group, version] = /^\/apis\/([^/]+)(?:\/([^/]+))?$/.exec(path) ?? [];
  if (group === undefined) return undefined;
  const roots = objects.served(group);
  if (roots.size === 0) return undefined;
  if (version === undefined)
    return { versions: [...roots.keys()].map((root) => ({ version: root.split("/").at(-1) })) };
  const resources = roots.get(path);
  if (resources === undefined) return undefined;
  const verbs = ["list", "watch", "create"];
  return { resources: [...resources].map(([name, kind]) => ({ name, kind, verbs })) };
}

function throwIfFailed({ status, message }: StoredAnswer, what: string): void {
  if (status === 0) throw new SwitchbackError("kube-unreachable", message ?? `${what}: no response`);
  // A stored message is complete. A page that `raw` read has no message.
  if (message !== undefined) throw new SwitchbackError("kube-status", message, { status });
}

function missing(what: string): KubeStatusError {
  return new KubeStatusError(what, 404, { message: "not stored" });
}
