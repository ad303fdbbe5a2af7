import type * as v from "valibot";
import { isComponent } from "#doctor/checks/deployments.ts";
import { type Finding, findingsOf } from "#doctor/findings.ts";
import { attempt, parse, renderFlaw, type Schema } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { CliContext } from "#lib/process/context.ts";
import { invalid, type KubeValue, readTextFile, STDIN, type TextFile, valuesIn } from "../kube-file.ts";
import { webhookNamespace } from "../leader-status.ts";
import { collectionOf, parseObjectPath } from "./object-paths.ts";
import { answerSchema, DUMP_VERSION, type DumpHead, headSchema, KINDS, schemaOfObject } from "./schemas.ts";
import { NOT_IN_FILE, StoredCluster } from "./stored-cluster.ts";

// Reads a cluster from a file: what `switchback dump` writes, and what `kubectl get -o yaml` or `-o json` prints.

const { ok, unknown } = findingsOf("reach");

/** Maximum number of left-out objects that are named one by one. */
const MAX_NAMED = 10;

/** A cluster in memory. */
export interface ClusterFile {
  readonly head: DumpHead;
  /** Does not know what the file does not have. */
  readonly client: KubeClient;
  /** The same, but what the file does not have does not exist. */
  readonly wholeClient: KubeClient;
  /** When the cluster was read, milliseconds since 1970. */
  readonly time: number;
  /** What is not a valid object, each with its place and the fault. */
  readonly leftOut: readonly string[];
  /** About what the callers of the clients asked for, and the file lacks. Its cure is the command that adds it. */
  readonly lacks: () => Finding | undefined;
}

/** Reads the file of `--from`, and reports what is left out. Throws as `readClusterFile` does. */
export async function openClusterFile(path: string, { stderr, progress }: CliContext): Promise<ClusterFile> {
  const cluster = await progress.during(`reading ${path}`, () => readClusterFile(path));
  for (const line of cluster.leftOut) stderr.line(line);
  return cluster;
}

/** Reads a file, or standard input for `-`. Throws `input-invalid` with the file and the line. */
export async function readClusterFile(path: string): Promise<ClusterFile> {
  const file = readTextFile(path);
  const cluster = new StoredCluster();
  const leftOut: string[] = [];
  let head = parse(headSchema, {});
  let count = 0;
  let isManifest = true;
  for (const { value, place } of documentsIn(file)) {
    const { value: read, flaw } = attempt(schemaOf(value, place), value);
    count += 1;
    isManifest &&= !isStored(value);
    if (flaw !== undefined) leftOut.push(`${place} is left out: ${renderFlaw(flaw)}`);
    else if (value.apiVersion !== DUMP_VERSION) cluster.add(read as ApiObject);
    else if (value.kind === "Dump") head = read as DumpHead;
    else {
      const { method, path, ...answer } = read as v.InferOutput<typeof answerSchema>;
      cluster.answers.set(`${method} ${path}`, answer);
    }
  }
  if (count === leftOut.length) throw invalid(file.name, NO_OBJECT);
  if (isManifest) throw invalid(file.name, MANIFEST);
  if (head.time === undefined) head = { ...head, namespace: await installedIn(cluster, head.namespace) };
  const time = Date.parse(head.time ?? "");
  const more = leftOut.length - MAX_NAMED;
  return {
    head,
    client: cluster.client(),
    wholeClient: cluster.client(true),
    time: Number.isNaN(time) ? Date.now() : time,
    leftOut: more > 0 ? leftOut.toSpliced(MAX_NAMED, more, `${file.name}: ${more} more objects are left out`) : leftOut,
    lacks: () => lacks(cluster.lacking, file.name),
  };
}

/** The objects of a file; for an empty list of a kind, what a dump has for it. */
function* documentsIn(file: TextFile): Generator<{ readonly value: KubeValue; readonly place: string }> {
  for (const { value, place } of valuesIn(file)) {
    const { apiVersion, kind, items } = value;
    // `kubectl get` prints a `List`, which does not say of which kind it is.
    const path = collectionOf({ apiVersion: `${apiVersion}`, kind: `${kind}`.replace(/List$/, "") });
    const answer = { method: "GET", path, status: 200 };
    if (!Array.isArray(items)) yield { value, place };
    else if (kind !== "List") yield { value: { apiVersion: DUMP_VERSION, kind: "Answer", ...answer }, place };
  }
}

const NO_OBJECT =
  "it has no object of Kubernetes; --from reads what `kubectl get ... -A -o yaml` or `switchback dump` prints; " +
  "if that printed `items: []`, the list is empty";
const MANIFEST =
  "it looks like a manifest, not like a cluster: no object has a status; to get a cluster, run " +
  "kubectl get namespaces,nodes,services,ingresses,ingressclasses -A -o yaml > cluster.yaml";

/** Whether it comes from an API server: a manifest states neither a status nor a time of creation. */
function isStored({ apiVersion, metadata, status }: KubeValue): boolean {
  const isCreated = typeof Object(metadata).creationTimestamp === "string";
  return isCreated || Object.keys(Object(status)).length > 0 || apiVersion === DUMP_VERSION;
}

/** The namespace of the installation: that of the webhook's Service, else that of Switchback's Deployments. */
async function installedIn(cluster: StoredCluster, usual: string): Promise<string> {
  const named = await webhookNamespace(cluster.client(true));
  cluster.lacking.clear();
  const isOurs = ({ kind, metadata }: ApiObject) => kind === "Deployment" && isComponent(metadata?.name ?? "");
  const found = [...cluster.objects()].filter(isOurs).map(({ metadata }) => metadata?.namespace ?? usual);
  return named ?? (found.includes(usual) ? usual : (found[0] ?? usual));
}

function schemaOf({ apiVersion, kind }: KubeValue, place: string): Schema {
  const version = String(apiVersion);
  if (version === DUMP_VERSION) return kind === "Dump" ? headSchema : answerSchema;
  if (!version.startsWith("dump.switchback.dev/")) return schemaOfObject({ apiVersion, kind });
  const format = JSON.stringify(version.slice(0, 100));
  throw invalid(place, `the format ${format} is not known; this program reads ${DUMP_VERSION}`);
}

/** The API groups of the kinds that every cluster has. */
const BUILT_IN = /^$|^apps$|^(?:networking|discovery|coordination|admissionregistration)\.k8s\.io$/;

/** Says what is lacking in one line. It is ok to lack what a cluster may lack. */
function lacks(paths: ReadonlySet<string>, file: string): Finding | undefined {
  const lists = new Map<string, string>();
  const groups = new Set<string>();
  for (const path of paths) {
    const [, group = ""] = /^\/apis\/([^/]+)/.exec(path) ?? [];
    const parsed = parseObjectPath(path);
    if (!BUILT_IN.test(group)) groups.add(group);
    // A Secret does not belong into a file.
    else if (parsed !== undefined && KINDS.has(parsed.type))
      lists.set(path.slice(0, path.lastIndexOf(parsed.resource) + parsed.resource.length), parsed.resource);
  }
  const into = file === STDIN ? "" : ` >> ${file}`;
  const needed = [
    `no ${[...new Set(lists.values())].join(", ")}`,
    // Unlike `kubectl get -o yaml`, this says of which kind an empty list is.
    `echo ${[...lists.keys()].join(" ")} | xargs -n 1 kubectl get --raw${into}`,
  ] as const;
  const optional = [
    `nothing of the API groups ${[...groups].join(", ")} (nothing is missing if the cluster has none of them)`,
    `kubectl api-resources -o name | grep -E '\\.(${[...groups].join("|")})$'` +
      ` | xargs -r -n 1 kubectl get -A -o yaml${into}`,
  ] as const;
  const all = [...(lists.size > 0 ? [needed] : []), ...(groups.size > 0 ? [optional] : [])];
  if (all.length === 0) return undefined;
  const text = `${file} has ${all.map(([what]) => what).join(", and ")}`;
  const command = all.map(([, each]) => each).join(" && ");
  return (lists.size > 0 ? unknown : ok)("file", "dump-incomplete", text, command);
}

/**
 * The findings about a file. What is unknown because the file does not have it is one finding, with the command that
 * adds it.
 */
export function findingsInFile({ lacks }: ClusterFile, findings: readonly Finding[]): Finding[] {
  const known = findings.filter(({ status, evidence }) => status !== "unknown" || !evidence.includes(NOT_IN_FILE));
  const there = (cure: string) => cure.replace(/^switchback doctor /, "on the cluster itself: $&");
  return [...known.map((finding) => ({ ...finding, cures: finding.cures.map(there) })), ...[lacks() ?? []].flat()];
}
