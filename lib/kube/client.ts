import { SwitchbackError } from "#lib/errors/errors.ts";
import { readBody } from "./body.ts";
import { listAll } from "./list.ts";
import { type Query, withQuery } from "./paths.ts";
import { statusError, unreachable } from "./status.ts";
import { openStream, type StreamEnd, type StreamOptions } from "./stream.ts";
import { unlessAborted } from "./time.ts";
import type { Exchange, Transport } from "./transport.ts";
import type { CallOptions, JsonPatchOperation, ReadOptions } from "./types.ts";

export interface WriteOptions extends CallOptions {
  /** The server validates the request and responds without persisting it. */
  dryRun?: boolean;
  fieldManager?: string;
}

interface ApplyOptions extends WriteOptions {
  fieldManager: string;
  /** Takes over fields from other managers. Without `force`, a conflict is a 409. */
  force?: boolean;
}

interface DeleteOptions extends CallOptions {
  dryRun?: boolean;
  /** Deletes the object only if it has this uid or resourceVersion; otherwise 409. */
  preconditions?: { uid?: string; resourceVersion?: string };
}

interface RawOptions extends CallOptions {
  method?: string;
  query?: Query;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /**
   * Like `maxBytes` of `get`: a longer response is an error. The length of a response through a Service proxy cannot
   * be trusted.
   */
  maxBytes?: number;
  /**
   * Returns responses with any status, instead of throwing from 400 on. A backend behind a Service proxy has its own
   * statuses.
   */
  anyStatus?: boolean;
}

interface RawResponse {
  status: number;
  contentType: string;
  text: string;
}

/**
 * A JSON client for the API server. `path` is always the full path, `/api/v1/namespaces/x/configmaps/y` (see
 * `paths.ts`).
 *
 * Every call has a deadline. Failures are SwitchbackErrors: `kube-status` (a KubeStatusError with `status`),
 * `kube-expired` (410), `kube-unreachable` (no response, or none in time), `data-corrupt` (a response that is not
 * JSON).
 *
 * Nothing is retried here: callers have their own retry loops. A request is sent a second time only after a 401, if
 * there are new credentials (see `transport.ts`).
 */
export interface KubeClient {
  get<T>(path: string, query?: Query, options?: ReadOptions): Promise<T>;
  /** Reads all objects in pages. The deadline applies to each page. */
  list<T>(path: string, query?: Query, options?: ReadOptions): Promise<{ items: T[]; resourceVersion: string }>;
  /** Server-side apply: creates or updates the object. An identical apply changes nothing and causes no watch event. */
  apply<T>(path: string, object: object, options: ApplyOptions): Promise<T>;
  mergePatch<T>(path: string, body: object, options?: WriteOptions): Promise<T>;
  jsonPatch<T>(path: string, operations: readonly JsonPatchOperation[], options?: WriteOptions): Promise<T>;
  /** POST to the collection's path. */
  create<T>(path: string, object: object, options?: WriteOptions): Promise<T>;
  /** PUT. With `metadata.resourceVersion` it is a compare-and-swap: 409 if that version is not the current one. */
  replace<T>(path: string, object: object, options?: WriteOptions): Promise<T>;
  delete(path: string, options?: DeleteOptions): Promise<void>;
  /** Returns text, such as `/metrics` or a response through a Service proxy. */
  raw(path: string, options?: RawOptions): Promise<RawResponse>;
  /** Reads a long response line by line: watches. See `stream.ts`. */
  stream(path: string, query: Query, options: StreamOptions): Promise<StreamEnd>;
  /** Closes the connections; running calls fail. */
  close(): void;
}

const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;

type Send = (
  call: Pick<Exchange, "method" | "body" | "headers">,
  path: string,
  options?: ReadOptions & Pick<RawOptions, "anyStatus">,
) => Promise<RawResponse>;

interface ClientDefaults {
  /** Default deadline of a call, milliseconds. */
  readonly timeoutMs?: number;
  /** The server and the origin of its configuration, for messages. */
  readonly place?: string;
}

export function createClient(transport: Transport, defaults: ClientDefaults = {}): KubeClient {
  const send = sender(transport, defaults);
  const get = async <T>(path: string, query?: Query, { accept, ...options }: ReadOptions = {}) => {
    const call = { method: "GET", ...(accept === undefined ? {} : { headers: { accept } }) };
    return parseObject<T>(await send(call, withQuery(path, query), options), describe("GET", path));
  };
  return {
    get,
    list: (path, query, options) => listAll({ get }, path, query, options),
    ...writes(send),
    async raw(path, { method = "GET", query, headers, body, ...options } = {}) {
      const call = { method, headers: { accept: "*/*", ...headers }, ...(body === undefined ? {} : { body }) };
      return await send(call, withQuery(path, query), options);
    },
    stream: (path, query, options) => openStream(transport, describe("GET", path), withQuery(path, query), options),
    close: () => transport.close(),
  };
}

/**
 * Sends a call and reads its response. The call ends at its deadline even if node:http does not end the request: it
 * leaves a request that waits for a connection.
 */
function sender(transport: Transport, defaults: ClientDefaults): Send {
  const { place } = defaults;
  return async (call, path, options = {}) => {
    const { signal, maxBytes = DEFAULT_MAX_BYTES, anyStatus = false, channel = "call" } = options;
    // A timer takes whole milliseconds only.
    const timeoutMs = Math.ceil(options.timeoutMs ?? defaults.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const what = describe(call.method, path);
    signal?.throwIfAborted();
    const deadline = AbortSignal.timeout(timeoutMs);
    const either = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    const exchange = async (): Promise<RawResponse> => {
      const response = await transport.send({ ...call, path, channel, signal: either });
      const { statusCode: status = 0, headers } = response;
      const text = await readBody(response, what, maxBytes);
      if (status < 400 || anyStatus) return { status, contentType: headers["content-type"] ?? "", text };
      const refused = status === 401 && place !== undefined ? ` (the credentials for ${place})` : "";
      throw statusError(`${what}${refused}`, status, text, headers["retry-after"]);
    };
    try {
      return await unlessAborted(exchange(), either);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (!deadline.aborted) throw unreachable(what, error);
      // The idle connections probably have the same fault.
      transport.dropIdle();
      const where = place === undefined ? "" : ` from ${place}`;
      throw new SwitchbackError("kube-unreachable", `${what}: no response within ${timeoutMs / 1000} s${where}`);
    }
  };
}

function writes(send: Send): Pick<KubeClient, "apply" | "mergePatch" | "jsonPatch" | "create" | "replace" | "delete"> {
  async function write<T>(
    method: string,
    path: string,
    body: unknown,
    type: string,
    options: Partial<ApplyOptions> = {},
  ) {
    const { dryRun, fieldManager, force } = options;
    const query = { fieldManager, force: force || undefined, dryRun: dryRun ? "All" : undefined };
    const call = { method, body: JSON.stringify(body), headers: { "content-type": type } };
    return parseObject<T>(await send(call, withQuery(path, query), options), describe(method, path));
  }
  return {
    // JSON is valid YAML; this content type selects the apply operation.
    apply: (path, object, options) => write("PATCH", path, object, "application/apply-patch+yaml", options),
    mergePatch: (path, body, options) => write("PATCH", path, body, "application/merge-patch+json", options),
    jsonPatch: (path, operations, options) => write("PATCH", path, operations, "application/json-patch+json", options),
    create: (path, object, options) => write("POST", path, object, "application/json", options),
    replace: (path, object, options) => write("PUT", path, object, "application/json", options),
    async delete(path, { preconditions, ...options } = {}) {
      await write("DELETE", path, { preconditions }, "application/json", options);
    },
  };
}

/** Parses a response of the API server, which is always an object. Throws `data-corrupt`. */
export function parseObject<T>(response: Pick<RawResponse, "text" | "contentType">, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(response.text);
  } catch {
    const type = response.contentType || "no type";
    throw new SwitchbackError("data-corrupt", `${what}: the response is not JSON (${type})`);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as T;
  throw new SwitchbackError("data-corrupt", `${what}: the response is not an object; is this an API server?`);
}

function describe(method: string, path: string): string {
  return `${method} ${path.split("?", 1)[0]}`;
}
