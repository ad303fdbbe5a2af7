import { SwitchbackError } from "#lib/errors/errors.ts";
import { jitterRetryAfter } from "./backoff.ts";
import { readBody } from "./body.ts";
import { type CallContext, withDeadline } from "./deadline.ts";
import { listAll } from "./list.ts";
import { type Query, withQuery } from "./paths.ts";
import { retryAfterOf, statusError } from "./status.ts";
import { openStream, type StreamEnd, type StreamOptions } from "./stream.ts";
import { pause } from "./time.ts";
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
  propagationPolicy?: "Foreground" | "Background" | "Orphan";
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
 * A 429 with Retry-After is retried. A 503 with Retry-After is retried if the call is idempotent. A retry waits for
 * Retry-After, plus up to half of it. After two retries, or at the deadline, the call throws the last error with
 * `retryAfterMs`. Nothing else is retried here: callers have their own retry loops.
 */
export interface KubeClient {
  get<T>(path: string, query?: Query, options?: ReadOptions): Promise<T>;
  /** Reads all objects in pages; a 410 between pages starts over. The deadline applies to each page. */
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
  /** Returns text, such as `/metrics` or a response through a Service proxy. Never retried. */
  raw(path: string, options?: RawOptions): Promise<RawResponse>;
  /** Reads a long response line by line: watches. See `stream.ts`. */
  stream(path: string, query: Query, options: StreamOptions): Promise<StreamEnd>;
  /** Closes the connections; running calls fail. */
  close(): void;
}

const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;
/** Maximum number of attempts of one call, including the first, if the server sends Retry-After. */
const MAX_ATTEMPTS = 3;

type Send = (
  call: Pick<Exchange, "method" | "body" | "headers">,
  path: string,
  options?: CallOptions & { maxBytes?: number },
) => Promise<RawResponse>;

interface ClientDefaults {
  /** Default deadline of a call, milliseconds. */
  readonly timeoutMs?: number;
  /** The server and the origin of its configuration, for messages. */
  readonly place?: string;
  /** For the jitter that is added to Retry-After. Returns a number in [0, 1). */
  readonly random?: () => number;
}

export function createClient(transport: Transport, defaults: ClientDefaults = {}): KubeClient {
  const { place, random = Math.random } = defaults;
  const timeoutMs = defaults.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const send: Send = (call, path, { maxBytes = DEFAULT_MAX_BYTES, ...options } = {}) => {
    const what = describe(call.method, path);
    const limits = { anyStatus: false, maxBytes, place };
    return withDeadline(what, { timeoutMs, ...options, place }, transport, (context) =>
      withRetries(context, { repeatable: idempotent(call), random }, () =>
        exchange(transport, { ...call, path }, context, limits),
      ),
    );
  };
  const get = async <T>(path: string, query?: Query, { accept, ...options }: ReadOptions = {}) => {
    const call = { method: "GET", ...(accept === undefined ? {} : { headers: { accept } }) };
    return parse<T>(await send(call, withQuery(path, query), options), describe("GET", path));
  };
  return {
    get,
    list: (path, query, options) => listAll({ get }, path, query, options),
    ...writes(send),
    raw: (path, options = {}) => raw(transport, path, { timeoutMs, ...options, place }),
    stream: (path, query, options) => openStream(transport, describe("GET", path), withQuery(path, query), options),
    close: () => transport.close(),
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
    return parse<T>(await send(call, withQuery(path, query), options), describe(method, path));
  }
  return {
    // JSON is valid YAML; this content type selects the apply operation.
    apply: (path, object, options) => write("PATCH", path, object, APPLY, options),
    mergePatch: (path, body, options) => write("PATCH", path, body, "application/merge-patch+json", options),
    jsonPatch: (path, operations, options) => write("PATCH", path, operations, JSON_PATCH, options),
    create: (path, object, options) => write("POST", path, object, "application/json", options),
    replace: (path, object, options) => write("PUT", path, object, "application/json", options),
    async delete(path, options = {}) {
      const { preconditions, propagationPolicy, dryRun } = options;
      await write("DELETE", path, { preconditions, propagationPolicy }, "application/json", {
        ...options,
        ...(dryRun ? { dryRun } : {}),
      });
    },
  };
}

const APPLY = "application/apply-patch+yaml";
const JSON_PATCH = "application/json-patch+json";

/** Whether the request can be sent twice. A JSON Patch may append to a list, and a POST may generate a name. */
function idempotent(call: Pick<Exchange, "method" | "headers">): boolean {
  return call.method !== "POST" && call.headers?.["content-type"] !== JSON_PATCH;
}

function raw(
  transport: Transport,
  path: string,
  options: RawOptions & { timeoutMs: number; place: string | undefined },
): Promise<RawResponse> {
  const { method = "GET", query, headers = {}, body, anyStatus = false, place } = options;
  const call = { method, headers: { accept: "*/*", ...headers }, ...(body === undefined ? {} : { body }) };
  const limits = { anyStatus, maxBytes: options.maxBytes ?? DEFAULT_MAX_BYTES, place };
  return withDeadline(describe(method, path), options, transport, (context) =>
    exchange(transport, { ...call, path: withQuery(path, query) }, context, limits),
  );
}

async function exchange(
  transport: Transport,
  call: Pick<Exchange, "method" | "path" | "body" | "headers">,
  context: CallContext,
  limits: { anyStatus: boolean; maxBytes: number; place: string | undefined },
): Promise<RawResponse> {
  const response = await transport.send({
    ...call,
    channel: "call",
    idempotent: idempotent(call),
    signal: context.signal,
  });
  const status = response.statusCode ?? 0;
  const text = await readBody(response, context.what, limits.maxBytes);
  if (status >= 400 && !limits.anyStatus) {
    const refused = status === 401 && limits.place !== undefined ? ` (the credentials for ${limits.place})` : "";
    throw statusError(`${context.what}${refused}`, status, text, response.headers["retry-after"]);
  }
  return { status, contentType: response.headers["content-type"] ?? "", text };
}

interface Retries {
  /** Whether the request can be sent twice. */
  readonly repeatable: boolean;
  readonly random: () => number;
}

async function withRetries(
  context: CallContext,
  { repeatable, random }: Retries,
  attempt: () => Promise<RawResponse>,
): Promise<RawResponse> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt();
    } catch (error) {
      const asked = retryDelay(error, repeatable);
      const waitMs = asked === undefined ? Number.POSITIVE_INFINITY : jitterRetryAfter(asked, random);
      if (attempts === MAX_ATTEMPTS || waitMs >= context.remainingMs()) throw error;
      await pause(waitMs, context.signal);
    }
  }
}

/** A 429 is rejected before the request has any effect; a 503 may be sent after one. */
function retryDelay(error: unknown, repeatable: boolean): number | undefined {
  if (!(error instanceof SwitchbackError)) return undefined;
  if (error.status !== 429 && !(error.status === 503 && repeatable)) return undefined;
  return retryAfterOf(error);
}

/** Every response of the API server is an object. */
function parse<T>(response: RawResponse, what: string): T {
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
