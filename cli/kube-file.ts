import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseDocument } from "yaml";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";

// Reads Kubernetes objects from text: what a person writes, and what kubectl prints. A place is `FILE:LINE`.

/** A text file, with the name that messages use for it. */
export interface TextFile {
  readonly name: string;
  /** Has no byte order mark. */
  readonly text: string;
}

/** A place in a document: keys of maps, and indices of lists. */
export type Path = readonly (string | number)[];

/** The files of a directory that kubectl reads. */
const MANIFEST = /\.(?:ya?ml|json)$/;

/**
 * Returns the files that a command line names, in that order. A directory is replaced by its manifests, sorted by
 * name; with `recursive`, also by those in its subfolders. Throws `input-invalid` for a directory without manifests.
 */
export function findFiles(named: readonly string[], recursive = false): string[] {
  return named.flatMap((name) => {
    try {
      // Reading what does not exist reports why.
      if (!statSync(name, { throwIfNoEntry: false })?.isDirectory()) return [name];
      const files = manifestsIn(name, recursive);
      if (files.length > 0) return files;
    } catch (error) {
      throw invalid(`cannot read ${name}`, describeError(error));
    }
    const hint = recursive ? "" : " (-R looks into its folders, too)";
    throw invalid(name, `it has no file *.yaml, *.yml or *.json${hint}`);
  });
}

function manifestsIn(directory: string, recursive: boolean): string[] {
  const entries = readdirSync(directory, { withFileTypes: true });
  return entries
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(directory, entry.name);
      // Links to folders are not followed, because they may form a loop.
      if (entry.isDirectory()) return recursive ? manifestsIn(path, recursive) : [];
      // A pipe is left out: reading it would wait for its writer. Reading a broken link reports it.
      return MANIFEST.test(path) && (statSync(path, { throwIfNoEntry: false })?.isFile() ?? true) ? [path] : [];
    });
}

/** How messages name what `-` reads. */
export const STDIN = "standard input";

/** By the codes of the system. */
const UNREADABLE: Readonly<Record<string, string>> = { ENOENT: "there is no such file", EISDIR: "it is a folder" };

/** Reads a text in UTF-8, or standard input for `-`. Throws `input-invalid` if that fails. */
export function readTextFile(file: string): TextFile {
  const name = file === "-" ? STDIN : file;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(file === "-" ? 0 : file));
  } catch (error) {
    const why = UNREADABLE[(error as NodeJS.ErrnoException).code ?? ""] ?? describeError(error);
    throw invalid(`cannot read ${name}`, why);
  }
  // PowerShell's `>` writes UTF-16.
  if (text.includes("\0")) throw invalid(`cannot read ${name}`, "it has NUL characters, so it is binary or in UTF-16");
  return { name, text };
}

/** A part of a text. */
export interface Part {
  readonly text: string;
  /** The number of its first line, from 1. */
  readonly line: number;
}

/**
 * The start of a document. A marker cannot be inside a value (YAML 1.2, rule c-forbidden), so a text is split before it
 * is parsed, as kubectl does. A part that cannot be parsed does not affect the others.
 */
const MARKER = /^(?=---(?:\s|$))/m;
/** Comments and directives before the first marker belong to the document after it. */
const PREAMBLE = /^(?:[#%][^\n]*\n|[^\S\n]*\n)*$/;

/** Splits a text into YAML documents, each with its marker. The parts together are the text. */
export function splitDocuments(text: string): Part[] {
  return split({ text, line: 1 }, MARKER, PREAMBLE);
}

/** Splits a part before each match of `start`. What matches `preamble` and precedes the first match stays with it. */
function split({ text, line }: Part, start: RegExp, preamble = /^/): Part[] {
  const [first = "", ...rest] = text.split(start);
  const isPreamble = rest.length > 0 && !start.test(first) && preamble.test(first);
  const pieces = isPreamble ? [first + rest[0], ...rest.slice(1)] : [first, ...rest];
  let next = line;
  return pieces.map((piece) => {
    const part = { text: piece, line: next };
    next += piece.split("\n").length - 1;
    return part;
  });
}

/**
 * The items of a list, or the value as its only item. In a list of one kind, such as a `ServiceList`, only the list
 * states the kind.
 */
export function unfold(value: unknown, at: Path = []): { readonly at: Path; readonly value: KubeValue }[] {
  const { apiVersion, kind, items } = Object(value) as KubeValue;
  if (!Array.isArray(items) || typeof kind !== "string" || !kind.endsWith("List"))
    return [{ at, value: Object(value) }];
  const common = kind === "List" ? {} : { apiVersion, kind: kind.slice(0, -"List".length) };
  return items.flatMap((item, index) => unfold({ ...common, ...Object(item) }, [...at, "items", index]));
}

/** What should be an object. */
export interface KubeValue {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly metadata?: unknown;
  readonly status?: unknown;
  readonly items?: unknown;
}

/** Maximum length of a part in YAML, in characters. The parser needs a hundred times the memory of its text. */
const MAX_YAML_LENGTH = 2 * 1024 * 1024;
/** The first line of an object: `kubectl get >> FILE` appends objects without a marker, also JSON to YAML. */
const FIRST_LINE = /^(?=\{|apiVersion:)/m;
/** A list as kubectl prints it, and a line that is not indented. */
const LIST = /^items:\n- /m;
const UNINDENTED = /^(?=\S)/m;

/**
 * The objects and empty lists of a file, each with its place. A list is read item by item, because it may be as long as
 * a cluster is large. Throws `input-invalid` with the place of what is neither YAML nor JSON.
 */
export function* valuesIn({ name, text }: TextFile): Generator<{ readonly value: KubeValue; readonly place: string }> {
  const parts = splitDocuments(text.replaceAll("\r\n", "\n"))
    .flatMap((part) => split(part, FIRST_LINE))
    .flatMap(itemsOf);
  for (const part of parts) {
    const place = `${name}:${part.line}`;
    const value = parsePart(part.text, place);
    const items = value === undefined ? [] : unfold(value);
    if (value !== undefined) for (const each of items.length === 0 ? [{ value }] : items) yield { ...each, place };
  }
}

/** The items of a list in YAML, each as a document. The fields of the list come before and after its items. */
function itemsOf(part: Part): Part[] {
  if (isJson(part.text) || !LIST.test(part.text)) return [part];
  const items = split(part, UNINDENTED).filter(({ text }) => text.startsWith("- "));
  return items.map(({ text, line }) => ({ text: text.replace("-", " "), line }));
}

function isJson(text: string): boolean {
  return /^(?:---)?\s*\{/.test(text);
}

/** Parses JSON or any other YAML. Undefined: it is empty. */
function parsePart(text: string, place: string): KubeValue | undefined {
  if (isJson(text)) {
    try {
      return JSON.parse(text.replace(/^---/, ""));
    } catch {
      // This is YAML in flow style.
    }
  }
  if (text.length > MAX_YAML_LENGTH) throw invalid(place, `longer than ${MAX_YAML_LENGTH} characters and not JSON`);
  const document = parseDocument(text, { logLevel: "silent", prettyErrors: false });
  if (document.errors[0] !== undefined) throw invalid(place, document.errors[0].message);
  try {
    return document.toJS() ?? undefined;
  } catch (error) {
    // The parser rejects aliases that would expand without limit.
    throw invalid(place, describeError(error));
  }
}

/** The error about a place in a file. */
export function invalid(place: string, text: string): SwitchbackError {
  return new SwitchbackError("input-invalid", `${place}: ${text}`);
}
