import { type Document, isNode, LineCounter, parseAllDocuments } from "yaml";
import { show } from "#hostmap/hostnames.ts";
import { groupOf } from "#lib/kube/paths.ts";
import { INGRESS_GROUP } from "./ingress-hosts.ts";
import type { SourceProblem } from "./types.ts";

/** One Kubernetes object of a YAML file. */
export interface FileObject {
  readonly file: string;
  /** Plain JSON; `kind` and `metadata.name` exist, everything else may be missing or of another type. */
  readonly raw: KubeObject;
  /**
   * The location of a path in the object, as readable text: `ingress.yaml:12: Ingress shop/web: spec.rules[0].host`.
   */
  readonly place: (path: readonly (string | number)[]) => string;
}

/** The fields of an object that are required. */
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

/** Whether an object is of this kind. Knative also has a kind Ingress, and Istio a kind Gateway. */
export function isOfKind({ raw }: FileObject, group: string, kind: string): boolean {
  return raw.kind === kind && groupOf(raw.apiVersion) === group;
}

/** Whether an object is Kubernetes' own Ingress or IngressClass. An object without apiVersion counts as such. */
export function isIngressKind(object: FileObject, kind: "Ingress" | "IngressClass"): boolean {
  const { raw } = object;
  return isOfKind(object, INGRESS_GROUP, kind) || (raw.kind === kind && raw.apiVersion === undefined);
}

/** Maximum number of aliases. Aliases may expand a small file to a huge one, and no manifest needs more of them. */
const MAX_ALIASES = 100;

type LineOf = (path: readonly (string | number)[]) => number;

/**
 * Reads the documents of a file, and unfolds each `kind: List`. A document that cannot be read is reported, and the
 * others are still used.
 */
export function parseYamlFile(file: string, text: string): { objects: FileObject[]; problems: SourceProblem[] } {
  const objects: FileObject[] = [];
  const problems: SourceProblem[] = [];
  const lines = new LineCounter();
  // Otherwise the library would emit process warnings. They are either reported as errors here, or harmless.
  const documents = [...parseAllDocuments(text, { lineCounter: lines, logLevel: "error" })];
  for (const [index, document] of documents.entries()) {
    const lineOf: LineOf = (path) => lines.linePos(offsetOf(document, path)).line;
    const value = readDocument(document);
    if (value instanceof Error) {
      const line = document.errors[0]?.linePos?.[0].line ?? lineOf([]);
      problems.push({ place: `${file}:${line}`, code: "yaml-invalid", text: value.message.split("\n", 1)[0] ?? "" });
      continue;
    }
    for (const entry of unfold(value)) {
      const object = checkObject(file, index, entry, lineOf);
      if ("code" in object) problems.push(object);
      else objects.push(object);
    }
  }
  return { objects, problems };
}

/**
 * The offset of a path in the text; for a missing path or one behind an alias, the offset of the nearest enclosing
 * value.
 */
function offsetOf(document: Document.Parsed, path: readonly (string | number)[]): number {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return document.contents?.range[0] ?? document.range[0];
}

function readDocument(document: Document.Parsed): unknown {
  if (document.errors[0] !== undefined) return document.errors[0];
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    return error;
  }
}

interface Entry {
  readonly value: unknown;
  readonly path: readonly (string | number)[];
}

function unfold(value: unknown): Entry[] {
  if (value === null) return [];
  const list = value as { kind?: unknown; items?: unknown };
  if (list.kind !== "List" || !Array.isArray(list.items)) return [{ value, path: [] }];
  return list.items.map((item, index) => ({ value: item, path: ["items", index] }));
}

function checkObject(file: string, index: number, entry: Entry, lineOf: LineOf): FileObject | SourceProblem {
  const object = entry.value as Partial<KubeObject> | null;
  const place = `${file}:${lineOf(entry.path)}`;
  if (typeof object !== "object" || object === null || typeof object.kind !== "string") {
    return { place, code: "not-an-object", text: `document ${index + 1} is not a Kubernetes object: it has no kind` };
  }
  if (typeof object.metadata !== "object" || typeof object.metadata?.name !== "string") {
    return { place, code: "no-name", text: `this ${show(object.kind)} has no metadata.name` };
  }
  const raw = object as KubeObject;
  const { namespace, name } = raw.metadata;
  if (namespace !== undefined && typeof namespace !== "string") {
    return {
      place,
      code: "wrong-type",
      text: `metadata.namespace of ${show(object.kind)} ${show(name)} is not a string`,
    };
  }
  const title = `${raw.kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
  return {
    file,
    raw,
    place: (path) => `${file}:${lineOf([...entry.path, ...path])}: ${title}: ${renderPath(path)}`,
  };
}

/** Renders `["spec", "rules", 0, "host"]` as `spec.rules[0].host`. */
function renderPath(path: readonly (string | number)[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (/[./]/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text;
}
