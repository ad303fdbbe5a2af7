import { observe } from "#controller/observe.ts";
import { gather } from "#doctor/gather.ts";
import { PREFIX } from "#hostmap/metadata-keys.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { parseText } from "#lib/config/parse-text.ts";
import type { Section } from "#lib/config/sections.ts";
import { PRESET_NAMES } from "#lib/config/sources.ts";
import { CONFIG_KEY, CONFIG_NAME } from "#lib/documents/installed-config.ts";
import { MAP_NAME, type MapObject, TEXT_KEY, textOfMap } from "#lib/documents/map-format.ts";
import { statusSchema } from "#lib/documents/status-page.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { attempt, type Schema } from "#lib/errors/validation.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import { TooLongError } from "#lib/kube/body.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { itemsOfList, listAll } from "#lib/kube/list.ts";
import type { Query } from "#lib/kube/paths.ts";
import type { ApiList, ApiObject, ReadOptions } from "#lib/kube/types.ts";
import { addedChecks } from "../extras.ts";
import { type ObjectPath, parseObjectPath } from "./object-paths.ts";
import { Redactor } from "./redact.ts";
import { answerSchema, DUMP_VERSION, type DumpHead, headSchema, KINDS, schemaOfObject } from "./schemas.ts";
import { StoredCluster } from "./stored-cluster.ts";

/** Timeouts for reading the sources. 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 60_000, stuckMs: 2_000 };

/** Everything that a dump of a cluster contains. */
export interface RecordedCluster {
  readonly head: DumpHead;
  readonly cluster: StoredCluster;
  /** What the extras add to the configuration. */
  readonly sections: readonly Section[];
}

interface RecordOptions extends Pick<DumpHead, "namespace" | "probeNamespace"> {
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** Runs the doctor and a read-only controller with all sources and presets, and records the answers that they get. */
export async function recordCluster(
  client: KubeClient,
  { namespace, probeNamespace, now }: RecordOptions,
): Promise<RecordedCluster> {
  const cluster = new StoredCluster();
  const recorded = recordingClient(client, cluster);
  const added = await addedChecks();
  await gather({ client: recorded, namespace, probeNamespace, now: () => now, added });
  const enabled = { enabled: true };
  const config = parseConfig({
    namespace,
    sources: { ingress: enabled, gateway: enabled, services: enabled, presets: [...PRESET_NAMES] },
    policy: { verifyDns: "off", namespaceAnnotation: true },
    discovery: enabled,
  });
  await observe(config, { client: recorded, clusterDomain: config.clusterDomain, identity: "dump", ...PATIENCE });
  return { head: { time: new Date(now).toISOString(), namespace, probeNamespace }, cluster, sections: added.sections };
}

/** A client that reads a cluster and records the answers. Its only write is the dry run of a pod. */
function recordingClient(client: KubeClient, cluster: StoredCluster): KubeClient {
  const during = async <T>(call: string, answer: Promise<T>): Promise<T> =>
    answer.catch((error: unknown) => {
      // After a page that was too long, the client asks again for parts.
      if (error instanceof SwitchbackError && !(error instanceof TooLongError))
        cluster.answers.set(call, { status: error.status ?? 0, message: error.message });
      throw error;
    });
  const get = async <T>(path: string, query?: Query, { accept, ...options }: ReadOptions = {}): Promise<T> => {
    // Reads whole objects instead of metadata: a list of metadata does not state the kind of its objects.
    const whole = accept === undefined || accept === METADATA_LIST ? options : { ...options, accept };
    const answer = await during(`GET ${path}`, client.get<T & ApiObject & ApiList<ApiObject>>(path, query, whole));
    if (!("accept" in whole)) await record(cluster, path, answer);
    return answer;
  };
  return {
    ...client,
    get,
    list: (path, query, options) => listAll({ get }, path, query, options),
    create: async <T>(path: string, object: object, options = {}) => {
      const dryRun = { ...options, dryRun: true };
      const answer = await during(`POST ${path}`, client.create<T & ApiObject>(path, object, dryRun));
      // Other webhooks may have added anything.
      const own = Object.entries(answer.metadata?.annotations ?? {}).filter(([key]) => key.startsWith(PREFIX));
      const body = { metadata: { annotations: Object.fromEntries(own) } };
      cluster.answers.set(`POST ${path}`, { status: 201, body });
      return answer;
    },
    raw: async (path, options) => {
      const answer = await during(`GET ${path}`, client.raw(path, options));
      cluster.answers.set(`GET ${path}`, { status: answer.status, text: publicPage(answer) });
      return answer;
    },
  };
}

/** Records an object, or the objects of a list and that the list was read. A Secret is never recorded. */
async function record(cluster: StoredCluster, path: string, answer: ApiObject & ApiList<ApiObject>): Promise<void> {
  const parsed = parseObjectPath(path);
  cluster.answers.delete(`GET ${path}`);
  if (parsed === undefined || parsed.resource === "secrets") return;
  if (parsed.name === undefined) {
    const message = `GET ${path}: a dump has no kinds that only the configuration names`;
    cluster.answers.set(`GET ${path}`, KINDS.has(parsed.type) ? { status: 200 } : { status: 0, message });
  }
  const objects = parsed.name === undefined ? (itemsOfList(answer) ?? []) : [answer];
  for (const object of objects) {
    const kept = await publicObject(parsed, object);
    if (kept !== undefined) cluster.put(parsed.collection, kept);
  }
}

/** What the schema of its kind has of an object. */
async function publicObject(path: ObjectPath, object: ApiObject): Promise<ApiObject | undefined> {
  const { kind, schema } = KINDS.get(path.type) ?? {};
  if (schema === undefined) return undefined;
  const data = path.type === "configmaps" ? await readableData(object) : {};
  return attempt(schema, { ...object, ...data, apiVersion: path.apiVersion, kind }).value as ApiObject | undefined;
}

/** The configuration as JSON, which has no comments, and a gzipped map as text. */
async function readableData({ metadata, ...object }: ApiObject & Pick<MapObject, "data">): Promise<object> {
  if (metadata?.name === CONFIG_NAME) {
    const config: unknown = await parseText(object.data?.[CONFIG_KEY] ?? "").catch(() => undefined);
    return config && typeof config === "object"
      ? { data: { ...object.data, [CONFIG_KEY]: JSON.stringify(config) } }
      : {};
  }
  const isZipped = metadata?.name === MAP_NAME && object.data === undefined;
  const text = isZipped ? await textOfMap({ metadata, ...object } as MapObject) : undefined;
  return typeof text === "string" ? { data: { [TEXT_KEY]: text } } : {};
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
export function* dumpLines({ head, cluster, sections }: RecordedCluster, isRedacted: boolean): Generator<string> {
  const redactor = isRedacted ? new Redactor(cluster.objects(), sections) : undefined;
  const shown = (schema: Schema, value: object): object => redactor?.redact(schema, value) ?? value;
  const ours = (kind: string, fields: object) => JSON.stringify({ apiVersion: DUMP_VERSION, kind, ...fields });
  const { program, ...fields } = head;
  yield ours("Dump", { program, ...shown(headSchema, fields) });
  for (const [key, answer] of cluster.answers) {
    const [method, path] = key.split(" ", 2);
    yield ours("Answer", shown(answerSchema, { method, path, ...answer }));
  }
  for (const object of cluster.objects()) yield JSON.stringify(shown(schemaOfObject(object), object));
}
