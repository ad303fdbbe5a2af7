import * as v from "valibot";
import { ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import { finite, number, object, word } from "#lib/errors/schemas.ts";
import { attempt, renderFlaw } from "#lib/errors/validation.ts";
import { type KubeClient, parseObject } from "#lib/kube/client.ts";
import { corePath, type Query, serviceProxyPath } from "#lib/kube/paths.ts";
import { statusError } from "#lib/kube/status.ts";
import { pause } from "#lib/kube/time.ts";

/**
 * The controller's page with all claims, including refused ones, and their namespaces. A request needs the key in
 * `STATUS_SECRET`.
 */
export const STATUS_PATH = "/status";
/** The Secret with the key, in Switchback's own namespace. The right to read it is the right to read the page. */
export const STATUS_SECRET = "switchback-status";
/**
 * The header with the key. It is not `Authorization`, because the API server removes that from requests that it
 * proxies.
 */
export const STATUS_KEY_HEADER = "switchback-status-key";

const FIELD = "key";
/** Accepts a key that fits into a header and is too long to guess. */
const USABLE = /^[\x21-\x7e]{32,256}$/;

/** A Secret's data, as the API server encodes it. */
export interface StatusSecret {
  readonly data?: Readonly<Record<string, string>>;
}

/** Returns the data of a Secret with this key. */
export function statusSecretData(key: string): Record<string, string> {
  return { [FIELD]: Buffer.from(key, "latin1").toString("base64") };
}

/** Returns the key in a Secret. Undefined if it is missing or cannot be used. */
export function statusKeyIn({ data }: StatusSecret): string | undefined {
  const key = Buffer.from(data?.[FIELD] ?? "", "base64").toString("latin1");
  return USABLE.test(key) ? key : undefined;
}

/**
 * Reads the key with the caller's rights. Returns undefined if it is missing or not written yet. Throws the errors of
 * `KubeClient.get`, including 403.
 */
export async function readStatusKey(
  client: Pick<KubeClient, "get">,
  namespace: string,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const path = corePath("secrets", namespace, STATUS_SECRET);
  const secret = await ifFound(client.get<StatusSecret>(path, {}, signal && { signal }));
  return secret && statusKeyIn(secret);
}

const reasonSchema = object({ code: word, text: v.string() });
/** An owner of opted-in pods (controller/rollout/report.ts). */
const workloadSchema = object({
  namespace: v.string(),
  kind: word,
  name: v.string(),
  stale: finite,
  /** `stuck`: it stays stale until a person acts. */
  standing: word,
  ...reasonSchema.entries,
});
/** The fields of the page that commands rely on. The controller may have another version. */
export const statusSchema = object({
  /** Whether the leader answered. Only the leader knows held removals and the state of workloads. */
  leader: v.boolean(),
  /** The revision of the published map. */
  revision: v.optional(v.string()),
  synced: v.boolean(),
  sources: v.array(
    object({
      name: v.string(),
      synced: v.boolean(),
      /** Objects that the controller refuses in whole or in part, each with its place. */
      problems: v.optional(v.array(object({ place: v.string(), ...reasonSchema.entries }))),
    }),
  ),
  hold: v.optional(object({ names: finite, of: finite, until: number(0, 8.64e15) })),
  warnings: v.array(reasonSchema),
  names: v.array(
    object({
      name: v.string(),
      reason: v.optional(reasonSchema),
      /** The addresses that the cluster's DNS returned for the name. */
      resolved: v.optional(v.array(v.string())),
    }),
  ),
  running: v.optional(object({ workloads: v.array(workloadSchema) })),
});

type Frozen<T> = T extends object ? { readonly [Key in keyof T]: Frozen<T[Key]> } : T;
export type StatusPage = Frozen<v.InferOutput<typeof statusSchema>>;

const NO_STATUS =
  "the response is not the status of a Switchback controller; check which pods the Service switchback-controller " +
  "selects";

interface ReadOptions {
  /** Without it, only a dump shows the page. */
  readonly key: string | undefined;
  /** Selects the workloads on the page. See `workloadQuery` of the controller. */
  readonly query?: Query | undefined;
  readonly signal?: AbortSignal | undefined;
}

const SERVICE = { name: "switchback-controller", port: "http" };
/** Maximum size of the page. With 50,000 names it has 15 MB. */
const MAX_BYTES = 64 * 1024 * 1024;
/**
 * Maximum number of attempts. The API server sends each request to any replica. Only one leads, and another may not
 * know the key yet.
 */
const TRIES = 20;
const RETRY_MS = 100;

/**
 * Reads the leading controller's page through the API server. Returns a follower's page if no leader answers, for
 * example just after the last leader stopped. Throws `status-refused` if the key is missing or wrong, and the API
 * server's errors. Throws `data-corrupt` for another page, with the name of its wrong field.
 */
export async function readLeaderStatus<T extends StatusPage>(
  client: Pick<KubeClient, "raw">,
  namespace: string,
  { key, query, signal }: ReadOptions,
): Promise<T> {
  let status: T | undefined;
  let refusal: SwitchbackError | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    if (tries > 0) await pause(RETRY_MS, signal);
    const page = await readPage<T>(client, namespace, { key, query, signal });
    if (!(page instanceof SwitchbackError)) {
      status = page;
      if (status.leader) return status;
    } else {
      refusal = page;
      if (key === undefined) break;
    }
  }
  if (status !== undefined) return status;
  throw refusal ?? new SwitchbackError("data-corrupt", "no answer from the controller");
}

/** Returns the page of any replica, or its refusal. Only the API server's own refusals are JSON. */
async function readPage<T>(
  client: Pick<KubeClient, "raw">,
  namespace: string,
  { key, query, signal }: Pick<ReadOptions, "key" | "query" | "signal">,
): Promise<T | SwitchbackError> {
  const path = serviceProxyPath(namespace, SERVICE, STATUS_PATH);
  const { status, text, contentType } = await client.raw(path, {
    maxBytes: MAX_BYTES,
    anyStatus: true,
    ...(query && { query }),
    ...(key !== undefined && { headers: { [STATUS_KEY_HEADER]: key } }),
    ...(signal && { signal }),
  });
  const what = `GET ${path}`;
  if (status < 400) {
    const page = parseObject({ text, contentType }, what);
    const { flaw } = attempt(statusSchema, page);
    if (flaw === undefined) return page as T;
    throw new SwitchbackError("data-corrupt", `${NO_STATUS} (${renderFlaw(flaw)})`);
  }
  if (status === 403 && contentType.startsWith("text/plain")) {
    return new SwitchbackError("status-refused", `${what}: ${text.trim().slice(0, 500)}`);
  }
  throw statusError(what, status, text);
}
