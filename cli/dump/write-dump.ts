import { observe } from "#controller/observe.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { gather } from "#doctor/gather.ts";
import { statusSchema } from "#doctor/install-documents.ts";
import { PREFIX } from "#hostmap/metadata-keys.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { parseText } from "#lib/config/parse-text.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { PRESET_NAMES } from "#lib/config/sources.ts";
import { CONFIG_KEY, CONFIG_NAME } from "#lib/documents/installed-config.ts";
import { MAP_NAME, type MapObject, TEXT_KEY, textOfMap } from "#lib/documents/map-format.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { attempt } from "#lib/errors/validation.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import { TooLongError } from "#lib/kube/body.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { itemsOfList, listAll } from "#lib/kube/list.ts";
import { groupOf, type Query } from "#lib/kube/paths.ts";
import type { ApiList, ApiObject, ReadOptions } from "#lib/kube/types.ts";
import { addedChecks } from "../extras.ts";
import { DUMP_VERSION, type DumpHead } from "./format.ts";
import { Redactor } from "./redact.ts";
import { KIND_NAMES, SCHEMAS, typeOf } from "./schemas.ts";
import type { StoredAnswer } from "./stored-client.ts";
import { type ObjectPath, parseObjectPath, StoredObjects } from "./stored-objects.ts";

/** Timeouts for reading the sources. 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 60_000, stuckMs: 2_000 };

/** Everything that a dump of a cluster contains. */
export interface RecordedCluster {
  readonly head: DumpHead;
  readonly objects: StoredObjects;
  readonly answers: ReadonlyMap<string, StoredAnswer>;
  /** What the extras add to the configuration. */
  readonly sections: readonly Section[];
}

interface RecordOptions extends Pick<DumpHead, "namespace" | "probeNamespace"> {
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** Runs the doctor and a read-only controller, and records the answers that they get. */
export async function recordCluster(
  client: KubeClient,
  { namespace, probeNamespace, now }: RecordOptions,
): Promise<RecordedCluster> {
  const recording = new Recording();
  const recorded = recordingClient(client, recording);
  const added = await addedChecks();
  const facts = await gather({ client: recorded, namespace, probeNamespace, now: () => now, added });
  const config = everySource(facts);
  await observe(config, { client: recorded, clusterDomain: config.clusterDomain, identity: "dump", ...PATIENCE });
  const { objects, answers } = recording;
  const head = { time: new Date(now).toISOString(), namespace, probeNamespace };
  return { head, objects, answers, sections: added.sections };
}

/** The installed configuration or the default one, with all presets and all sources in the cluster enabled. */
function everySource({ install, namespace }: ClusterFacts): Config {
  const installed = install.config.known ? install.config.value : undefined;
  const config = installed ?? parseConfig({ namespace });
  const { sources, policy, discovery } = config;
  return {
    ...config,
    sources: {
      ...sources,
      ingress: { ...sources.ingress, enabled: true },
      gateway: { ...sources.gateway, enabled: true },
      services: { ...sources.services, enabled: true },
      presets: [...PRESET_NAMES],
    },
    policy: { ...policy, verifyDns: "off", namespaceAnnotation: true },
    discovery: { ...discovery, enabled: true },
  };
}

/** What was read from a cluster, as far as the schemas have it. */
class Recording {
  readonly objects = new StoredObjects();
  readonly answers = new Map<string, StoredAnswer>();

  /** Records an object, or the objects of a list and that the list was read. A Secret is never recorded. */
  async record(path: string, answer: ApiObject & ApiList<ApiObject>): Promise<void> {
    const parsed = parseObjectPath(path);
    this.answers.delete(`GET ${path}`);
    if (parsed === undefined || parsed.resource === "secrets") return;
    if (parsed.name !== undefined) return await this.#put(parsed, answer);
    const type = typeOf(parsed.resource, groupOf(parsed.root.replace(/^\/apis?\//, "")));
    const message = `GET ${path}: a dump has no kinds that only the configuration names`;
    this.answers.set(`GET ${path}`, SCHEMAS.has(type) ? { status: 200 } : { status: 0, message });
    for (const item of itemsOfList(answer) ?? []) await this.#put(parsed, item);
  }

  /** Records that a request failed. A page that was too long does not count: the client asks for it again in parts. */
  recordFailure(method: string, path: string, error: unknown): void {
    if (!(error instanceof SwitchbackError) || error instanceof TooLongError) return;
    this.answers.set(`${method} ${path}`, { status: error.status ?? 0, message: error.message });
  }

  async #put({ root, resource }: ObjectPath, object: ApiObject): Promise<void> {
    const apiVersion = root.replace(/^\/apis?\//, "");
    const type = typeOf(resource, groupOf(apiVersion));
    const schema = SCHEMAS.get(type);
    const readable = resource === "configmaps" ? await readableData(object) : object;
    const kept = schema && attempt(schema, { ...readable, apiVersion, kind: KIND_NAMES.get(type) }).value;
    if (kept !== undefined) this.objects.put(root, resource, kept as ApiObject);
  }
}

/** The configuration as JSON, which has no comments, and a gzipped map as text. */
async function readableData(object: ApiObject & Pick<MapObject, "data">): Promise<object> {
  const { name } = object.metadata ?? {};
  const config: unknown =
    name === CONFIG_NAME ? await parseText(object.data?.[CONFIG_KEY] ?? "").catch(() => undefined) : undefined;
  if (typeof config === "object" && config !== null)
    return { ...object, data: { ...object.data, [CONFIG_KEY]: JSON.stringify(config) } };
  const text = name === MAP_NAME && object.data === undefined ? await textOfMap(object as MapObject) : undefined;
  return typeof text === "string" ? { ...object, data: { [TEXT_KEY]: text } } : object;
}

/** A client that reads a cluster and records the answers. Its only write is the dry run of a pod. */
function recordingClient(client: KubeClient, recording: Recording): KubeClient {
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
    const answer = await during("GET", path, client.get<T & ApiObject & ApiList<ApiObject>>(path, query, whole));
    if (!("accept" in whole)) await recording.record(path, answer);
    return answer;
  };
  return {
    ...client,
    get,
    list: (path, query, options) => listAll({ get }, path, query, options),
    create: async <T>(path: string, object: object, options = {}) => {
      const dryRun = { ...options, dryRun: true };
      const answer = await during("POST", path, client.create<T & ApiObject>(path, object, dryRun));
      // Other webhooks may have added anything.
      const own = Object.entries(answer.metadata?.annotations ?? {}).filter(([key]) => key.startsWith(PREFIX));
      const body = { metadata: { annotations: Object.fromEntries(own) } };
      recording.answers.set(`POST ${path}`, { status: 201, body });
      return answer;
    },
    raw: async (path, options) => {
      const answer = await during("GET", path, client.raw(path, options));
      recording.answers.set(`GET ${path}`, { ...answer, text: publicPage(answer) });
      return answer;
    },
  };
}

const MAX_REFUSAL = 4_000;

/** The part of the controller's page that the doctor reads; of a refusal, its text. */
function publicPage({ status, text }: Readonly<{ status: number; text: string }>): string {
  if (status >= 400) return text.slice(0, MAX_REFUSAL);
  try {
    return JSON.stringify(attempt(statusSchema, JSON.parse(text)).value ?? {});
  } catch {
    return "";
  }
}

/** Renders the documents of a dump, each as JSON. */
export function* dumpLines(cluster: RecordedCluster, isRedacted: boolean): Generator<string> {
  const { head, objects, answers, sections } = cluster;
  const redactor = isRedacted ? new Redactor(objects.all(), sections) : undefined;
  const shown = <T extends object>(document: T): T => (redactor?.object(document) as T | undefined) ?? document;
  const ours = (kind: string, fields: object) => JSON.stringify({ apiVersion: DUMP_VERSION, kind, ...fields });
  const { program, ...fields } = head;
  yield ours("Dump", { program, ...shown(fields) });
  for (const [key, answer] of answers) {
    const [method = "", path = ""] = key.split(" ", 2);
    yield ours("Answer", shown({ method, path, ...answer }));
  }
  for (const object of objects.all()) yield JSON.stringify(shown(object));
}
