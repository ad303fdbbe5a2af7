import { createReadStream } from "node:fs";
import { foldCase } from "#hostmap/hostnames.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { attempt, renderFlaw, type Schema } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { groupOf } from "#lib/kube/paths.ts";
import { type DumpText, invalid, parseDocument, splitDocuments } from "./documents.ts";
import { answerSchema, DUMP_VERSION, type DumpHead, headSchema, lookupSchema } from "./format.ts";
import { inGroup } from "./public-fields.ts";
import { objectSchema, SCHEMAS } from "./schemas.ts";
import { type StoredAnswer, storedClient } from "./stored-client.ts";
import { pluralOf, StoredObjects } from "./stored-objects.ts";

/** Maximum number of characters of a dump to keep in memory. Each takes one or two bytes. */
const MAX_KEPT = 512 * 1024 * 1024;
/** Maximum number of left-out documents that are named one by one. */
const MAX_NAMED = 10;

/** A dump in memory. */
export interface Dump {
  readonly head: DumpHead;
  readonly client: KubeClient;
  /** When the cluster was read, milliseconds since 1970. */
  readonly time: number;
  /** The DNS answers of the cluster, by name or wildcard. */
  readonly lookups: ReadonlyMap<string, readonly string[]>;
  /** Documents that are not valid objects, each with its place and the fault. */
  readonly leftOut: readonly string[];
}

/** Reads a dump from a file, or from standard input for `-`. Throws `input-invalid` with the file and the document. */
export async function readDump(file: string): Promise<Dump> {
  const source = file === "-" ? process.stdin.setEncoding("utf8") : createReadStream(file, "utf8");
  const name = file === "-" ? "standard input" : file;
  const reader = new DumpReader(name);
  try {
    for await (const document of splitDocuments(name, source)) await reader.add(document);
  } catch (cause) {
    if (cause instanceof SwitchbackError) throw cause;
    throw new SwitchbackError("input-invalid", `--from ${name}: ${describeError(cause)}`);
  }
  return reader.result();
}

class DumpReader {
  readonly #file: string;
  readonly #objects = new StoredObjects();
  /** The answers, by method and path. Every API server answers `/version`. */
  readonly #answers = new Map<string, StoredAnswer>([["GET /version", { status: 200, body: {} }]]);
  readonly #lookups = new Map<string, readonly string[]>();
  readonly #leftOut: string[] = [];
  #leftOutCount = 0;
  #kept = 0;
  #head: DumpHead | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  async add(document: DumpText): Promise<void> {
    const { value, json } = await parseDocument(document);
    if (value === null) return;
    const { apiVersion, kind } = (typeof value === "object" ? value : {}) as { apiVersion?: unknown; kind?: unknown };
    if (this.#head === undefined) this.#head = headOf(value, apiVersion, kind, document.place);
    else if (apiVersion === DUMP_VERSION) this.#addOurs(value, kind, document);
    else this.#addObject(value, document.place, json);
    if (this.#objects.length + this.#kept > MAX_KEPT) {
      throw invalid(document.place, `the dump is longer than ${MAX_KEPT} characters; leave out objects`);
    }
  }

  result(): Dump {
    if (this.#head === undefined) throw invalid(this.#file, `it is empty; ${EXPECTED}`);
    const more = this.#leftOutCount - this.#leftOut.length;
    const time = Date.parse(this.#head.time ?? "");
    return {
      head: this.#head,
      client: storedClient({ objects: this.#objects, answers: this.#answers }),
      lookups: this.#lookups,
      time: Number.isNaN(time) ? Date.now() : time,
      leftOut: more > 0 ? [...this.#leftOut, `${this.#file}: ${more} more documents are left out`] : this.#leftOut,
    };
  }

  #addOurs(value: unknown, kind: unknown, { place, text }: DumpText): void {
    if (kind === "Answer") {
      const answer = this.#checked(answerSchema, value, place);
      if (answer !== undefined) this.#answers.set(`${answer.method} ${answer.path}`, answer);
    } else if (kind === "Lookup") {
      const lookup = this.#checked(lookupSchema, value, place);
      if (lookup !== undefined) this.#lookups.set(foldCase(lookup.name), lookup.addresses);
    } else {
      this.#leaveOut(place, `the kind ${shown(kind)} of ${DUMP_VERSION} is unknown`);
      return;
    }
    this.#kept += text.length;
  }

  #addObject(value: unknown, place: string, json: string | undefined): void {
    const object = this.#checked(objectSchema, value, place);
    if (object === undefined) return;
    const { apiVersion, kind } = object;
    const group = groupOf(apiVersion);
    const resource = this.#head?.resources[inGroup(kind, group)] ?? pluralOf(kind);
    const schema = SCHEMAS.get(inGroup(resource, group));
    if (schema !== undefined && this.#checked(schema, value, place) === undefined) return;
    this.#objects.put(group === "" ? `/api/${apiVersion}` : `/apis/${apiVersion}`, resource, value as object, json);
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

const EXPECTED = `a dump begins with a document of apiVersion ${DUMP_VERSION} and kind Dump (switchback dump)`;

function headOf(value: unknown, apiVersion: unknown, kind: unknown, place: string): DumpHead {
  const isOther = typeof apiVersion === "string" && /^dump\.switchback\.dev\//.test(apiVersion);
  if (isOther && apiVersion !== DUMP_VERSION) {
    throw invalid(place, `the format ${shown(apiVersion)} is not known; this program reads ${DUMP_VERSION}`);
  }
  if (!isOther || kind !== "Dump") throw invalid(place, EXPECTED);
  const { value: head, flaw } = attempt(headSchema, value);
  if (flaw !== undefined) throw invalid(place, renderFlaw(flaw));
  return head;
}

function shown(value: unknown): string {
  return JSON.stringify(String(value).slice(0, 100));
}
