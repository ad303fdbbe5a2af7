import type { ServerResponse } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import type { Count } from "./counts.ts";
import type { MadeUpKind } from "./population.ts";
import { parseSelector, requiredValue } from "./selectors.ts";

/**
 * Form in which a request wants objects, given by its media type (Kubernetes API concepts, "Resource
 * representations").
 */
export type Form = "object" | "metadata" | "table";

export interface Selection {
  readonly namespace: string | undefined;
  readonly labelSelector: string | undefined;
  readonly fieldSelector: string | undefined;
  /** Selects the pods of one node by their numbers, so that the others need no check. */
  readonly every?: { readonly first: number; readonly step: number } | undefined;
}

interface Watch {
  readonly response: ServerResponse;
  readonly form: Form;
  readonly selects: (index: number) => boolean;
  readonly count: Count;
}

interface Logged {
  readonly version: number;
  readonly type: string;
  readonly index: number;
}

/**
 * Number of past events from which a watch may start. An earlier version gets the status 410, as from an API server
 * after a compaction.
 */
const LOG_EVENTS = 20_000;
/** Maximum number of list items that are made in one step. */
const SLICE = 500;
const BOOKMARK_MS = 60_000;

/** One version counter for all made-up objects, as in one etcd. */
export class Versions {
  current = 1_000;
}

/** Answers lists and watches of one made-up kind. Stores no objects: each is made on request. */
export class MadeUpObjects {
  readonly #kind: MadeUpKind;
  readonly #versions: Versions;
  readonly #changed = new Map<number, number>();
  readonly #watches = new Set<Watch>();
  #log: Logged[] = [];
  /** The version of the newest event that is no longer in the log. */
  #compacted = 0;

  constructor(kind: MadeUpKind, versions: Versions) {
    this.#kind = kind;
    this.#versions = versions;
  }

  get kind(): MadeUpKind {
    return this.#kind;
  }

  /** Returns one object as JSON. */
  one(index: number, form: Form): string {
    return form === "table" ? this.#table([index], "{}") : this.#object(index, form, true);
  }

  /** Yields the selected objects, starting at `from`. */
  *#selected({ namespace, every }: Selection, selects: (index: number) => boolean, from = 0): Iterable<number> {
    const [first, end] = namespace === undefined ? [0, this.#kind.count] : (this.#kind.range(namespace) ?? [0, 0]);
    const step = every?.step ?? 1;
    const start = every === undefined ? first : every.first;
    const skipped = Math.max(0, Math.ceil((from - start) / step));
    for (let index = start + skipped * step; index < end; index += step) if (selects(index)) yield index;
  }

  /** Returns a page of a list. */
  list(selection: Selection, form: Form, query: URLSearchParams): string {
    const limit = Number(query.get("limit") ?? 0) || Number.POSITIVE_INFINITY;
    const from = Number(query.get("continue") ?? 0);
    const page: number[] = [];
    let next = "";
    for (const index of this.#selected(selection, this.#selects(selection), from)) {
      if (page.length === limit) {
        next = String(index);
        break;
      }
      page.push(index);
    }
    const metadata = JSON.stringify({ resourceVersion: String(this.#versions.current), continue: next });
    if (form === "table") return this.#table(page, metadata);
    const items = page.map((index) => this.#object(index, form, false)).join(",");
    const [kind, apiVersion] =
      form === "metadata"
        ? ["PartialObjectMetadataList", "meta.k8s.io/v1"]
        : [`${this.#kind.kind}List`, this.#kind.apiVersion];
    return `{"kind":"${kind}","apiVersion":"${apiVersion}","metadata":${metadata},"items":[${items}]}`;
  }

  /** Serves a watch until it is closed. */
  async watch(
    selection: Selection,
    form: Form,
    query: URLSearchParams,
    { response, count }: Pick<Watch, "response" | "count">,
  ): Promise<void> {
    const selects = this.#selects(selection);
    const watch: Watch = { response, form, selects, count };
    const since = Number(query.get("resourceVersion") ?? 0);
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    if (since > 0 && since < this.#compacted) {
      const expired = '{"kind":"Status","status":"Failure","reason":"Expired","message":"too old","code":410}';
      send(watch, `{"type":"ERROR","object":${expired}}\n`);
      response.end();
      return;
    }
    const initial = query.get("sendInitialEvents") === "true" || since === 0;
    const from = initial ? this.#versions.current : since;
    if (initial) await this.#sendAll(watch, selection);
    for (const { version, type, index } of this.#log)
      if (version > from && selects(index)) this.#event(watch, type, index);
    if (initial) this.#bookmark(watch, true);
    this.#watches.add(watch);
    const bookmarks = setInterval(() => this.#bookmark(watch, false), BOOKMARK_MS);
    const end = setTimeout(() => response.end(), (Number(query.get("timeoutSeconds")) || 1_800) * 1_000);
    response.once("close", () => {
      clearInterval(bookmarks);
      clearTimeout(end);
      this.#watches.delete(watch);
    });
  }

  /** Sends every selected object as an event, as fast as the client reads. */
  async #sendAll(watch: Watch, selection: Selection): Promise<void> {
    let made = 0;
    for (const index of this.#selected(selection, watch.selects)) {
      this.#event(watch, "ADDED", index);
      made += 1;
      if (made % SLICE !== 0) continue;
      await turn();
      while (watch.response.writableNeedDrain && !watch.response.destroyed) await turn();
    }
  }

  /** Handles a changed, new or deleted object: it gets a new version, and its watches receive an event. */
  change(index: number, type: "ADDED" | "MODIFIED" | "DELETED" = "MODIFIED"): void {
    this.#versions.current += 1;
    this.#changed.set(index, this.#versions.current);
    this.#log.push({ version: this.#versions.current, type, index });
    if (this.#log.length > 2 * LOG_EVENTS) {
      this.#compacted = this.#log[this.#log.length - LOG_EVENTS - 1]?.version ?? 0;
      this.#log = this.#log.slice(-LOG_EVENTS);
    }
    for (const watch of this.#watches) if (watch.selects(index)) this.#event(watch, type, index);
  }

  #selects({ namespace, labelSelector, fieldSelector, every }: Selection): (index: number) => boolean {
    const kind = this.#kind;
    const [first, end] = namespace === undefined ? [0, kind.count] : (kind.range(namespace) ?? [0, 0]);
    const labels = labelSelector === undefined ? undefined : parseSelector(labelSelector);
    const fields = fieldSelector === undefined ? undefined : parseSelector(fieldSelector);
    const within = namespace === undefined ? () => true : (index: number) => index >= first && index < end;
    return (index) =>
      within(index) &&
      (kind.has?.(index) ?? true) &&
      (every === undefined || index % every.step === every.first) &&
      (labels?.(kind.labels(index)) ?? true) &&
      (fields?.(kind.fields(index)) ?? true);
  }

  #event(watch: Watch, type: string, index: number): void {
    watch.count.events += 1;
    send(watch, `{"type":"${type}","object":${this.one(index, watch.form)}}\n`);
  }

  #bookmark(watch: Watch, initial: boolean): void {
    const annotations = initial ? { "k8s.io/initial-events-end": "true" } : undefined;
    const metadata = JSON.stringify({ resourceVersion: String(this.#versions.current), annotations });
    const [kind, apiVersion] =
      watch.form === "object" ? [this.#kind.kind, this.#kind.apiVersion] : ["PartialObjectMetadata", "meta.k8s.io/v1"];
    const object = `{"kind":"${kind}","apiVersion":"${apiVersion}","metadata":${metadata}}`;
    const table = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":${metadata},"rows":[{"cells":[],"object":${object}}]}`;
    send(watch, `{"type":"BOOKMARK","object":${watch.form === "table" ? table : object}}\n`);
  }

  #object(index: number, form: Form, alone: boolean): string {
    const kind = this.#kind;
    const metadata = kind.metadata(index, this.#changed.get(index) ?? 1);
    if (form === "object") {
      const head = alone ? `"kind":"${kind.kind}","apiVersion":"${kind.apiVersion}",` : "";
      return `{${head}"metadata":${metadata}${kind.rest(index)}}`;
    }
    const head = alone || form === "table" ? '"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",' : "";
    return `{${head}"metadata":${metadata}}`;
  }

  #table(page: readonly number[], metadata: string): string {
    const columns = this.#kind.columns.map((name) => ({ name, type: "string", format: "", description: "" }));
    const rows = page.map(
      (index) => `{"cells":${this.#kind.cells(index)},"object":${this.#object(index, "table", true)}}`,
    );
    const head = '"kind":"Table","apiVersion":"meta.k8s.io/v1"';
    return `{${head},"metadata":${metadata},"columnDefinitions":${JSON.stringify(columns)},"rows":[${rows.join(",")}]}`;
  }
}

function send({ response, count }: Watch, line: string): void {
  count.bytes += Buffer.byteLength(line);
  response.write(line);
}

/** The form that the Accept header asks for. */
export function formOf(accept: string | undefined): Form {
  if (/as=Table/.test(accept ?? "")) return "table";
  return /as=PartialObjectMetadata/.test(accept ?? "") ? "metadata" : "object";
}

/** The number of the node that a field selector selects, and the distance between its pods' numbers. */
export function nodeStep(fieldSelector: string | undefined, nodes: number): Selection["every"] {
  const node = requiredValue(fieldSelector, "spec.nodeName");
  const first = Number(/^node-(\d{5})\./.exec(node ?? "")?.[1] ?? Number.NaN);
  return first < nodes ? { first, step: nodes } : undefined;
}
