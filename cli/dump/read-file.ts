import { readFile } from "node:fs/promises";
import { text as textOf } from "node:stream/consumers";
import { type Finding, findingsOf } from "#doctor/findings.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { attempt, renderFlaw, type Schema } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { groupOf } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { answerSchema, DUMP_VERSION, type DumpHead, headSchema } from "./format.ts";
import { objectSchema, SCHEMAS, typeOf } from "./schemas.ts";
import { NOT_IN_FILE, type StoredAnswer, storedClient } from "./stored-client.ts";
import { parseObjectPath, pluralOf, StoredObjects } from "./stored-objects.ts";

// Reads a cluster from a file: what `switchback dump` writes, and what `kubectl get -o yaml` or `-o json` prints.

/** Maximum length of a document in YAML, in characters. The parser needs a hundred times the memory of its text. */
const MAX_YAML_LENGTH = 2 * 1024 * 1024;
/** Maximum number of left-out objects that are named one by one. */
const MAX_NAMED = 10;

/** A cluster in memory. */
export interface ClusterFile {
  readonly head: DumpHead;
  readonly client: KubeClient;
  /** When the cluster was read, milliseconds since 1970. */
  readonly time: number;
  /** What is not a valid object, each with its place and the fault. */
  readonly leftOut: readonly string[];
  /** What the callers of `client` asked for, and the file does not have, with the command that adds it. */
  readonly lacks: () => { readonly text: string; readonly cure: string } | undefined;
}

/** Reads a file, or standard input for `-`. Throws `input-invalid` with the file and the document. */
export async function readClusterFile(file: string): Promise<ClusterFile> {
  const name = file === "-" ? "standard input" : file;
  try {
    const text = file === "-" ? await textOf(process.stdin) : await readFile(file, "utf8");
    return await new FileReader(name).read(text);
  } catch (cause) {
    if (cause instanceof SwitchbackError) throw cause;
    throw new SwitchbackError("input-invalid", `--from ${name}: ${describeError(cause)}`);
  }
}

/** Separates documents. Something may follow on the same line. */
const MARKER = /^(?:---|\.\.\.)(?=\s|$)/m;
/** The first line of an object or list: `kubectl get >> FILE` appends one without a marker. */
const FIRST = { json: /^\{/gm, yaml: /^apiVersion:/gm };
/** A list in YAML, and the beginning of each of its items. */
const LIST = /^items:\n- /m;
const ITEM = /^- /m;

interface Document {
  readonly text: string;
  /** The number of its first line. */
  readonly line: number;
}

/** Splits a file into documents, and lists in YAML into their items: a list may be as long as a cluster is large. */
function* splitDocuments(file: string): Generator<Document> {
  let line = 1;
  for (const part of file.replaceAll("\r\n", "\n").split(MARKER)) {
    for (const text of cutAt(part, isJson(part) ? FIRST.json : FIRST.yaml)) {
      for (const [document, raw] of itemsOf(text)) {
        yield { text: document, line };
        line += raw.split("\n").length - 1;
      }
    }
  }
}

function isJson(text: string): boolean {
  return text.trimStart().startsWith("{");
}

/** The items of a list, each as a document and as it is in the file; another document is its only item. */
function itemsOf(text: string): (readonly [document: string, raw: string])[] {
  if (isJson(text) || !LIST.test(text)) return [[text, text]];
  const [head = "", ...items] = text.split(ITEM);
  // The fields of the list come before and after its items.
  return [["", head], ...items.map((item) => [`  ${item}`.split(/\n(?=\S)/, 1).join(), item] as const)];
}

/** Cuts a text before each match but the first. */
function cutAt(text: string, pattern: RegExp): string[] {
  const [, ...starts] = Array.from(text.matchAll(pattern), ({ index }) => index);
  return [0, ...starts].map((start, at) => text.slice(start, starts[at]));
}

class FileReader {
  readonly #file: string;
  readonly #objects = new StoredObjects();
  /** The answers, by method and path. */
  readonly #answers = new Map<string, StoredAnswer>();
  readonly #lacking = new Set<string>();
  readonly #leftOut: string[] = [];
  #leftOutCount = 0;
  #read = 0;
  #head: DumpHead | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  async read(text: string): Promise<ClusterFile> {
    for (const document of splitDocuments(text)) {
      const place = `${this.#file}: line ${document.line}`;
      for (const value of listed(await parseDocument(document.text, place))) this.#add(value, place);
    }
    if (this.#read === 0) throw invalid(this.#file, `it has no object of Kubernetes; ${EXPECTED}`);
    const more = this.#leftOutCount - this.#leftOut.length;
    const head = this.#head ?? attempt(headSchema, {}).value;
    if (head === undefined) throw new TypeError("a head without fields is valid");
    const time = Date.parse(head.time ?? "");
    return {
      head,
      client: storedClient({ objects: this.#objects, answers: this.#answers, lacking: this.#lacking }),
      time: Number.isNaN(time) ? Date.now() : time,
      leftOut: more > 0 ? [...this.#leftOut, `${this.#file}: ${more} more documents are left out`] : this.#leftOut,
      lacks: () => lacks(this.#lacking, this.#file),
    };
  }

  #add(value: unknown, place: string): void {
    const { apiVersion, kind } = Object(value) as { apiVersion?: unknown; kind?: unknown };
    if (typeof apiVersion !== "string" || !apiVersion.startsWith("dump.switchback.dev/")) this.#addObject(value, place);
    else if (apiVersion !== DUMP_VERSION)
      throw invalid(place, `the format ${shown(apiVersion)} is not known; this program reads ${DUMP_VERSION}`);
    else if (kind === "Answer") this.#addAnswer(value, place);
    else if (kind === "Dump") {
      const { value: head, flaw } = attempt(headSchema, value);
      if (flaw !== undefined) throw invalid(place, renderFlaw(flaw));
      this.#head = head;
      this.#read += 1;
    } else this.#leaveOut(place, `the kind ${shown(kind)} of ${DUMP_VERSION} is unknown`);
  }

  #addAnswer(value: unknown, place: string): void {
    const answer = this.#checked(answerSchema, value, place);
    if (answer !== undefined) this.#answers.set(`${answer.method} ${answer.path}`, answer);
  }

  /** Keeps what the schema of its kind has. Of a kind that only the configuration may name, everything. */
  #addObject(value: unknown, place: string): void {
    const object = this.#checked(objectSchema, value, place);
    if (object === undefined) return;
    const { apiVersion, kind } = object;
    const schema = SCHEMAS.get(typeOf(pluralOf(kind), groupOf(apiVersion)));
    const kept = schema === undefined ? value : this.#checked(schema, value, place);
    this.#read += 1;
    if (kept !== undefined) this.#objects.add(kept as ApiObject);
  }

  #checked<S extends Schema>(schema: S, value: unknown, place: string) {
    const { value: read, flaw } = attempt(schema, value);
    if (flaw !== undefined) this.#leaveOut(place, renderFlaw(flaw));
    return read;
  }

  #leaveOut(place: string, text: string): void {
    this.#leftOutCount += 1;
    if (this.#leftOut.length < MAX_NAMED) this.#leftOut.push(`${place} is left out: ${text}`);
  }
}

/** Parses a document: JSON, or any other YAML. Undefined: it is empty. */
async function parseDocument(text: string, place: string): Promise<unknown> {
  if (text.trim() === "") return undefined;
  if (isJson(text)) {
    try {
      return JSON.parse(text);
    } catch {
      // This is YAML in flow style.
    }
  }
  if (text.length > MAX_YAML_LENGTH) throw invalid(place, `longer than ${MAX_YAML_LENGTH} characters and not JSON`);
  const { parseDocument: parseYaml } = await import("yaml");
  const document = parseYaml(text, { logLevel: "silent", prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) throw invalid(place, error.message);
  try {
    return document.toJS() ?? undefined;
  } catch (cause) {
    // The parser rejects aliases that would expand without limit.
    throw invalid(place, describeError(cause));
  }
}

/** The objects of a list, which may leave out what they share (`kubectl get --raw`), or the document itself. */
function listed(value: unknown): readonly unknown[] {
  const { apiVersion, kind, items } = Object(value) as { apiVersion?: unknown; kind?: unknown; items?: unknown };
  if (value === undefined) return [];
  if (!Array.isArray(items) || typeof kind !== "string" || !kind.endsWith("List")) return [value];
  const common = kind === "List" ? {} : { apiVersion, kind: kind.slice(0, -"List".length) };
  return items.map((item) => ({ ...common, ...Object(item) }));
}

/** The API groups of the kinds that every cluster has. */
const BUILT_IN = /^$|^apps$|^(?:networking|discovery|coordination|admissionregistration)\.k8s\.io$/;

/** Says what is lacking in one line. Optional kinds count by their group: a cluster may not have them. */
function lacks(paths: ReadonlySet<string>, file: string): ReturnType<ClusterFile["lacks"]> {
  const kinds = new Map<string, Set<string>>();
  const groups = new Set<string>();
  for (const path of paths) {
    const [, group = ""] = /^\/apis\/([^/]+)/.exec(path) ?? [];
    const { resource = "", namespace } = parseObjectPath(path) ?? {};
    const type = typeOf(resource, group);
    const where = namespace === undefined ? "-A" : `-n ${namespace}`;
    if (!BUILT_IN.test(group)) groups.add(group);
    // A Secret does not belong into a file.
    else if (SCHEMAS.has(type)) kinds.set(where, (kinds.get(where) ?? new Set()).add(resource));
  }
  if (kinds.size + groups.size === 0) return undefined;
  const optional = groups.size === 0 ? [] : [`kinds of ${[...groups].join(" and ")} (if the cluster has them)`];
  const gets = Array.from(kinds, ([where, types]) => `kubectl get ${[...types].join()} ${where} -o yaml >> ${file}`);
  return {
    text: `${file} does not have ${[...[...kinds.values()].flatMap((types) => [...types]), ...optional].join(", ")}`,
    cure: gets.join(" && ") || `kubectl get KINDS -A -o yaml >> ${file}`,
  };
}

/**
 * The findings about a file. What is unknown because the file does not have it is one finding, with the command that
 * adds it.
 */
export function findingsInFile({ lacks }: ClusterFile, findings: readonly Finding[]): Finding[] {
  const lacking = lacks();
  const known = findings.filter(({ status, evidence }) => status !== "unknown" || !evidence.includes(NOT_IN_FILE));
  if (lacking === undefined) return known;
  const { text, cure } = lacking;
  return [...known, findingsOf("reach").unknown("file", "dump-incomplete", text, cure)];
}

const EXPECTED = "--from reads what `kubectl get ... -A -o yaml` or `switchback dump` prints";

function invalid(place: string, text: string): SwitchbackError {
  return new SwitchbackError("input-invalid", `${place}: ${text}`);
}

function shown(value: unknown): string {
  return JSON.stringify(String(value).slice(0, 100));
}
