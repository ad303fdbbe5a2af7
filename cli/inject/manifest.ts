import { type Document, isCollection, LineCounter, type ParsedNode, parseDocument } from "yaml";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { printableLines } from "#lib/errors/printable.ts";
import { type KubeValue, type Path, splitDocuments, type TextFile, unfold } from "../kube-file.ts";
import { yamlText } from "../yaml-text.ts";
import { type InjectOptions, injectTemplate, labelReason, textsOf } from "./pod-template.ts";
import { overlookedReason, templatesOf } from "./pod-templates.ts";

/** The result for one object of a file, or for one of several pod templates of an object. */
export interface Outcome {
  /** `web.yaml:12`. */
  readonly place: string;
  /** `Deployment shop/web`; undefined if the object has no name. */
  readonly title?: string | undefined;
  /**
   * `skipped`: the object opted out, or did not opt in. `overlooked`: the user may have wanted it injected. `failed`:
   * it should be injected, but cannot be.
   */
  readonly result: "injected" | "skipped" | "overlooked" | "failed";
  readonly reason: Reason;
}

/** A document of a file, with its own text. */
export interface Manifest {
  readonly text: string;
  readonly document: Document.Parsed;
  /** See `unfold`. An empty document has none, and so has one that cannot be read. */
  readonly objects: readonly { readonly at: Path; readonly value: KubeValue; readonly place: string }[];
  /** Why the text cannot be read. */
  readonly fault?: Outcome;
}

/** Bounds what nested anchors can grow to. A manifest uses a few. */
const MAX_ALIASES = 10_000;

/** Splits a file into its YAML or JSON documents, and parses each. */
export function readManifests({ name, text: whole }: TextFile): Manifest[] {
  return splitDocuments(whole).map(({ text, line }) => {
    const lineCounter = new LineCounter();
    const document = parseDocument<ParsedNode>(text, {
      // Every value is a text or null, and is printed as it was written. kubectl reads YAML 1.1, where `defaultMode:
      // 0644` is octal, and a number may have more digits than a double can hold.
      ...{ schema: "failsafe", customTags: ["null"], strict: false },
      // What YAML reads of `{{ .Values.x }}` is a map as a key. Printed again, it would be no template any more.
      ...{ stringKeys: true, logLevel: "error", lineCounter },
    });
    const placeAt = (offset = 0) => `${name}:${line - 1 + lineCounter.linePos(offset).line}`;
    const unreadable = (fault: string, offset?: number): Manifest => {
      const hint = /\{\{/.test(text) ? "; a template of Helm has to be rendered first, by `helm template`" : "";
      const reason = { code: "yaml-invalid", text: fault + hint };
      return { text, document, objects: [], fault: { place: placeAt(offset), result: "overlooked", reason } };
    };
    const [error] = document.errors;
    // The line number in the message is removed, because the place is printed before it.
    if (error !== undefined)
      return unreadable(error.message.replace(/(?: at line \d+, column \d+)?:?\n[\s\S]*/, ""), error.pos[0]);
    try {
      const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
      // This throws for a value that contains itself, or that is too deep to visit.
      JSON.stringify(value);
      const objects = value === null || value === undefined ? [] : unfold(value);
      const placed = objects.map(({ at, ...object }) => {
        const { range } = (document.getIn(at, true) ?? document) as ParsedNode;
        return { ...object, at, place: placeAt(range[0]) };
      });
      return { text, document, objects: placed };
    } catch (invalid) {
      return unreadable(describeError(invalid).split("\n")[0] ?? "", document.contents?.range[0]);
    }
  });
}

/** The labels of the Namespace objects of all documents, by name. */
export function namespaceLabelsIn(manifests: readonly Manifest[]): Map<unknown, Record<string, string>> {
  const namespaces = manifests.flatMap(({ objects }) => objects.filter(({ value }) => value.kind === "Namespace"));
  return new Map(namespaces.map(({ value }) => [Object(value.metadata).name, textsOf(Object(value.metadata).labels)]));
}

/**
 * Adds hostAliases and annotations to every pod template of a document. `output` is the new text; the same text if
 * nothing changed. A document that cannot be read is one that is overlooked.
 */
export function injectManifest(
  { text, document, objects, fault }: Manifest,
  options: InjectOptions,
): { readonly output: string; readonly outcomes: readonly Outcome[] } {
  const outcomes = fault === undefined ? objects.flatMap((object) => injectObject(document, object, options)) : [fault];
  const isChanged = outcomes.some(({ result }) => result === "injected");
  const mayPrint = isChanged || (fault === undefined && printableLines(text) !== text);
  return { output: mayPrint ? render(document, text) : text, outcomes };
}

function injectObject(
  document: Document,
  { at, value, place }: Manifest["objects"][number],
  options: InjectOptions,
): Outcome[] {
  const { name, namespace } = Object(value.metadata);
  const title =
    typeof name === "string" ? `${value.kind} ${namespace === undefined ? "" : `${namespace}/`}${name}` : undefined;
  const outcome = (result: Outcome["result"], reason: Reason): Outcome => ({ place, title, result, reason });
  const templates = templatesOf(value, options.templatePaths);
  const overlooked = templates.length === 0 ? overlookedReason(value) : undefined;
  if (overlooked !== undefined) return [outcome("overlooked", overlooked)];
  return templates.map(({ path, required }) => {
    const inner = path.reduce<unknown>((outer, step) => Object(outer)[step], value);
    const template = { document, at: [...at, ...path], objectDepth: at.length, value: inner };
    const left = labelReason(template, namespace, options);
    if (left !== undefined) return outcome("skipped", left);
    const reason = injectTemplate(template, options);
    if (reason.code === "injected") return outcome("injected", reason);
    const isOptional = !required && reason.code === "no-pod-template";
    return outcome(isOptional ? "overlooked" : "failed", reason);
  });
}

/**
 * Prints a changed document. Comments, order, anchors and quotes stay; other layout may change. JSON stays JSON. New
 * texts are in double quotes: YAML 1.1, which kubectl reads, has many texts that are numbers or booleans.
 */
function render(document: Document.Parsed, text: string): string {
  const mayBeJson = isCollection(document.contents) && document.contents.flow === true;
  const defaultKeyType = mayBeJson ? "QUOTE_DOUBLE" : "PLAIN";
  const output = yamlText(document, { defaultStringType: "QUOTE_DOUBLE", defaultKeyType });
  return text.includes("\r\n") ? output.replaceAll("\n", "\r\n") : output;
}
