import { type Document, isAlias, isMap, isScalar, isSeq } from "yaml";
import { printableLines } from "#lib/errors/printable.ts";
import { yamlText } from "../yaml-text.ts";
import { jsonValues } from "./json-stream.ts";
import { parseManifest } from "./parse.ts";
import type { SourceEdits } from "./source-edits.ts";

type Documents = readonly Document.Parsed[];

/**
 * The text of a file after its documents were changed: the original text with the edits. If the edits do not match
 * the nodes, or a terminal could act on the text, prints the nodes instead. That keeps comments and order, but not
 * the layout.
 */
export function printManifest(documents: Documents, source: SourceEdits, changed: boolean): string {
  const text = source.apply();
  if (text !== undefined && (!changed || saysTheSame(text, documents))) {
    if (printableLines(text) === text) return text;
    if (jsonValues(text) !== undefined) return printableLines(text);
  }
  return documents.filter(isFilled).map(render).join("---\n");
}

/**
 * Joins several files: JSON documents one after another, as kubectl and jq read them; else YAML documents, with the
 * missing separators added.
 */
export function joinManifests(texts: readonly string[]): string {
  if (texts.length < 2) return texts.join("");
  const ended = texts.filter((text) => text !== "").map((text) => (text.endsWith("\n") ? text : `${text}\n`));
  const separator = ended.every((text) => jsonValues(text) !== undefined) ? "" : "---\n";
  const before = (text: string) => (text.startsWith("---") ? "" : text.startsWith("%") ? "...\n" : separator);
  return ended.map((text, index) => (index === 0 ? text : `${before(text)}${text}`)).join("");
}

function saysTheSame(text: string, documents: Documents): boolean {
  const read = parseManifest(text).documents;
  return (
    read.length === documents.length &&
    read.every(({ errors, contents }, index) => errors.length === 0 && isSame(contents, documents[index]?.contents))
  );
}

function isSame(one: unknown, other: unknown): boolean {
  if (isAlias(one)) return isAlias(other) && one.source === other.source;
  if (isScalar(one)) {
    return isScalar(other) && Object.is(one.value, other.value) && one.anchor === other.anchor && one.tag === other.tag;
  }
  if (isMap(one)) {
    return (
      isMap(other) &&
      one.anchor === other.anchor &&
      one.items.length === other.items.length &&
      one.items.every((pair, index) => {
        const { key, value } = other.items[index] ?? {};
        return isSame(pair.key, key) && isSame(pair.value, value);
      })
    );
  }
  if (!isSeq(one)) return one === other;
  return (
    isSeq(other) &&
    one.anchor === other.anchor &&
    one.items.length === other.items.length &&
    one.items.every((item, index) => isSame(item, other.items[index]))
  );
}

function isFilled({ contents }: Document.Parsed): boolean {
  return contents !== null && !(isScalar(contents) && contents.value === null);
}

/** Renders a document without its separator, because the caller writes the separators. */
function render(document: Document.Parsed): string {
  if (document.directives) document.directives.docStart = null;
  return yamlText(document);
}
