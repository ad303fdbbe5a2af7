import type { Config } from "#lib/config/schema.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import { TooLongError } from "#lib/kube/body.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { itemsOfList, listAll } from "#lib/kube/list.ts";
import { groupOf, type Query } from "#lib/kube/paths.ts";
import type { ApiList, ApiObject, ReadOptions } from "#lib/kube/types.ts";
import {
  type CustomFields,
  customFields,
  inGroup,
  publicAnswer,
  publicObject,
  publicPodAnswer,
  publicSecret,
} from "./public-fields.ts";
import type { StoredAnswer } from "./stored-client.ts";
import { type ObjectPath, parseObjectPath, StoredObjects } from "./stored-objects.ts";

/** Everything that was read from a cluster. */
export class Recording {
  readonly objects = new StoredObjects();
  readonly answers = new Map<string, StoredAnswer>();
  /** Plurals by `Kind.group`, as in the head of a dump. */
  readonly resources: Record<string, string> = {};
  #custom: CustomFields = new Map();

  /** Also records the fields of these kinds that their paths name. */
  follow(sources: Config["sources"]["custom"]): void {
    this.#custom = customFields(sources);
  }

  /** Records the answer to a request. From a list, records its objects. */
  record(path: string, answer: object): void {
    const parsed = parseObjectPath(path);
    this.answers.delete(`GET ${path}`);
    if (parsed === undefined) this.answers.set(`GET ${path}`, { status: 200, body: publicAnswer(answer) });
    else if (parsed.resource === "secrets")
      this.answers.set(`GET ${path}`, { status: 200, body: publicSecret(answer) });
    else if (parsed.name !== undefined) this.#put(parsed, answer);
    else this.#recordList(path, parsed, answer);
  }

  /** Records that a request failed. A page that was too long does not count: the client asks for it again in parts. */
  recordFailure(method: string, path: string, error: unknown): void {
    if (!(error instanceof SwitchbackError) || error instanceof TooLongError) return;
    this.answers.set(`${method} ${path}`, { status: error.status ?? 0, message: error.message });
  }

  #recordList(path: string, parsed: ObjectPath, list: ApiList<ApiObject> & ApiObject): void {
    const items = itemsOfList(list) ?? [];
    const kind = list.kind?.replace(/List$/, "") || parsed.resource;
    for (const item of items) this.#put(parsed, { kind, ...item });
    // An empty list is recorded as an answer, to distinguish it from a kind that is not served.
    const empty = { metadata: { resourceVersion: "1" }, items: [] };
    if (items.length === 0) this.answers.set(`GET ${path}`, { status: 200, body: empty });
  }

  #put({ root, resource }: ObjectPath, { kind = resource, ...object }: ApiObject): void {
    const apiVersion = root.replace(/^\/apis?\//, "");
    const group = groupOf(apiVersion);
    this.resources[inGroup(kind, group)] = resource;
    const kept = publicObject(inGroup(resource, group), { ...object, apiVersion, kind }, this.#custom);
    if (kept !== undefined) this.objects.put(root, resource, kept);
  }
}

/** A client that reads a cluster and records the answers. Its only write is the dry run of a pod. */
export function recordingClient(client: KubeClient, recording: Recording): KubeClient {
  const during = async <T>(method: string, path: string, call: Promise<T>): Promise<T> => {
    try {
      return await call;
    } catch (error) {
      recording.recordFailure(method, path, error);
      throw error;
    }
  };
  const get = async <T>(path: string, query?: Query, { accept, ...options }: ReadOptions = {}): Promise<T> => {
    // Reads whole objects instead of metadata: a list of metadata does not state the kind of its objects.
    const whole = accept === undefined || accept === METADATA_LIST ? options : { ...options, accept };
    const answer = await during("GET", path, client.get<T & object>(path, query, whole));
    if (!("accept" in whole)) recording.record(path, answer);
    return answer;
  };
  return {
    ...client,
    get,
    list: (path, query, options) => listAll({ get }, path, query, options),
    create: async <T>(path: string, object: object, options = {}) => {
      const dryRun = { ...options, dryRun: true };
      const answer = await during("POST", path, client.create<T & object>(path, object, dryRun));
      recording.answers.set(`POST ${path}`, { status: 201, body: publicPodAnswer(answer) });
      return answer;
    },
    raw: async (path, options) => {
      const answer = await during("GET", path, client.raw(path, options));
      recording.answers.set(`GET ${path}`, answer);
      return answer;
    },
  };
}
