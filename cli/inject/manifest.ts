import {
  type Document,
  isCollection,
  isNode,
  LineCounter,
  type Node,
  type ParsedNode,
  parseDocument,
  type ScalarTag,
  type Tags,
  visit,
} from "yaml";
import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { printableLines } from "#lib/errors/printable.ts";
import { yamlText } from "../yaml-text.ts";
import type { TextFile } from "./files.ts";
import { type InjectOptions, injectTemplate, plainAt, templateRefusal, textsOf } from "./pod-template.ts";
import {
  type ManifestObject,
  objectsOf,
  overlookedReason,
  type Path,
  type TemplatePath,
  templatesOf,
} from "./pod-templates.ts";

/** The result for one object of a file, or for one of several pod templates of an object. */
export interface Outcome {
  /** The object's place: `web.yaml:12: document 2`. */
  readonly place: string;
  /** `Deployment shop/web`; undefined if the object has no name. */
  readonly title: string | undefined;
  /**
   * `skipped`: the object opted out, or did not opt in. `overlooked`: the user may have wanted it injected. `failed`:
   * it should be injected, but cannot be.
   */
  readonly result: "injected" | "skipped" | "overlooked" | "failed";
  readonly reason: Reason;
}

export interface ManifestOptions extends InjectOptions {
  /** Where other kinds than Kubernetes' own have their pod templates. */
  readonly templatePaths: readonly TemplatePath[];
  /** Inject only what a label opts in: that of the pod template, or that of its Namespace if the input has it. */
  readonly optedIn: boolean;
}

/** A document of a file, with its own text. */
export interface ManifestDocument {
  readonly text: string;
  readonly placeAt: (offset: number) => string;
  readonly parsed: Parsed | Fault;
}

interface Parsed {
  readonly document: Document.Parsed;
  /** See `objectsOf`. An empty document has none. */
  readonly objects: readonly (ManifestObject | Path)[];
}

/** Why a text cannot be read, and where. */
interface Fault {
  readonly fault: string;
  readonly offset: number;
}

/**
 * The start of a document. A marker cannot be inside a value (YAML 1.2, rule c-forbidden), so a file is split before it
 * is parsed, as kubectl does, and each document keeps its own text.
 */
const START = /^(?=---(?:\s|$))/m;
/** Comments and directives before the first marker belong to the document after it. */
const PREAMBLE = /^(?:[#%].*\n|\s*\n)*$/;
/** Bounds what nested anchors can grow to. A manifest uses a few. */
const MAX_ALIASES = 10_000;

/** Splits a file into its YAML or JSON documents, and parses each. */
export function readManifest({ name, text }: TextFile): ManifestDocument[] {
  const [first = "", ...rest] = text.split(START);
  const parts = rest.length > 0 && PREAMBLE.test(first) ? [first + rest[0], ...rest.slice(1)] : [first, ...rest];
  let before = 0;
  return parts.map((part, index) => {
    const lines = new LineCounter();
    const start = before;
    before += part.split("\n").length - 1;
    const placeAt = (offset: number) => `${name}:${start + lines.linePos(offset).line}: document ${index + 1}`;
    return { text: part, placeAt, parsed: parsePart(part, lines) };
  });
}

function parsePart(text: string, lineCounter: LineCounter): Parsed | Fault {
  const options = { customTags: keepNumbers, lineCounter, strict: false, logLevel: "error" } as const;
  const document = parseDocument<ParsedNode>(text, options);
  const [error] = document.errors;
  // The line number in the message is removed, because the place is printed before it.
  if (error !== undefined)
    return { fault: error.message.replace(/(?: at line \d+, column \d+)?:?\n[\s\S]*/, ""), offset: error.pos[0] };
  const key = findCollectionKey(document);
  // What YAML reads of `{{ .Values.x }}` is such a key. Printed again, it would be no template any more.
  if (key !== undefined) return { fault: "a key of a map is a map or a list", offset: key.range?.[0] ?? 0 };
  try {
    const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
    // This throws for a value that contains itself, or that is too deep to visit.
    JSON.stringify(value);
    return { document, objects: value === null || value === undefined ? [] : objectsOf(value) };
  } catch (invalid) {
    return { fault: describeError(invalid).split("\n")[0] ?? "", offset: document.contents?.range[0] ?? 0 };
  }
}

function findCollectionKey(document: Document): Node | undefined {
  let found: Node | undefined;
  visit(document, {
    Pair(_key, { key }) {
      if (!isCollection(key)) return undefined;
      found = key;
      return visit.BREAK;
    },
  });
  return found;
}

/** The labels of the Namespace objects of all documents, by name. */
export function namespaceLabelsIn(documents: readonly ManifestDocument[]): Map<string, Record<string, string>> {
  const objects = documents.flatMap(({ parsed }) => ("fault" in parsed ? [] : parsed.objects));
  return new Map(
    objects.flatMap((object) => {
      if (!("kind" in object) || object.kind !== "Namespace") return [];
      const { name, labels } = Object(Object(object.value).metadata);
      return [[String(name), textsOf(labels)] as const];
    }),
  );
}

/**
 * Adds hostAliases and annotations to every pod template of a document. `output` is the new text; the same text if
 * nothing changed. A document that cannot be read is one that is overlooked.
 */
export function injectDocument(
  { text, placeAt, parsed }: ManifestDocument,
  namespaceLabels: ReadonlyMap<string, Record<string, string>>,
  options: ManifestOptions,
): { readonly output: string; readonly outcomes: readonly Outcome[] } {
  if ("fault" in parsed) {
    const hint = /\{\{/.test(text) ? "; a template of Helm has to be rendered first, by `helm template`" : "";
    const reason = { code: "yaml-invalid", text: `${parsed.fault}${hint}` };
    const outcome: Outcome = { place: placeAt(parsed.offset), title: undefined, result: "overlooked", reason };
    return { output: text, outcomes: [outcome] };
  }
  const { document, objects } = parsed;
  if (objects.length === 0) return { output: text, outcomes: [] };
  const outcomes = objects.flatMap((object): Outcome[] => {
    const place = (at: Path) => placeAt(offsetOf(document, at));
    if ("kind" in object) return injectObject(document, object, place, namespaceLabels, options);
    const reason = { code: "not-an-object", text: "this is not a Kubernetes object: it has no kind" };
    return [{ place: place(object), title: undefined, result: "overlooked", reason }];
  });
  const isChanged = outcomes.some(({ result }) => result === "injected");
  return { output: isChanged || printableLines(text) !== text ? render(document, text) : text, outcomes };
}

function injectObject(
  document: Document.Parsed,
  object: ManifestObject,
  place: (at: Path) => string,
  namespaceLabels: ReadonlyMap<string, Record<string, string>>,
  options: ManifestOptions,
): Outcome[] {
  const { name, namespace } = Object(Object(object.value).metadata);
  const title =
    typeof name === "string" ? `${object.kind} ${namespace === undefined ? "" : `${namespace}/`}${name}` : undefined;
  const templates = templatesOf(object, options.templatePaths);
  if (templates.length === 0) {
    const reason = overlookedReason(object);
    return reason === undefined ? [] : [{ place: place(object.at), title, result: "overlooked", reason }];
  }
  return templates.map(({ pod, required }): Outcome => {
    const at = { document, pod, from: object.at.length };
    const refusal = templateRefusal(at);
    const left =
      refusal === undefined ? labelReason(document, pod, namespaceLabels.get(namespace), options) : undefined;
    if (left !== undefined) return { place: place(pod), title, result: "skipped", reason: left };
    const found = refusal ?? injectTemplate(at, options);
    if (typeof found === "string") {
      return { place: place(pod), title, result: "injected", reason: { code: "injected", text: found } };
    }
    const isOptional = !required && found.reason.code === "no-pod-template";
    return { place: place(found.at), title, result: isOptional ? "overlooked" : "failed", reason: found.reason };
  });
}

/** Why the labels leave a pod template out. The webhook decides in the same way about the pod's own label. */
function labelReason(
  document: Document,
  pod: Path,
  namespaceLabels: Record<string, string> = {},
  { optedIn }: ManifestOptions,
): Reason | undefined {
  const { labels } = Object(plainAt(document, [...pod, "metadata"]));
  const own = textsOf(labels)[INJECT_KEY];
  if (own === "disabled")
    return { code: "pod-disabled", text: `the pod's label ${INJECT_KEY} is disabled, and the pod's label wins` };
  if (!optedIn || own === "enabled" || namespaceLabels[INJECT_KEY] === "enabled") return undefined;
  return { code: "not-opted-in", text: `neither the pod nor its namespace opted in by the label ${INJECT_KEY}` };
}

/** The offset of a path in the text; if the path does not exist, that of the nearest enclosing value. */
function offsetOf(document: Document.Parsed, path: Path): number {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return document.contents?.range[0] ?? document.range[0];
}

/** Prints a changed document. Comments, order, anchors and quotes stay; other layout may change. JSON stays JSON. */
function render(document: Document.Parsed, text: string): string {
  const output = yamlText(document);
  return text.includes("\r\n") ? output.replaceAll("\n", "\r\n") : output;
}

/**
 * Prints numbers in their original notation. YAML 1.2 reads `defaultMode: 0644` as 644, but kubectl (YAML 1.1) reads
 * it as octal. A number may also have more digits than a double can hold.
 */
function keepNumbers(tags: Tags): Tags {
  const numbers = ["tag:yaml.org,2002:int", "tag:yaml.org,2002:float"];
  return tags.map((tag) => {
    if (typeof tag !== "object" || !numbers.includes(tag.tag)) return tag;
    const { stringify } = tag as ScalarTag;
    return {
      ...(tag as ScalarTag),
      stringify: (node, ...rest) => node.source ?? stringify?.(node, ...rest) ?? String(node.value),
    } satisfies ScalarTag;
  });
}
