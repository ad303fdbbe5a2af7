import { type FSWatcher, watch } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { type GatewayObject, gatewayClaims } from "#controller/sources/gateway/route-attachment.ts";
import {
  GATEWAY_GROUP,
  ROUTE_KINDS,
  SET_GROUPS,
  type SetKind,
  viewGateway,
  viewListenerSet,
  viewRoute,
} from "#controller/sources/gateway/view.ts";
import { claimsOfIngress, INGRESS_GROUP, viewIngress } from "#controller/sources/ingress-hosts.ts";
import type { Raw } from "#controller/sources/raw-object.ts";
import type { Source, SourceProblem, View, ViewSink } from "#controller/sources/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { groupOf } from "#lib/kube/paths.ts";

/** An object of a YAML file. `kind` and `metadata.name` exist, everything else may be missing or of another type. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

/** A source for YAML files, which also returns the other objects of those files: namespaces and pods. */
export interface YamlFiles extends Source {
  objects(): readonly KubeObject[];
}

interface ReadFile {
  readonly objects: readonly KubeObject[];
  readonly problems: readonly SourceProblem[];
}

/** Some file systems lose events, so the directory is also read at this interval, milliseconds. */
const SWEEP_MS = 500;
/** Maximum number of aliases. They may expand a small file to a huge one. */
const MAX_ALIASES = 100;

/** Ingresses, Gateways and routes in the `.yaml` and `.yml` files of a directory, and their changes. */
export function yamlFiles(directory: string): YamlFiles {
  let files: ReadonlyMap<string, ReadFile> = new Map();
  let problems: readonly SourceProblem[] = [];
  let synced = false;
  let known: ReadonlySet<string> = new Set();
  let reading: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let watcher: FSWatcher | undefined;
  const objects = () => [...files.values()].flatMap((file) => file.objects);

  async function read(sink: ViewSink, onSynced: () => void): Promise<void> {
    try {
      files = await readFiles(directory, files);
      problems = [...files.values()].flatMap((file) => file.problems);
    } catch (error) {
      problems = [{ place: directory, code: "file-unreadable", text: describeError(error) }];
      return;
    }
    known = report(objects(), known, sink);
    if (!synced) onSynced();
    synced = true;
  }

  return {
    start(sink, onSynced) {
      const readSoon = () => {
        reading ??= read(sink, onSynced).finally(() => {
          reading = undefined;
        });
      };
      readSoon();
      timer = setInterval(readSoon, SWEEP_MS);
      watcher = watch(directory, readSoon).on("error", () => watcher?.close());
    },
    state: () => [{ name: `files in ${directory}`, synced, problems }],
    objects,
    stop: async () => {
      clearInterval(timer);
      watcher?.close();
      await reading;
    },
  };
}

/** Whether an object is of this kind. Knative also has a kind Ingress, and Istio a kind Gateway. */
export function isOfKind({ apiVersion, kind }: KubeObject, group: string, wanted: string): boolean {
  return kind === wanted && (groupOf(apiVersion) === group || apiVersion === undefined);
}

/** Reports all objects, and the end of those that were known. Returns what is known now. */
function report(objects: readonly KubeObject[], known: ReadonlySet<string>, sink: ViewSink): ReadonlySet<string> {
  const claims = new Map<string, readonly View[]>();
  const graph = new Map<string, GatewayObject>();
  for (const object of objects) {
    const { namespace = "default", name } = object.metadata;
    const raw: Raw = { ...object, metadata: { ...object.metadata, namespace } };
    const key = `${namespace}/${name}`;
    const view = gatewayObjectOf(object, raw);
    if (isOfKind(object, INGRESS_GROUP, "Ingress"))
      claims.set(`Ingress ${key}`, claimsOfIngress(viewIngress(raw), undefined));
    else if (view !== undefined) graph.set(`${object.kind} ${key}`, view);
  }
  const namespaces = objects.filter((one) => isOfKind(one, "", "Namespace"));
  const labels = new Map(namespaces.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  // No controller writes the status of files, so they need no acceptance.
  const options = { requireAccepted: false, listeners: true, labelsOf: (namespace: string) => labels.get(namespace) };
  const claimsOf = gatewayClaims(graph, options);
  for (const [object, view] of graph) claims.set(object, claimsOf(view, object));
  for (const object of new Set([...known, ...claims.keys()])) sink(object, claims.get(object) ?? []);
  return new Set(claims.keys());
}

function gatewayObjectOf(object: KubeObject, raw: Raw): GatewayObject | undefined {
  const { kind } = object;
  const route = ROUTE_KINDS.find((each) => each === kind);
  if (Object.hasOwn(SET_GROUPS, kind) && isOfKind(object, SET_GROUPS[kind as SetKind], kind))
    return viewListenerSet(raw, kind as SetKind);
  if (!isOfKind(object, GATEWAY_GROUP, kind)) return undefined;
  if (kind === "Gateway") return viewGateway(raw);
  return route && viewRoute(route, raw);
}

/** A file that cannot be read keeps its last objects. */
async function readFiles(directory: string, before: ReadonlyMap<string, ReadFile>): Promise<Map<string, ReadFile>> {
  const files = new Map<string, ReadFile>();
  for (const name of (await readdir(directory)).filter((one) => /\.ya?ml$/.test(one)).sort()) {
    const { objects = [] } = before.get(name) ?? {};
    try {
      const read = parse(name, await readFile(join(directory, name), "utf8"));
      files.set(name, read.problems.length === 0 ? read : { ...read, objects: [...objects, ...read.objects] });
    } catch (error) {
      files.set(name, { objects, problems: [{ place: name, code: "file-unreadable", text: describeError(error) }] });
    }
  }
  return files;
}

/** Reads the documents of a file. */
function parse(name: string, text: string): ReadFile {
  const objects: KubeObject[] = [];
  const problems: SourceProblem[] = [];
  for (const [index, document] of parseAllDocuments(text, { logLevel: "error" }).entries()) {
    const place = `${name}: document ${index + 1}`;
    try {
      if (document.errors[0] !== undefined) throw document.errors[0];
      const all = unfold(document.toJS({ maxAliasCount: MAX_ALIASES }));
      objects.push(...all.filter(isObject));
      if (!all.every(isObject))
        problems.push({ place, code: "not-an-object", text: "it lacks `kind` or `metadata.name`" });
    } catch (error) {
      const [first = ""] = describeError(error).split("\n", 1);
      problems.push({ place, code: "yaml-invalid", text: first });
    }
  }
  return { objects, problems };
}

/** The items of a `kind: List`, or the value. An empty document has none. */
function unfold(value: unknown): readonly unknown[] {
  const { kind, items } = (value ?? {}) as { kind?: unknown; items?: unknown };
  if (kind === "List" && Array.isArray(items)) return items;
  return value === null ? [] : [value];
}

function isObject(value: unknown): value is KubeObject {
  const { kind, metadata } = (value ?? {}) as { kind?: unknown; metadata?: { name?: unknown; namespace?: unknown } };
  const { name, namespace } = metadata ?? {};
  return typeof kind === "string" && typeof name === "string" && ["string", "undefined"].includes(typeof namespace);
}
