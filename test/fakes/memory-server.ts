import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { parseObjectPath } from "#cli/dump/object-paths.ts";
import { createClient, type KubeClient } from "#lib/kube/client.ts";
import type { Transport } from "#lib/kube/transport.ts";
import { json, type Responder } from "./kube-api.ts";
import { mergePatch, selecting } from "./memory-objects.ts";

/** One request that the API server in memory received. */
export interface MemoryCall {
  readonly method: string;
  /** The path without its query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown;
}

interface Stored {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly [field: string]: unknown;
}

interface Answer {
  readonly status: number;
  readonly body: object;
}

/**
 * An API server in memory behind the real client's transport. It answers requests by method and path. It has lists,
 * label selectors, merge patches and deletions, but no watches. It is for tests of the commands (doctor, uninstall,
 * status). `onCall` gets each request before the answer, and may change objects or return another answer. `respond`
 * serves the same answers through a socket. Nothing in it needs a clock.
 *
 * Use `MemoryKube` if the tested code watches, or if a test is about a reconciler's writes.
 */
export class MemoryServer {
  readonly objects = new Map<string, Stored>();
  readonly calls: MemoryCall[] = [];
  readonly client: KubeClient;
  onCall: (call: MemoryCall) => Answer | undefined = () => undefined;

  constructor() {
    const transport: Transport = {
      send: async ({ method, path, body }) => {
        const { pathname, searchParams } = new URL(path, "http://memory");
        const { status, body: text } = this.#take(method, pathname, searchParams, body ?? "");
        const headers = { "content-type": "application/json" };
        const response = Readable.from([Buffer.from(JSON.stringify(text))]);
        return Object.assign(response, { statusCode: status, headers }) as unknown as IncomingMessage;
      },
      dropIdle: () => {},
      close: () => {},
    };
    this.client = createClient(transport);
  }

  /** Serves the same answers through a socket, for code that creates its own client: `fakeApi(server.respond)`. */
  readonly respond: Responder = (call) => {
    const { status, body } = this.#take(call.method, call.path, call.query, call.body);
    return json(body, status)(call);
  };

  /** Puts an object under `collection`, such as `/api/v1/namespaces/shop/pods`. */
  add(collection: string, name: string, fields: { metadata?: object; [field: string]: unknown } = {}): void {
    const namespace = /\/namespaces\/([^/]+)\//.exec(collection)?.[1];
    const metadata = { ...(namespace === undefined ? {} : { namespace }), ...fields.metadata, name };
    this.objects.set(`${collection}/${name}`, { ...fields, metadata });
  }

  /** The requests that may write, each as `DELETE /api/v1/...`. */
  get writes(): string[] {
    return this.calls.filter(({ method }) => method !== "GET").map(({ method, path }) => `${method} ${path}`);
  }

  /** The requests with one method for one path. */
  callsOf(method: string, path: string): MemoryCall[] {
    return this.calls.filter((call) => call.method === method && call.path === path);
  }

  #take(method: string, path: string, query: URLSearchParams, body: string): Answer {
    const call = { method, path, query, body: body === "" ? undefined : JSON.parse(body) };
    this.calls.push(call);
    return this.onCall(call) ?? this.#answer(call);
  }

  #answer({ method, path, query, body }: MemoryCall): Answer {
    const parsed = parseObjectPath(path);
    // No group of optional kinds is served, as in a cluster without them.
    if (/^\/apis\/[^/]+$/.test(path)) return refusal(404, "NotFound");
    // What else is neither an object nor a collection is an empty list, except subresources.
    const isList = parsed === undefined ? !path.includes("/namespaces/") : parsed.name === undefined;
    if (isList) return { status: 200, body: this.#list(path, query) };
    const object = this.objects.get(path);
    if (object === undefined) return refusal(404, "NotFound");
    if (method === "DELETE") this.objects.delete(path);
    if (method === "PATCH") this.objects.set(path, mergePatch(object, body) as Stored);
    return { status: 200, body: this.objects.get(path) ?? object };
  }

  #list(collection: string, query: URLSearchParams): object {
    const isSelected = selecting(collection, { labelSelector: query.get("labelSelector") ?? undefined });
    const items = [...this.objects].flatMap(([path, object]) => (isSelected(path, object) ? [object] : []));
    return { kind: "List", metadata: { resourceVersion: "1" }, items };
  }
}

/** A refusal in the API server's words. */
export function refusal(code: number, reason: string): Answer {
  return { status: code, body: { kind: "Status", code, reason, message: `${reason} by the fake` } };
}
