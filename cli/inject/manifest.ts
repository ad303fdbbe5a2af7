import { type Document, isNode, isScalar, LineCounter, visit } from "yaml";
import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { jsonValues } from "./json-stream.ts";
import { expandPath, type ManifestObject, objectsOf, overlookedReason, titleOf } from "./objects.ts";
import { parseManifest } from "./parse.ts";
import {
  type InjectOptions,
  injectTemplate,
  type Refusal,
  type TemplatePlace,
  templateRefusal,
} from "./pod-template.ts";
import { type TemplatePath, templatePathsOf } from "./pod-templates.ts";
import { printManifest } from "./print.ts";
import { SourceEdits } from "./source-edits.ts";
import type { TextFile } from "./text-file.ts";
import { type Path, YamlEditor } from "./yaml-editor.ts";

/** The result for one object of a file, or for one of several pod templates of an object. */
export interface Outcome {
  /** The object's place: `web.yaml:12: document 2`. */
  readonly place: string;
  /** `Deployment shop/web`; undefined if the object has no name. */
  readonly title: string | undefined;
  /**
   * `skipped`: the object opted out. `overlooked`: the user may have wanted it injected. `failed`: it should be
   * injected, but cannot be.
   */
  readonly result: "injected" | "skipped" | "overlooked" | "failed";
  readonly reason: Reason;
}

export interface ManifestOptions extends InjectOptions {
  /** Where other kinds than Kubernetes' own have their pod templates. */
  readonly templatePaths: readonly TemplatePath[];
}

export interface Injected {
  readonly output: string;
  readonly outcomes: readonly Outcome[];
}

/** A document while it is being changed. */
interface Work {
  readonly document: Document.Parsed;
  readonly editor: YamlEditor;
  readonly options: ManifestOptions;
  readonly outcome: (at: Path, found: Omit<Outcome, "place">) => Outcome;
}

/**
 * Adds hostAliases and annotations to every pod template of a file of YAML or JSON documents. The rest of the text
 * does not change. A document that does not parse or cannot be injected yields a failed outcome, and the output is
 * then incomplete.
 */
export function injectManifest({ name, text }: TextFile, options: ManifestOptions): Injected {
  const parts: Injected[] = [];
  let before = 0;
  // A stream of JSON objects is not valid YAML, so each object is injected separately.
  for (const [index, part] of (jsonValues(text) ?? [text]).entries()) {
    parts.push(injectPart(part, (line, document) => `${name}:${before + line}: document ${index + document}`, options));
    before += part.split("\n").length - 1;
  }
  return {
    output: parts.map(({ output }) => output).join(""),
    outcomes: parts.flatMap(({ outcomes }) => outcomes),
  };
}

/** `place` gets a line and the number of a document within the part; both start at 1. */
function injectPart(
  text: string,
  place: (line: number, document: number) => string,
  options: ManifestOptions,
): Injected {
  const lines = new LineCounter();
  const { documents, padded, paddings } = parseManifest(text, lines);
  const source = new SourceEdits(padded);
  for (const { offset, length } of paddings) source.replace(offset, offset + length, "");
  const outcomes = documents.flatMap((document, index) => {
    const placeAt = (offset: number) => place(lines.linePos(offset).line, index + 1);
    const outcome: Work["outcome"] = (at, found) => ({ place: placeAt(offsetOf(document, at)), ...found });
    const fault = documentFault(document);
    if (fault !== undefined) {
      const reason = { code: "yaml-invalid", text: fault.text };
      return [{ place: placeAt(fault.offset), title: undefined, result: "failed", reason } satisfies Outcome];
    }
    return injectDocument({ document, editor: new YamlEditor(document, source), options, outcome });
  });
  if (outcomes.some(({ result }) => result === "failed")) return { output: "", outcomes };
  const changed = outcomes.some(({ result }) => result === "injected");
  return { output: printManifest(documents, source, changed), outcomes };
}

/** Why a document cannot be read. */
function documentFault(document: Document.Parsed): { text: string; offset: number } | undefined {
  const [error] = document.errors;
  if (error === undefined) return aliasFault(document);
  // The line number in the message is removed, because the place is printed before it.
  const text = error.message.replace(/(?: at line \d+, column \d+)?:?\n[\s\S]*/, "");
  return { text, offset: error.pos[0] };
}

/** The first alias that no YAML reader can resolve. The parser itself would report it only when the value is used. */
function aliasFault(document: Document): { text: string; offset: number } | undefined {
  const anchors = new Map<string, unknown>();
  let fault: { text: string; offset: number } | undefined;
  visit(document, {
    Alias(_key, { source, range }, path) {
      const anchored = anchors.get(source);
      const isInside = path.includes(anchored as Document);
      if (anchored !== undefined && !isInside) return undefined;
      const what = isInside ? "refers to a value that contains the alias itself" : "has no anchor before it";
      fault = { text: `the alias *${source} ${what}`, offset: range?.[0] ?? 0 };
      return visit.BREAK;
    },
    Value(_key, node) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node);
    },
  });
  return fault;
}

function injectDocument(work: Work): Outcome[] {
  const { document, outcome } = work;
  if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) return [];
  const outcomes = objectsOf(document).flatMap((object) => {
    if ("kind" in object) return injectObject(work, object);
    const reason = { code: "not-an-object", text: "this is not a Kubernetes object: it has no kind" };
    return [outcome(object, { title: undefined, result: "overlooked", reason })];
  });
  work.editor.commit();
  return outcomes;
}

function injectObject(work: Work, object: ManifestObject): Outcome[] {
  const { document, options, outcome } = work;
  const title = titleOf(document, object);
  const paths = templatePathsOf(object.kind, object.apiVersion, options.templatePaths);
  if (paths.length === 0) {
    const reason = overlookedReason(document, object);
    return reason === undefined ? [] : [outcome(object.at, { title, result: "overlooked", reason })];
  }
  // Two --template-path flags may match the same template.
  const pods = new Map(
    paths.flatMap((path) =>
      expandPath(document, object.at, path).map(
        (pod) => [JSON.stringify(pod), { pod, required: path.required }] as const,
      ),
    ),
  );
  return [...pods.values()].map(({ pod, required }) => {
    const found = injectPod(work, { document, pod, from: object.at.length });
    if (typeof found === "string") {
      return outcome(pod, { title, result: "injected", reason: { code: "injected", text: found } });
    }
    const isOptional = !required && found.reason.code === "no-pod-template";
    return outcome(found.at, {
      title,
      result: found.result ?? (isOptional ? "overlooked" : "failed"),
      reason: found.reason,
    });
  });
}

type Left = Refusal & { readonly result?: "skipped" };

function injectPod({ editor, options }: Work, place: TemplatePlace): string | Left {
  const refusal = templateRefusal(place);
  if (refusal !== undefined) return refusal;
  const at = [...place.pod, "metadata", "labels", INJECT_KEY];
  if (place.document.getIn(at) === "disabled") {
    return { reason: { code: "pod-disabled", text: `label ${INJECT_KEY}: disabled` }, at, result: "skipped" };
  }
  return injectTemplate(place, editor, options);
}

/** The offset of a path in the text; if the path does not exist, that of the nearest enclosing value. */
function offsetOf(document: Document.Parsed, path: Path): number {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return document.contents?.range[0] ?? document.range[0];
}
